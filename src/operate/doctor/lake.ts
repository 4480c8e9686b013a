import { existsSync } from 'node:fs'
import { lstat, readdir, readFile, readlink, realpath, stat } from 'node:fs/promises'
import { join, relative } from 'node:path'
import type { CompanyPaths } from '#src/core/company/company.ts'
import {
  countPublishedBytes,
  latestLink,
  listPublishedFiles,
  type Manifest,
  readManifest,
  type SnapshotFile,
  snapshotsDirectory,
} from '#src/core/lake/manifest.ts'
import { READ_ME } from '#src/core/lake/publish.ts'
import { Database } from '#src/core/warehouse/database.ts'
import { literal } from '#src/core/warehouse/quoted.ts'
import { type Finding, ok, prependWell, problem, warning } from '#src/extras/extra.ts'
import { findExcess } from '#src/lib/access.ts'
import { pluralize } from '#src/lib/count.ts'
import { findSystemCode, getMessage, throwIfInterrupted } from '#src/lib/errors.ts'
import { digestFile } from '#src/lib/hash.ts'
import { quoteForShell } from './place.ts'
import type { WarehouseState } from './warehouse.ts'

const LATEST = 'latest'
const SNAPSHOT = 'snapshot'
const CATALOG = 'catalog'
const PUBLISHED_MODE = 0o444
const CATALOG_FILE = 'catalog.duckdb'
const MANIFEST_FILE = 'manifest.json'

/** Gives an intact snapshot: one of a rebuilt warehouse shares no file with earlier ones. */
const WRITE_ALL = '`editais rebuild`, which writes every file again'
const OTHER_USER = 'Run as the user who owns the files, or change their owner to this user (chown -R)'
const SUPERSEDED = 'It is superseded, and is removed once SNAPSHOT_KEEP is over'

type Options = {
  readonly paths: CompanyPaths
  /** Null if it cannot be read. */
  readonly warehouse: WarehouseState | null
  /** Whether anything was ever logged, and so must have been published. */
  readonly hasLog: boolean
  /** Sizes instead of checksums. */
  readonly quick: boolean
  readonly signal: AbortSignal
  readonly onSnapshot: (done: number, total: number) => void
}

/** Checks that `latest` is an intact snapshot of the warehouse, and that every snapshot is as it was published. */
export async function checkLake(options: Options): Promise<{ findings: Finding[]; snapshotBytes: number }> {
  const { paths, onSnapshot, signal } = options
  const directory = snapshotsDirectory(paths.lake)
  const names = (await readdir(directory).catch(() => [])).sort()
  const { finding, name: latest } = await checkLatest(options, names)
  const findings = [finding]
  const checksums = new Map<string, string>()
  let finished = 0
  let well = 0
  let snapshotBytes = 0
  const ofFiles: Finding[] = []
  for (const [done, name] of names.entries()) {
    throwIfInterrupted(signal)
    onSnapshot(done, names.length)
    const path = join(directory, name)
    const manifest = await readManifest(path)
    if (!isManifest(manifest)) {
      if (name !== latest) ofFiles.push(unfinished(path, await readRefusal(path)))
      continue
    }
    finished += 1
    const isLatest = name === latest
    const found = await checkSnapshot(path, manifest, { ...options, isLatest, checksums })
    if (found.length === 0) well += 1
    ofFiles.push(...found)
    if (!isLatest) continue
    snapshotBytes = countPublishedBytes(manifest)
    findings.push(...checkFreshness(path, manifest, options.warehouse))
    const unusable = new Set(ofFiles.map(({ subject }) => subject))
    findings.push(...(await checkCatalog(path, manifest, unusable)))
  }
  const how = options.quick ? 'sizes' : 'sizes and checksums'
  if (well > 0) {
    const count = well < finished ? `${well} of ${finished}` : finished
    const matching =
      count === 1 ? '1 snapshot matches its manifest' : `${count} snapshots match their manifests`
    findings.push(ok(SNAPSHOT, directory, `${matching} (${how})`))
  }
  findings.push(...ofFiles)
  return { findings, snapshotBytes }
}

async function checkLatest(
  { paths, hasLog }: Options,
  names: readonly string[],
): Promise<{ finding: Finding; name: string | null }> {
  const link = latestLink(paths.lake)
  const broken = (what: string, mend: string) => ({
    finding: problem(LATEST, link, what, mend),
    name: null,
  })
  const about = await lstat(link).catch(() => null)
  if (about === null && !hasLog) return { finding: ok(LATEST, link, 'Nothing to publish yet'), name: null }
  if (about === null) return broken('is missing: readers find no snapshot', '`editais publish`')
  if (!about.isSymbolicLink())
    return broken('is not a link', `rm -r ${quoteForShell(link)}, then \`editais publish\``)
  const target = await readlink(link)
  const name = target.replace(/^snapshots\//, '')
  // A publish looks only at the name, so it would not correct the rest of the path.
  if (target !== `snapshots/${name}` || name.includes('/'))
    return broken(
      `points to ${target}, not to a snapshot beside it`,
      `rm ${quoteForShell(link)}, then \`editais publish\``,
    )
  if (!names.includes(name)) return broken(`points to ${target}, which is missing`, '`editais publish`')
  const manifest = await readManifest(join(snapshotsDirectory(paths.lake), name))
  if (!isManifest(manifest)) {
    const refusal = await readRefusal(join(snapshotsDirectory(paths.lake), name))
    const [what, mend] = refusal
      ? [`whose manifest cannot be read (${refusal})`, chooseMend(refusal, '`editais publish`')]
      : ['which has no manifest', '`editais publish`']
    return { ...broken(`points to ${target}, ${what}`, mend), name }
  }
  return { finding: ok(LATEST, link, `Points to ${name}`), name }
}

/** Returns whether a manifest was written by this version or an earlier one: it has the fields that are checked below. */
function isManifest(manifest: Manifest | null): manifest is Manifest {
  if (manifest === null || typeof manifest.directory !== 'string') return false
  const tables = Object.values(manifest.tables ?? {})
  return tables.length > 0 && tables.every(table => Array.isArray(table?.files))
}

/** Returns the error code if there is a manifest that cannot be read; else null. */
async function readRefusal(directory: string): Promise<string | null> {
  const code = await readFile(join(directory, MANIFEST_FILE)).then(() => undefined, findSystemCode)
  return code === undefined || code === 'ENOENT' || code === 'ENOTDIR' ? null : code
}

/**
 * Returns what to do about a file that cannot be read. One that merely belongs to another user does not need to be written
 * again.
 */
function chooseMend<T>(code: string | undefined, otherwise: T): T | string {
  return code === 'EACCES' || code === 'EPERM' ? OTHER_USER : otherwise
}

function unfinished(path: string, refusal: string | null): Finding {
  if (refusal === null)
    return warning(SNAPSHOT, path, 'was never finished. This is harmless: the next snapshot removes it')
  const what = `was not checked: its manifest cannot be read (${refusal})`
  return warning(SNAPSHOT, path, what, chooseMend(refusal, null))
}

function checkFreshness(path: string, manifest: Manifest, warehouse: WarehouseState | null): Finding[] {
  if (warehouse === null) return []
  if (manifest.warehouse_id === warehouse.warehouse_id && manifest.data_version === warehouse.data_version) {
    return []
  }
  return [
    warning(
      LATEST,
      path,
      `holds data version ${manifest.data_version}, but the warehouse has version ${warehouse.data_version}: the next run publishes it`,
      '`editais publish`',
    ),
  ]
}

type Snapshot = Options & { readonly isLatest: boolean; readonly checksums: Map<string, string> }

async function checkSnapshot(path: string, manifest: Manifest, options: Snapshot): Promise<Finding[]> {
  const findings: Finding[] = []
  // The latest snapshot must be fixed; an earlier one is read only by those who opened it before.
  const found = (subject: string, what: string, mend: string) =>
    findings.push(
      options.isLatest
        ? problem(SNAPSHOT, subject, what, mend)
        : warning(SNAPSHOT, subject, what, SUPERSEDED),
    )
  if (options.isLatest && !(await isSamePlace(manifest.directory, path)))
    found(
      path,
      `was published as ${manifest.directory}, and its views still read that path`,
      '`editais publish`',
    )
  const files = listPublishedFiles(manifest)
  const catalog = { path: CATALOG_FILE, bytes: null, sha256: manifest.catalog_sha256 ?? null }
  for (const file of [...files, catalog]) {
    const subject = join(path, file.path)
    const wrong = await checkFile(subject, file, options)
    if (wrong !== null) found(subject, wrong.what, chooseMend(wrong.code, WRITE_ALL))
    else {
      const { mode } = await stat(subject)
      if (findExcess(mode, PUBLISHED_MODE) === 0) continue
      const mend = `chmod ${(mode & PUBLISHED_MODE).toString(8)} ${quoteForShell(subject)}`
      findings.push(warning(SNAPSHOT, subject, 'is writable, but a published file must never change', mend))
    }
  }
  const known = new Set([MANIFEST_FILE, CATALOG_FILE, READ_ME, ...files.map(file => file.path)])
  for (const entry of await readdir(path, { recursive: true, withFileTypes: true })) {
    const subject = join(entry.parentPath, entry.name)
    if (entry.isDirectory() || known.has(relative(path, subject))) continue
    found(
      subject,
      'is not in the manifest, but readers of *.parquet read it too',
      `rm ${quoteForShell(subject)}`,
    )
  }
  return findings
}

/** Returns what is wrong with a file, with the error code if it cannot be read; null if nothing is wrong. */
async function checkFile(
  path: string,
  { bytes, sha256 }: { bytes: number | null; sha256: string | null },
  { quick, checksums }: Snapshot,
): Promise<{ what: string; code?: string } | null> {
  try {
    const about = await stat(path)
    if (bytes !== null && about.size !== bytes)
      return { what: `has ${pluralize(about.size, 'byte')} instead of ${bytes}` }
    if (quick || sha256 === null) return null
    // Snapshots share unchanged files.
    const file = `${about.dev}:${about.ino}`
    const known = checksums.get(file) ?? (await digestFile(path)).sha256
    checksums.set(file, known)
    return known === sha256 ? null : { what: 'differs from what was published (sha256)' }
  } catch (error) {
    const code = findSystemCode(error)
    if (code === 'ENOENT') return { what: 'is missing' }
    return { what: `cannot be read (${code ?? getMessage(error)})`, ...(code ? { code } : {}) }
  }
}

async function isSamePlace(one: string, other: string): Promise<boolean> {
  const [a, b] = await Promise.all([one, other].map(path => realpath(path).catch(() => null)))
  return a !== null && a === b
}

/** Checks that it opens, that it shows exactly the snapshot's files, and that these have the manifest's row counts. */
async function checkCatalog(
  directory: string,
  manifest: Manifest,
  unusable: ReadonlySet<string>,
): Promise<Finding[]> {
  const path = join(directory, CATALOG_FILE)
  if (!existsSync(path)) return []
  const db = await Database.open(path, { readOnly: true, threads: 1 }).catch(getMessage)
  if (typeof db === 'string') return [problem(CATALOG, path, `cannot be opened: ${db}`, WRITE_ALL)]
  try {
    const views = await db.rows<{ name: string; sql: string }>(
      'SELECT view_name AS name, sql FROM duckdb_views() WHERE NOT internal',
    )
    const shown = new Map(views.map(({ name, sql }) => [name, filesIn(sql)]))
    const findings: Finding[] = []
    for (const [table, { files }] of Object.entries(manifest.tables)) {
      const own = files.map(file => join(manifest.directory, file.path))
      if (!isSameSet(shown.get(table) ?? [], own)) {
        findings.push(problem(CATALOG, path, `reads ${table} from files other than its own`, WRITE_ALL))
      }
      for (const file of files) {
        const subject = join(directory, file.path)
        // Unusable files already have a finding.
        const wrong = unusable.has(subject) ? null : await checkRowCount(db, subject, file)
        if (wrong !== null) findings.push(problem(SNAPSHOT, subject, wrong, WRITE_ALL))
      }
    }
    return prependWell(findings, ok(CATALOG, path, `Opens; ${views.length} views read exactly its files`))
  } catch (error) {
    return [problem(CATALOG, path, `cannot be read: ${getMessage(error)}`, WRITE_ALL)]
  } finally {
    db.close()
  }
}

async function checkRowCount(db: Database, path: string, file: SnapshotFile): Promise<string | null> {
  try {
    const { rows } = await db.row<{ rows: number }>(
      `SELECT num_rows AS rows FROM parquet_file_metadata(${literal(path)})`,
    )
    return rows === file.rows ? null : `has ${pluralize(rows, 'row')} instead of ${file.rows}`
  } catch (error) {
    return `is not a readable Parquet file: ${getMessage(error)}`
  }
}

/** Returns the paths in a view's `read_parquet([…])`: texts in SQL, or a place and a text that is joined to it. */
function filesIn(sql: string): string[] {
  let place = ''
  return [...sql.matchAll(/'((?:[^']|'')*)'(\)? \|\| )?/g)].flatMap(([, text = '', joined]) => {
    const path = `${place}${text}`
    place = joined === undefined ? '' : text
    return joined === undefined && path.endsWith('.parquet') ? [path.replaceAll("''", "'")] : []
  })
}

function isSameSet(some: readonly string[], others: readonly string[]): boolean {
  return some.length === others.length && new Set([...some, ...others]).size === some.length
}
