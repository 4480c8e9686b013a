import { mkdir, readdir, readFile, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { TABLES, type Table } from '#schema/tables.ts'
import type { Database } from '#src/core/warehouse/database.ts'
import { identifier, literal } from '#src/core/warehouse/quoted.ts'
import type { RowFiles } from '#src/core/warehouse/row_files.ts'
import { isRowTable } from '#src/core/warehouse/row_sql.ts'
import { PRIVATE_DIRECTORY } from '#src/lib/access.ts'
import {
  type DurableStep,
  linkTo,
  move,
  remove,
  syncDirectory,
  syncFile,
  writeNew,
} from '#src/lib/durable.ts'
import { hashContent } from '#src/lib/hash.ts'
import { type LakeAccess, openSnapshotToReaders, openToReaders, readAccess } from './access.ts'
import {
  type CatalogSource,
  findCatalogTemplate,
  hashCatalog,
  type Marts,
  PLACE_VARIABLE,
  readStoredInputs,
  writeCatalog,
} from './catalog.ts'
import {
  type EarlyFile,
  linkRows,
  type Previous,
  planTable,
  readFileSize,
  writeMarts,
  writeTable,
} from './export.ts'
import {
  countNotices,
  countPublishedBytes,
  findNewest,
  latestLink,
  listFinishedSnapshots,
  listPublishedFiles,
  type Manifest,
  type MartFiles,
  RUNS_ONLY_INTERVAL_MS,
  readLatestName,
  removeExpired,
  type SnapshotFile,
  snapshotsDirectory,
} from './manifest.ts'

export type Published = PublishedFigures & { readonly manifest: Manifest }

/** The figures of a publish that are reported. */
export type PublishedFigures = {
  readonly directory: string
  /** False if the latest snapshot already matched the warehouse. */
  readonly written: boolean
  readonly bytesWritten: number
  /** Size of the whole snapshot, including files shared with earlier ones. */
  readonly bytes: number
}

/** Whether the marts are files of the snapshot, too, or at least a snapshot is written each day for those who make them. */
type MartsWanted = 'files' | 'daily' | 'none'

/** Work of a run that its snapshot builds on. */
export type Prepared = {
  /** Months that it wrote while it fetched. */
  readonly early: readonly EarlyFile[]
  /** Resolves when the warehouse is durable: until then, no snapshot of it is complete. */
  readonly durable: Promise<void>
}

type Request = Partial<Prepared> & {
  readonly db: Database
  /** The rows of child tables. */
  readonly rows: Pick<RowFiles, 'directory' | 'files'>
  readonly lake: string
  readonly company: string
  readonly now: Date
  readonly keepMs: number
  /** Snapshots in use besides the latest; they are kept. */
  readonly inUse: readonly (string | null)[]
  /** Time zone of the local times in the marts. */
  readonly sourceTimezone: string
  readonly marts: Marts
  readonly martsWanted: MartsWanted
}

type State = {
  readonly schema_hash: string
  readonly warehouse_id: string
  readonly log: string | null
  readonly applied_segment: number
  readonly data_version: number
  readonly last_run: string | null
  readonly catalog_hash: string
  readonly martsWanted: MartsWanted
  /** The present day in the time zone of the notices. */
  readonly today: string
  /** `today` if marts are wanted, else null. */
  readonly mart_day: string | null
}

/**
 * Reconciles the lake with the warehouse: a complete snapshot of its `data_version` exists, `latest` resolves
 * to it, and expired snapshots are gone. Does only what is missing, so the next publish finishes one that was
 * interrupted at any point.
 */
export async function publish(request: Request): Promise<Published> {
  const { lake, now } = request
  const state = await readState(request)
  const directory = snapshotsDirectory(lake)
  const finished = await listFinishedSnapshots(directory)
  const newest = findNewest(finished, state.warehouse_id)
  const latest = await readLatestName(lake)
  // First, to free space on a full disk.
  const keep = { keepMs: request.keepMs, now }
  const inUse = [latest, ...request.inUse]
  const kept = await removeExpired(directory, finished, { ...keep, inUse: [newest?.snapshot, ...inUse] })
  const access = await readAccess(lake)
  for (const { snapshot } of kept) await openSnapshotToReaders(join(directory, snapshot), access)
  const fresh = newest && !isStale(newest, state, { directory, now }) ? newest : null
  const previous = newest?.warehouse_id === state.warehouse_id ? newest : null
  if (!fresh) await removeUnfinished(directory, kept)
  const manifest = fresh ?? (await writeSnapshot({ ...request, access }, state, previous))
  const { snapshot } = manifest
  if (latest !== snapshot) {
    // A killed publish may have finished it without making the names durable.
    if (fresh) await syncNames(join(directory, snapshot))
    await pointLatestTo(lake, snapshot)
  }
  const all = fresh ? kept : [...kept, manifest]
  await removeExpired(directory, all, { ...keep, inUse: [snapshot, ...inUse] })
  return {
    directory: join(directory, snapshot),
    manifest,
    written: !fresh,
    bytesWritten: fresh ? 0 : writtenBytes(manifest, previous),
    bytes: countPublishedBytes(manifest),
  }
}

async function readState(request: Request): Promise<State> {
  const { db, sourceTimezone, marts, now } = request
  const stored = await db.row<Omit<State, 'catalog_hash' | 'mart_day' | 'martsWanted'>>(
    `SELECT schema_hash, warehouse_id, log, applied_segment, data_version,
       (SELECT run_id FROM sync_runs ORDER BY started_at DESC, run_id DESC LIMIT 1) AS last_run,
       ($now::TIMESTAMPTZ AT TIME ZONE $zone)::DATE::VARCHAR AS today
     FROM meta`,
    { now: now.toISOString(), zone: sourceTimezone },
  )
  const martsWanted = marts.views.length === 0 ? 'none' : request.martsWanted
  return {
    ...stored,
    catalog_hash: hashCatalog(sourceTimezone, marts),
    martsWanted,
    mart_day: martsWanted === 'none' ? null : stored.today,
  }
}

function isStale(
  newest: Manifest,
  state: State,
  { directory, now }: { directory: string; now: Date },
): boolean {
  return (
    newest.warehouse_id !== state.warehouse_id ||
    newest.data_version !== state.data_version ||
    // Written by another version of the marts.
    newest.catalog_hash !== state.catalog_hash ||
    // The data directory was moved, and the views still point to the old path.
    newest.directory !== join(directory, newest.snapshot) ||
    // Switched on or off, or of another day: some marts count days from it.
    (newest.marts?.day ?? null) !== state.mart_day ||
    (newest.marts?.files.length === 0 && state.martsWanted === 'files') ||
    (newest.applied_segment !== state.applied_segment &&
      Math.abs(now.getTime() - Date.parse(newest.created_at)) >= RUNS_ONLY_INTERVAL_MS)
  )
}

async function writeSnapshot(
  request: Request & { access: LakeAccess },
  state: State,
  before: Manifest | null,
): Promise<Manifest> {
  const { db, lake, company, now, sourceTimezone, access, marts } = request
  const snapshot = await freeName(snapshotsDirectory(lake), now, state.data_version)
  const directory = join(snapshotsDirectory(lake), snapshot)
  const previous = before && {
    manifest: before,
    directory: join(snapshotsDirectory(lake), before.snapshot),
  }
  await mkdir(directory, PRIVATE_DIRECTORY)
  // One transaction, so that all tables show the same committed state.
  const { files, notices, inputs } = await db.transaction(async () => ({
    files: await writeTables(request, directory, previous),
    notices: await countNotices(db),
    inputs: await readStoredInputs(db, marts, state.today),
  }))
  const catalog = join(directory, 'catalog.duckdb')
  const publishedAt = now.toISOString()
  const like =
    previous?.manifest.catalog_hash === state.catalog_hash
      ? {
          path: join(previous.directory, 'catalog.duckdb'),
          sha256: previous.manifest.catalog_sha256,
          inputs: previous.manifest.stored_inputs,
        }
      : await findCatalogTemplate(db, { sourceTimezone, hash: state.catalog_hash, marts })
  const source = { company, snapshot, publishedAt, sourceTimezone, directory, files }
  await writeCatalog(db, catalog, [source], marts, { like, inputs })
  await makeDurable('catalog.sync', catalog, access)
  const martFiles = await makeMartFiles(request, catalog, state, { directory, access })
  await writeReadMe(source, access)
  const manifest: Manifest = {
    snapshot,
    company,
    created_at: publishedAt,
    source_timezone: sourceTimezone,
    directory,
    warehouse_id: state.warehouse_id,
    schema_hash: state.schema_hash,
    catalog_hash: state.catalog_hash,
    catalog_sha256: hashContent(await readFile(catalog)),
    stored_inputs: inputs,
    data_version: state.data_version,
    log: state.log,
    applied_segment: state.applied_segment,
    run_id: state.last_run,
    notices,
    ...(martFiles === null ? {} : { marts: martFiles }),
    tables: Object.fromEntries(
      [...files].map(([name, list]) => [
        name,
        {
          rows: list.reduce((sum, file) => sum + file.rows, 0),
          bytes: list.reduce((sum, file) => sum + file.bytes, 0),
          files: list,
        },
      ]),
    ),
  }
  openToReaders(directory, access)
  await syncDirectory('snapshot.directory', directory)
  await request.durable
  await writeManifest(directory, manifest, access)
  return manifest
}

async function makeMartFiles(
  { db, marts }: Request,
  catalog: string,
  { martsWanted, mart_day: day }: State,
  to: { directory: string; access: LakeAccess },
): Promise<MartFiles | null> {
  if (day === null) return null
  return martsWanted === 'files'
    ? await writeMarts(db, catalog, marts.views, { ...to, day })
    : { day, files: [] }
}

/** Writes the tables of a new snapshot, and returns the files of each. */
async function writeTables(
  { db, rows, company, access, early }: Request & { access: LakeAccess },
  directory: string,
  previous: Previous | null,
): Promise<ReadonlyMap<string, readonly SnapshotFile[]>> {
  const versions = await db.rows<{ table_name: string; month: string; version: number }>(
    'FROM month_versions',
  )
  const counts = await countRows(db)
  const files = new Map<string, readonly SnapshotFile[]>()
  for (const table of TABLES) {
    const target = { directory, company, access, rows: counts[table.name] ?? 0 }
    if (isRowTable(table)) {
      files.set(table.name, await linkRows(db, { table, rows, previous }, target))
      continue
    }
    const plan = planTable(table, previous, [...versions, ...lostMonths(previous, table)], early)
    files.set(table.name, await writeTable(db, plan, target))
  }
  return files
}

/** Counts the rows of each table in one query, because each query has a fixed cost. Subqueries of one row would be joined. */
async function countRows(db: Database): Promise<Record<string, number>> {
  const counts = TABLES.map(
    table =>
      `SELECT ${literal(table.name)} AS name, ${isRowTable(table) ? `coalesce(sum(${table.each}), 0)::BIGINT AS rows FROM row_places` : `count(*) AS rows FROM ${identifier(table.name)}`}`,
  )
  const rows = await db.rows<{ name: string; rows: number }>(counts.join(' UNION ALL '))
  return Object.fromEntries(rows.map(({ name, rows }) => [name, rows]))
}

/** Months whose file is missing or differs from the manifest. They are rewritten as if they had changed. */
function lostMonths(previous: Previous | null, table: Table) {
  const lost: { table_name: string; month: string; version: number }[] = []
  for (const file of previous?.manifest.tables[table.name]?.files ?? []) {
    const size = readFileSize(join(previous?.directory ?? '', file.path))
    if (file.month !== null && size !== file.bytes) {
      lost.push({ table_name: table.name, month: file.month, version: Number.POSITIVE_INFINITY })
    }
  }
  return lost
}

/** Writes the manifest, which marks the snapshot as complete, so it appears atomically and last. */
async function writeManifest(directory: string, manifest: Manifest, access: LakeAccess): Promise<void> {
  const temporary = join(directory, 'manifest.json.part')
  await writeNew(temporary, `${JSON.stringify(manifest, null, 2)}\n`)
  await makeDurable('manifest.sync', temporary, access)
  await move('manifest.rename', temporary, join(directory, 'manifest.json'))
  await syncNames(directory)
}

/** Makes durable the names of a snapshot's files, and its own. */
async function syncNames(directory: string): Promise<void> {
  await syncDirectory('manifest.directory', directory)
  await syncDirectory('snapshots.directory', dirname(directory))
}

async function makeDurable(step: DurableStep, path: string, access: LakeAccess): Promise<void> {
  openToReaders(path, access)
  await syncFile(step, path)
}

async function pointLatestTo(lake: string, snapshot: string): Promise<void> {
  const temporary = join(lake, 'latest.part')
  await remove('latest.link', temporary)
  await linkTo('latest.link', join('snapshots', snapshot), temporary)
  await move('latest.rename', temporary, latestLink(lake))
  await syncDirectory('latest.directory', lake)
}

/** Returns a free name `<UTC time>-<data_version>`; a second snapshot in the same second gets a later time. */
async function freeName(directory: string, now: Date, dataVersion: number): Promise<string> {
  for (let second = 0; ; second += 1) {
    const time = new Date(now.getTime() + second * 1000).toISOString().replace(/[-:]|\.\d+/g, '')
    const name = `${time}-${String(dataVersion).padStart(6, '0')}`
    if (
      await stat(join(directory, name)).then(
        () => false,
        () => true,
      )
    )
      return name
  }
}

/** Removes what a killed publish left; nothing points to it. */
async function removeUnfinished(directory: string, finished: readonly Manifest[]): Promise<void> {
  const whole = new Set(finished.map(manifest => manifest.snapshot))
  for (const name of await readdir(directory)) {
    if (!whole.has(name)) await remove('unfinished.remove', join(directory, name))
  }
}

function writtenBytes(manifest: Manifest, previous: Manifest | null): number {
  const before = previous ? listPublishedFiles(previous) : []
  const known = new Set(before.map(file => `${file.path} ${file.sha256}`))
  return listPublishedFiles(manifest)
    .filter(file => !known.has(`${file.path} ${file.sha256}`))
    .reduce((sum, file) => sum + file.bytes, 0)
}

export const READ_ME = 'LEIA-ME.txt'

/** Tells people how to read a snapshot, also elsewhere. It holds no data, so it need not survive a power failure. */
async function writeReadMe(
  source: Pick<CatalogSource, 'company' | 'publishedAt' | 'directory' | 'snapshot'>,
  access: LakeAccess,
): Promise<void> {
  const path = join(source.directory, READ_ME)
  await writeNew(path, composeText(source))
  openToReaders(path, access)
}

function composeText({
  company,
  publishedAt,
  directory,
  snapshot,
}: Parameters<typeof writeReadMe>[0]): string {
  const elsewhere = `SET VARIABLE ${PLACE_VARIABLE} = '/outro/lugar/${snapshot}';`
  return `Editais de ${company}, retrato publicado em ${publishedAt} (UTC). Depois de publicado, nada aqui muda.

catalog.duckdb            todas as tabelas, os marts e seus comentários: abra com DuckDB 1.1 ou mais novo, só para leitura
<tabela>/<mês>.parquet    os mesmos dados, para qualquer leitor de Parquet
marts/<mart>.parquet      os marts, se LAKE_MARTS=on

O catálogo lê os arquivos em ${directory}
Se você copiou, moveu ou montou este diretório em outro lugar, diga onde, em cada conexão:

    ${elsewhere}

Para levar tudo em um só arquivo: editais export --to editais.duckdb

--

Tender notices of ${company}, a snapshot of ${publishedAt} (UTC). Once published, nothing here changes.

The catalog reads its files by the path above. If you copied, moved or mounted this directory elsewhere, name its place
in each connection, as above. For a single file that can be copied anywhere: editais export --to editais.duckdb
`
}
