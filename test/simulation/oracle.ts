import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { publishedColumns, TABLES, type Table } from '#schema/tables.ts'
import type { CompanyPaths } from '#src/company.ts'
import type { Manifest } from '#src/lake/manifest.ts'
import { sealedSegments } from '#src/rawlog/files.ts'
import type { RunReport } from '#src/report.ts'
import type { Entry } from '#src/sandbox/world.ts'
import { Database, literal } from '#src/warehouse/database.ts'
import { alertRows, analysisRow, editalRow, itemRows, type Row, requirementRows } from '#test/support/rows.ts'
import type { Ledger, Shown } from './company.ts'

/** What must hold did not. */
export class Violation extends Error {
  override readonly name = 'Violation'
}

export function must(holds: boolean, what: () => string): asserts holds {
  if (!holds) throw new Violation(what())
}

/** What depends on the run that wrote a row, and not on a document. */
const OF_THE_RUN = ['company', 'run_id', 'first_seen_at', 'changed_at', 'fetched_at', 'source_updated_at']

/** A company's published tables as they are in a file, in a form that can be compared with documents. */
export type Stored = {
  readonly notices: ReadonlyMap<string, StoredNotice>
  /** An analysis with all that belongs to it, as one text, by notice. */
  readonly analyses: ReadonlyMap<string, string>
  /** The notice's `updated_at` for which each analysis was fetched; microseconds. */
  readonly sources: ReadonlyMap<string, number>
  /** Each row of the tables that only grow. */
  readonly history: ReadonlySet<string>
}

type StoredNotice = {
  readonly text: string
  readonly deleted: boolean
  readonly state: string
  readonly updatedAt: number
  readonly status: string
}

const PARTS = ['requirements', 'items', 'alerts'] as const

/**
 * What the latest snapshot says.
 * @throws Violation unless that is the warehouse's state, all tables together (I5).
 */
export async function readStored(paths: CompanyPaths): Promise<Stored> {
  const manifest = checkLatest(paths, true) as Manifest
  const db = await Database.open(join(manifest.directory, 'catalog.duckdb'), { readOnly: true, threads: 1 })
  try {
    await checkPublished(db, paths, manifest)
    const rows = new Map<string, Row[]>()
    for (const table of TABLES.filter(({ document }) => document !== 'kept'))
      rows.set(table.name, await rowsOf(db, table))
    const versions = ['edital_versions', 'analysis_versions'].flatMap(name =>
      (rows.get(name) ?? []).map(row => `${name} ${JSON.stringify(row)}`),
    )
    const byNotice = PARTS.map(part => Map.groupBy(rows.get(part) ?? [], row => String(row.edital_id)))
    return {
      notices: new Map(rows.get('editais')?.map(row => [String(row.edital_id), storedNotice(row)])),
      analyses: new Map(
        rows.get('analyses')?.map(row => {
          const id = String(row.edital_id)
          return [id, textOf([row, ...byNotice.map(rows => inOrder(rows.get(id) ?? []))])]
        }),
      ),
      sources: new Map(
        rows.get('analyses')?.map(row => [String(row.edital_id), Number(row.source_updated_at)]),
      ),
      history: new Set(versions),
    }
  } finally {
    db.close()
  }
}

async function rowsOf(db: Database, table: Table): Promise<Row[]> {
  const columns = publishedColumns(table)
    .filter(({ name }) => name !== 'company')
    .map(({ name, type }) => (type === 'TIMESTAMPTZ' ? `epoch_us("${name}") AS "${name}"` : `"${name}"`))
  return await db.rows(`SELECT ${columns.join(', ')} FROM "${table.name}"`)
}

function storedNotice(row: Row): StoredNotice {
  const { deleted_at, analysis_state, ...document } = row
  return {
    text: textOf(document),
    deleted: deleted_at !== null,
    state: String(analysis_state),
    updatedAt: Number(row.updated_at),
    status: String(row.status),
  }
}

function inOrder(rows: Row[]): Row[] {
  return rows.toSorted((a, b) => Number(a.ordinal) - Number(b.ordinal))
}

const texts = new WeakMap<object, string>()

/** By its documents: many showings share them. */
function remembered(document: object, make: () => string): string {
  const text = texts.get(document) ?? make()
  texts.set(document, text)
  return text
}

function noticeText(entry: Entry): string {
  return remembered(entry.edital, () => {
    const { deleted_at, analysis_state, ...document } = editalRow(entry)
    return textOf(document)
  })
}

function analysisText(entry: Entry): string {
  return remembered(entry.analysis as object, () =>
    textOf([analysisRow(entry), requirementRows(entry), itemRows(entry), alertRows(entry)]),
  )
}

function textOf(value: unknown): string {
  return JSON.stringify(value, (_, part: unknown) => {
    if (typeof part === 'bigint') return Number(part)
    if (part === null || typeof part !== 'object' || Array.isArray(part)) return part
    const names = Object.keys(part).filter(name => !OF_THE_RUN.includes(name))
    return Object.fromEntries(names.sort().map(name => [name, (part as Row)[name]]))
  })
}

/** I1, I9: each listed notice has one outcome, and the server was asked no more than that takes. */
export function checkReport(
  report: RunReport,
  server: { requests: number; peakConcurrent: number },
  { concurrency, retries }: { concurrency: number; retries: number },
): void {
  const { unchanged, loaded, deferred, gone, quarantined, failed, not_attempted, listed } = report
  const outcomes = unchanged + loaded + deferred + gone + quarantined + failed + not_attempted
  must(
    outcomes === listed,
    () => `I1: ${listed} notices listed, ${outcomes} outcomes: ${JSON.stringify(report)}`,
  )
  const counts = Object.entries(report).filter(([, value]) => typeof value === 'number')
  must(
    counts.every(([, value]) => Number(value) >= 0),
    () => `I1: less than nothing: ${JSON.stringify(report)}`,
  )
  must(
    report.status !== 'ok' || quarantined + failed + not_attempted === 0,
    () => `I1: the run is ok, but not all was attempted: ${JSON.stringify(report)}`,
  )
  must(
    server.peakConcurrent <= concurrency,
    () => `I9: ${server.peakConcurrent} requests at once, ${concurrency} allowed`,
  )
  const most = (4 * (listed + 60) + 200) * (retries + 11)
  must(server.requests <= most, () => `I9: ${server.requests} requests for ${listed} notices`)
}

/** Every row is justified by a document that the API showed, and an analysis is one document, whole. */
export function checkJustified(stored: Stored, ledger: Ledger): void {
  for (const [id, notice] of stored.notices) {
    const shown = ledger.notices.get(id) ?? []
    must(
      shown.some(({ entry }) => entry && noticeText(entry) === notice.text),
      () => `the row of ${id} is none that was shown: ${notice.text}`,
    )
  }
  for (const [id, text] of stored.analyses) {
    const seqs = showings(ledger.analyses.get(id), text)
    must(seqs.length > 0, () => `I2: the analysis of ${id} with its rows is none that was shown: ${text}`)
    const notice = stored.notices.get(id)
    must(notice !== undefined, () => `the analysis of ${id} has no notice`)
    if (notice.state !== 'current') continue
    must(
      stored.sources.get(id) === notice.updatedAt,
      () => `I3: the analysis of ${id} is called current, but is that of another updated_at`,
    )
    const since = firstShown(ledger.notices.get(id), notice.updatedAt)
    must(
      seqs.some(seq => seq > since),
      () => `I3: the analysis of ${id} is called current, but was last read before its updated_at was shown`,
    )
  }
  for (const [id, { state }] of stored.notices)
    if (state === 'current') must(stored.analyses.has(id), () => `I3: ${id} is current without an analysis`)
}

function showings(shown: readonly Shown[] | undefined, text: string): number[] {
  return (shown ?? []).flatMap(({ seq, entry }) => (entry && analysisText(entry) === text ? [seq] : []))
}

function firstShown(shown: readonly Shown[] | undefined, updatedAt: number): number {
  const first = (shown ?? []).find(({ entry }) => entry && Number(editalRow(entry).updated_at) === updatedAt)
  return first?.seq ?? Number.POSITIVE_INFINITY
}

/** After a run that went through the whole list, and whose answers all arrived. */
export function checkFresh(stored: Stored, { ofRun }: Ledger): void {
  for (const id of ofRun.notices.keys()) {
    if (ofRun.unusable.has(id)) continue
    const notice = stored.notices.get(id)
    must(notice !== undefined, () => `${id} was shown, but has no row`)
    must(!notice.deleted, () => `I4: ${id} was shown in this run, and is marked deleted`)
    const shown = ofRun.notices.get(id) ?? []
    must(
      shown.some(({ entry }) => entry && noticeText(entry) === notice.text),
      () => `${id} was shown, but its row is not what was shown in this run: ${notice.text}`,
    )
  }
}

/** I3: a run that says that it went well left no analysis behind. */
export function checkNothingPending(stored: Stored, report: RunReport): void {
  const { status, mode, deferred, quarantined, failed, not_attempted, gone } = report
  if (status !== 'ok' || (mode !== 'full' && mode !== 'incremental')) return
  if (deferred + quarantined + failed + not_attempted + gone > 0) return
  for (const [id, { state, deleted }] of stored.notices)
    must(deleted || state === 'current', () => `I3: the run was ok, but the analysis of ${id} is ${state}`)
}

/** After a `--full` that went well, every analysis was read again. */
export function checkRefetched(stored: Stored, { analyses, ofRun }: Ledger, report: RunReport): void {
  if (report.status !== 'ok' || report.deferred + report.gone > 0) return
  for (const [id, { deleted }] of stored.notices) {
    const last = analyses.get(id)?.at(-1)?.seq ?? 0
    must(deleted || last > ofRun.since, () => `--full went well, but the analysis of ${id} was not read`)
  }
}

/** I4, I10: deleted is only what was not listed and answered 404, and never more than can be believed. */
export function checkDeleted(
  before: Stored | null,
  after: Stored,
  { ofRun, absent }: Ledger,
  { trusted, losesAnswers, settled }: { trusted: boolean; losesAnswers: boolean; settled: boolean },
): void {
  const live = [...(before?.notices.values() ?? [])].filter(({ deleted }) => !deleted).length
  const fresh = [...after.notices].filter(
    ([id, notice]) => notice.deleted && before?.notices.get(id)?.deleted === false,
  )
  for (const [id] of fresh) {
    must(absent.has(id), () => `I4: ${id} is marked deleted, but no answer was 404`)
    must(
      // What was listed without its id was not listed for who reads it.
      losesAnswers || !settled || ofRun.unusable.has(id) || !ofRun.listed.has(id),
      () => `I4: ${id} is marked deleted, but was listed in this run`,
    )
  }
  const most = trusted ? Number.POSITIVE_INFINITY : Math.max(20, live * 0.05)
  must(
    !settled || fresh.length <= most,
    () => `I10: ${fresh.length} of ${live} notices marked deleted at once`,
  )
}

/** I10: a run with another company's key changes nothing. */
export function checkUntouched(before: Stored | null, after: Stored, { status }: RunReport): void {
  must(status === 'failed', () => `I10: a run with another company's key is ${status}`)
  must(
    JSON.stringify([...(before?.notices ?? [])].sort()) === JSON.stringify([...after.notices].sort()) &&
      JSON.stringify([...(before?.analyses ?? [])].sort()) === JSON.stringify([...after.analyses].sort()),
    () => `I10: a run with another company's key changed rows`,
  )
}

export async function countRuns(warehouse: string): Promise<number> {
  const db = await Database.open(warehouse, { readOnly: true, threads: 1 })
  try {
    return (await db.row<{ n: number }>('SELECT count(*) AS n FROM sync_runs')).n
  } finally {
    db.close()
  }
}

/** I6: what was published once is never lost. */
export function checkKept(before: Stored | null, after: Stored): void {
  for (const id of before?.notices.keys() ?? [])
    must(after.notices.has(id), () => `I6: ${id} was published and has no row any more`)
  for (const id of before?.analyses.keys() ?? [])
    must(after.analyses.has(id), () => `I6: the analysis of ${id} was published and has no row any more`)
  for (const version of before?.history ?? [])
    must(after.history.has(version), () => `I6: a version was published and is there no more: ${version}`)
}

/** What the report counts is what the rows show, where nothing that was shown was lost or broken. */
export function checkCounts(
  before: Stored | null,
  after: Stored,
  { ofRun }: Ledger,
  report: RunReport,
): void {
  const shown = new Set([...ofRun.listed, ...ofRun.notices.keys()])
  const fresh = [...after.notices.keys()].filter(id => !before?.notices.has(id))
  const gone = [...after.notices].filter(
    ([id, { deleted }]) => deleted && before?.notices.get(id)?.deleted === false,
  )
  const counted = { listed: shown.size, added: fresh.length, tombstoned: gone.length }
  for (const [name, count] of Object.entries(counted))
    must(
      report[name as keyof typeof counted] === count,
      () => `I1: ${name} should be ${count}: ${JSON.stringify(report)}`,
    )
}

/** I5: snapshots as they were first seen, by path. */
export type Seen = Map<string, string>

/** I5: `latest` resolves to a whole snapshot, or to none yet. Cheap: it is asked after each step. */
export function checkLatest({ lake }: Pick<CompanyPaths, 'lake'>, published: boolean): Manifest | null {
  const link = join(lake, 'latest')
  const target = linkTarget(link)
  if (target === null) {
    must(!published, () => 'I5: there is no latest snapshot any more')
    return null
  }
  const path = join(lake, target, 'manifest.json')
  must(existsSync(path), () => `I5: latest points to ${target}, which has no manifest`)
  const manifest = JSON.parse(readFileSync(path, 'utf8')) as Manifest
  for (const { files } of Object.values(manifest.tables))
    for (const file of files) {
      const at = join(lake, target, file.path)
      must(
        existsSync(at) && statSync(at).size === file.bytes,
        () => `I5: ${file.path} of ${target} is not whole`,
      )
    }
  must(existsSync(join(lake, target, 'catalog.duckdb')), () => `I5: ${target} has no catalog`)
  return manifest
}

/** I5: no file of a finished snapshot differs from its manifest, or from what it was when it was first seen. */
export function checkImmutable({ lake }: CompanyPaths, seen: Seen, powerFailed: boolean): void {
  const directory = join(lake, 'snapshots')
  for (const name of existsSync(directory) ? readdirSync(directory) : []) {
    const path = join(directory, name, 'manifest.json')
    if (!existsSync(path)) continue
    const manifest = JSON.parse(readFileSync(path, 'utf8')) as Manifest
    const expected = [
      ...Object.values(manifest.tables).flatMap(({ files }) => files),
      { path: 'catalog.duckdb', sha256: manifest.catalog_sha256 },
    ]
    for (const file of expected) {
      const at = join(directory, name, file.path)
      // A snapshot that is being removed loses its manifest first; power may bring that back.
      if (!existsSync(at) && powerFailed) continue
      must(existsSync(at), () => `I5: ${name}/${file.path} is not there`)
      const hash = createHash('sha256').update(readFileSync(at)).digest('hex')
      must(hash === file.sha256, () => `I5: ${name}/${file.path} is not what its manifest says`)
      must(
        (seen.get(at) ?? hash) === hash,
        () => `I5: ${name}/${file.path} was changed after it was published`,
      )
      seen.set(at, hash)
      must((statSync(at).mode & 0o222) === 0, () => `I5: ${name}/${file.path} may be written to`)
    }
  }
}

/** I6: nothing that can be read says more than the log does. */
export async function checkDurableFirst({ lake, raw }: CompanyPaths, published = false): Promise<void> {
  const manifest = checkLatest({ lake }, published)
  const sealed = (await sealedSegments(raw)).length
  must(
    (manifest?.applied_segment ?? 0) <= sealed,
    () => `I6: the snapshot holds segment ${manifest?.applied_segment}, the log ends with ${sealed}`,
  )
}

async function checkPublished(db: Database, paths: CompanyPaths, manifest: Manifest): Promise<void> {
  await db.run(`ATTACH ${literal(paths.warehouse)} AS w (READ_ONLY)`)
  const { applied } = await db.row<{ applied: number }>('SELECT applied_segment AS applied FROM w.meta')
  // What only dates what is known does not make a snapshot at once.
  const same = applied === manifest.applied_segment
  const compared = TABLES.filter(({ name }) => same || !['sync_runs', 'schema_drift'].includes(name))
  const columns = new Map(
    compared.map(table => [
      table.name,
      publishedColumns(table)
        .map(({ name }) => name)
        .filter(name => name !== 'company' && (same || !OF_THE_RUN.includes(name))),
    ]),
  )
  const differing = await differingTables(db, columns, ['', 'w.'])
  must(differing.length === 0, () => `I5: ${differing} differ between snapshot and warehouse`)
}

const NOTHING = { columns: [], tables: [] }

/** I6: two warehouses of the same log hold the same rows. Each has an id of its own. */
export async function checkSameTables(
  a: string,
  b: string,
  without: { columns: readonly string[]; tables: readonly string[] } = NOTHING,
): Promise<void> {
  const db = await Database.open(':memory:', { threads: 1 })
  try {
    await db.run(`ATTACH ${literal(a)} AS a (READ_ONLY)`)
    await db.run(`ATTACH ${literal(b)} AS b (READ_ONLY)`)
    const columns = await db.rows<{ name: string; columns: string }>(
      `SELECT table_name AS name, string_agg(column_name, ',' ORDER BY column_index) AS columns FROM duckdb_columns()
       WHERE database_name = 'a' AND NOT list_contains([${list(['warehouse_id', ...without.columns])}], column_name)
         AND NOT list_contains([${list(without.tables)}]::VARCHAR[], table_name) GROUP BY ALL ORDER BY ALL`,
    )
    const byTable = new Map(columns.map(table => [table.name, table.columns.split(',')]))
    const differing = await differingTables(db, byTable, ['a.', 'b.'])
    must(differing.length === 0, () => `I6: a rebuild of the log gives other rows in ${differing}`)
  } finally {
    db.close()
  }
}

function list(texts: readonly string[]): string {
  return texts.map(literal).join(', ')
}

/** Tables whose rows, in whatever order, differ between two databases. */
async function differingTables(
  db: Database,
  columns: ReadonlyMap<string, readonly string[]>,
  [one, other]: readonly [string, string],
): Promise<string[]> {
  const digest = (where: string, table: string, names: readonly string[]) =>
    `SELECT '${table}' AS name, concat_ws(' ', count(*), sum(hash(${names.map(name => `"${name}"`).join(', ')})::HUGEINT)) AS digest
     FROM ${where}"${table}"`
  const digests = [...columns].flatMap(([table, names]) => [
    digest(one, table, names),
    digest(other, table, names),
  ])
  const rows = await db.rows<{ name: string; digest: string }>(digests.join(' UNION ALL '))
  const byTable = Map.groupBy(rows, ({ name }) => name)
  return [...byTable].filter(([, [a, b]]) => a?.digest !== b?.digest).map(([table]) => table)
}

/** I5: the latest snapshot; it stays also when there is a newer one. */
export function latestOf({ lake }: CompanyPaths): string[] {
  const directory = join(lake, 'snapshots')
  const names = existsSync(directory) ? readdirSync(directory) : []
  const manifests = names.flatMap(name => {
    const path = join(directory, name, 'manifest.json')
    return existsSync(path) ? [JSON.parse(readFileSync(path, 'utf8')) as Manifest] : []
  })
  return manifests
    .sort((a, b) => a.applied_segment - b.applied_segment || a.created_at.localeCompare(b.created_at))
    .slice(-1)
    .map(({ snapshot }) => snapshot)
}

/** The end of the story: with nothing wrong any more, the warehouse says what the company has. */
export function checkTruth(
  stored: Stored,
  world: { ids(): string[]; entry(id: string): Entry | undefined },
  { isExcluded, silentChangesSeen }: { isExcluded: (status: string) => boolean; silentChangesSeen: boolean },
): void {
  const live = [...stored.notices].filter(([, { deleted }]) => !deleted).map(([id]) => id)
  must(
    String(live.sort()) === String(world.ids().sort()),
    () => `live are ${live.sort()}, the company has ${world.ids().sort()}`,
  )
  for (const id of live) {
    const entry = world.entry(id) as Entry
    const notice = stored.notices.get(id) as StoredNotice
    must(
      notice.text === noticeText(entry),
      () => `${id} is ${noticeText(entry)}, its row says ${notice.text}`,
    )
    if (isExcluded(entry.edital.status)) continue
    must(notice.state === 'current', () => `the analysis of ${id} is ${notice.state} at the end`)
    if (!silentChangesSeen) continue
    const text = analysisText(entry)
    must(
      stored.analyses.get(id) === text,
      () => `the analysis of ${id} is ${text}, its rows say ${stored.analyses.get(id)}`,
    )
  }
}

function linkTarget(path: string): string | null {
  try {
    return readlinkSync(path)
  } catch {
    return null
  }
}
