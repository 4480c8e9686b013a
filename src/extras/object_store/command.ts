import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Command } from 'commander'
import { loadCompanyEnvironment } from '#config/companies.ts'
import type { RemoteLakeSettings } from '#config/lake.ts'
import { type Environment, readSettings } from '#config/settings.ts'
import { makePrintableLines } from '#schema/text_key.ts'
import { martPath } from '#src/core/lake/export.ts'
import { type Manifest, readManifest, snapshotsDirectory } from '#src/core/lake/manifest.ts'
import { Database } from '#src/core/warehouse/database.ts'
import type { CommandTools, CompanyContext } from '#src/extras/extra.ts'
import { holdStore } from '#src/extras/hold.ts'
import { formatCount, pluralize } from '#src/lib/count.ts'
import { EXIT, type ExitCode, FatalError } from '#src/lib/errors.ts'
import { type ObjectStore, RemoteError, s3Root } from '#src/lib/objects/objects.ts'
import { type CompanyOptions, createCompanyCommand } from '#src/present/terminal/options.ts'
import { renderTable } from '#src/present/terminal/table.ts'
import { readMarts, readParquetRows } from './publish.ts'
import { publishLatest, withS3, withTables } from './remote_lake.ts'
import { measureRemoteLag, type RemoteLag } from './state.ts'
import {
  type Formats,
  type Latest,
  listTableNames,
  type ReadParquet,
  type RemoteFile,
  readRemoteLatest,
  type TableKeeper,
  tableKey,
} from './tables/format.ts'
import { vacuumRemote } from './vacuum.ts'

/** Returns the lake in an object store. */
export function createLakeCommand(environment: Environment, tools: CommandTools): Command {
  const own = (name: string, description: string, work: Part) =>
    part({ environment, tools }, name, description, work)
  return new Command('lake')
    .description(
      'Publish the latest snapshot to an object store (LAKE_URL) as Iceberg or Delta tables, or see what is there.',
    )
    .addCommand(
      own('status', 'Show what the object store has, and the error of the last publish.', showStatus),
    )
    .addCommand(
      own('publish', 'Publish the latest snapshot now, unless it is already there.', publishNow).option(
        '--new-log',
        'replace data of another log, or of a later state of this one: after a restored backup, a salvage or a new log',
      ),
    )
    .addCommand(
      own('verify', 'Compare every table in the store with its files and with the local lake.', verifyNow),
    )
    .addCommand(
      own(
        'vacuum',
        'Remove snapshots that were replaced longer than LAKE_KEEP ago, and objects that no snapshot names.',
        vacuumNow,
      ),
    )
    .addHelpText(
      'after',
      '\nExit codes: 0 ok, 1 failed, 2 wrong usage or settings, 3 status and verify: the object store lacks the latest snapshot, 130 interrupted.',
    )
}

const KEEPERS = ['iceberg', 'catalog', 'delta'] as const

type Part = (
  remote: RemoteLakeSettings,
  context: CompanyContext,
  options: { readonly newLog?: true },
) => Promise<{ text: string; result: object; error?: string; exitCode?: ExitCode }>

function part(
  { environment, tools }: { environment: Environment; tools: CommandTools },
  name: string,
  description: string,
  work: Part,
): Command {
  type Options = CompanyOptions & { readonly newLog?: true }
  return createCompanyCommand(name, description).action(async ({ company, json, ...options }: Options) => {
    const settings = readSettings(await loadCompanyEnvironment(environment, company))
    const { remoteLake } = settings
    if (remoteLake === null)
      throw new FatalError(
        'LAKE_URL is not set, so there is no object store. Set it to publish the lake.',
        EXIT.usage,
      )
    const {
      text,
      result,
      error,
      exitCode = EXIT.ok,
    } = await tools.withCompany(settings, async (context, display) => {
      const ask = () => work(remoteLake, context, options)
      // Hosts share the log: a disk that lacks its end, or has another log, must not replace what they published.
      if (options.newLog) await tools.bringUpToDate(context, display, { what: `lake ${name}` })
      return name === 'publish' || name === 'vacuum'
        ? await holdStore(context, display, { what: `lake ${name}` }, ask)
        : await ask()
    })
    process.stdout.write(json ? `${JSON.stringify(result)}\n` : text)
    if (error !== undefined) process.stderr.write(`${makePrintableLines(error)}\n`)
    if (exitCode !== EXIT.ok) process.exitCode = exitCode
  })
}

const publishNow: Part = async (settings, { paths, now, signal }, { newLog: isNewLog = false }) => {
  const result = await publishLatest({ settings, paths, now, signal, isThorough: true, isNewLog })
  const { written, snapshot, uploaded, bytesUploaded } = result
  const text = written
    ? `Published ${snapshot}: ${pluralize(uploaded, 'new file')}, ${Math.ceil(bytesUploaded / 1000)} kB.\n`
    : `Already published: ${snapshot}.\n`
  return { text, result }
}

const vacuumNow: Part = async (settings, { paths, now, signal }) => {
  const { company } = paths
  const { keepMs } = settings
  const result = await withTables(settings, { company, signal }, ({ store, formats }) =>
    vacuumRemote(store, { company, formats, keepMs, now: now() }),
  )
  const { snapshotsRemoved, snapshotsKept, objectsRemoved, bytesRemoved } = result
  const objects = `${pluralize(objectsRemoved, 'object')} (${Math.ceil(bytesRemoved / 1000)} kB)`
  const text = `Removed ${pluralize(snapshotsRemoved, 'snapshot')} and ${objects}; ${pluralize(snapshotsKept, 'snapshot')} kept.\n`
  return { text, result }
}

const showStatus: Part = async (settings, { paths, now, signal }) => {
  const root = s3Root(settings)
  const place = `Place     ${root}/${paths.company}/lake`
  const found = await withS3(settings, signal, store => readRemoteLatest(store, paths.company)).catch(
    error => {
      // Why the last publish failed is on this disk.
      if (error instanceof RemoteError) return error
      throw error
    },
  )
  const latest = found instanceof RemoteError ? null : (found?.latest ?? null)
  const lag = await measureRemoteLag(latest, paths, now())
  if (found instanceof RemoteError) {
    const error = found.message
    const lines = [place, ...describeLocal(lag), ...describeError(lag)]
    const result = { root, latest, ...lag, behind: error, due_at: null }
    return { text: `${lines.join('\n')}\n`, result, error, exitCode: EXIT.failed }
  }
  const lines = [place, ...describeLatest(latest), ...describeLag(lag)]
  const exitCode = lag.behind === null ? EXIT.ok : EXIT.partial
  return { text: `${lines.join('\n')}\n`, result: { root, latest, ...lag }, exitCode }
}

function describeLatest(latest: Latest | null): string[] {
  if (latest === null) return ['Snapshot  none yet']
  return [
    `Snapshot  ${latest.snapshot ?? 'none yet'}${latest.published_at ? `, as of ${latest.published_at}` : ''}`,
    ...KEEPERS.filter(keeper => latest[keeper]).map(
      keeper => `${keeper.padEnd(10)}${pluralize(Object.keys(latest[keeper] ?? {}).length, 'table')}`,
    ),
    ...(latest.pending ? [`Begun     ${latest.pending.snapshot}; the next publish finishes it`] : []),
  ]
}

function describeLag(lag: RemoteLag): string[] {
  const { behind, due_at } = lag
  return [
    ...(behind || due_at ? describeLocal(lag) : []),
    ...(due_at ? [`          goes there after ${due_at} (LAKE_PUBLISH_INTERVAL)`] : []),
    ...(behind ? [`Behind    ${behind}`] : []),
    ...describeError(lag),
  ]
}

function describeLocal({ local }: RemoteLag): string[] {
  return [`This disk ${local ?? 'none yet'}`]
}

function describeError({ last_error: error }: RemoteLag): string[] {
  return error ? [`Error     of the last publish, ${error.tried_at}: ${error.message}`] : []
}

const verifyNow: Part = async (settings, { paths, now, signal }) => {
  const { company } = paths
  const db = await Database.open(':memory:', { threads: 1 })
  const { tables, lag } = await withTables(settings, { company, signal }, async ({ store, formats }) => {
    const latest = await requireRemote(store, company)
    const directory = join(snapshotsDirectory(paths.lake), latest.snapshot ?? '')
    const local = latest.snapshot === null ? null : await readManifest(directory)
    const parquet = (bytes: Buffer, sql: string) => readParquetRows(db, tmpdir(), bytes, sql)
    const marts = await readMarts(join(paths.remoteMarts, latest.snapshot ?? ''))
    const withMarts = local && marts ? { ...local, marts } : local
    const tables = await verifyRemote(store, { formats, latest, local: withMarts, parquet })
    return { tables, lag: await measureRemoteLag(latest, paths, now()) }
  }).finally(() => db.close())
  const problems = tables.flatMap(({ table, problems }) => problems.map(problem => `${table}: ${problem}`))
  const lacking = lag.behind === null ? [] : [lag.behind, ...describeError(lag)]
  const found = [...problems, ...lacking]
  const text = `${describeTables(tables)}${found.length > 0 ? found.join('\n') : 'Everything is there.'}\n`
  const exitCode = problems.length > 0 ? EXIT.failed : lag.behind === null ? EXIT.ok : EXIT.partial
  return { text, result: { tables, ...lag }, exitCode }
}

async function requireRemote(store: ObjectStore, company: string): Promise<Latest> {
  const found = await readRemoteLatest(store, company)
  if (found) return found.latest
  throw new FatalError(
    `${store.root} has no data for ${company} yet. Run \`editais lake publish\`, or wait for the next run.`,
  )
}

function describeTables(tables: readonly Verified[]): string {
  const rows = tables.map(({ table, format, files, rows, bytes, problems }) => ({
    table,
    format,
    files,
    rows,
    bytes,
    problems: problems.length,
  }))
  return renderTable(['table', 'format', 'files', 'rows', 'bytes', 'problems'], rows)
}

/** One table of the object store, compared with the objects that are there and with the local lake. */
type Verified = {
  readonly table: string
  readonly format: TableKeeper
  readonly files: number
  readonly rows: number
  readonly bytes: number
  /** Sentences; empty if nothing is wrong. */
  readonly problems: readonly string[]
}

type VerifyRequest = {
  readonly formats: Formats
  readonly latest: Latest
  /** The local snapshot of the same name, with its marts; null if it is gone: then rows are not compared. */
  readonly local: Manifest | null
  readonly parquet: ReadParquet
}

/** Compares every table with its files, and with the local snapshot of the same name. */
async function verifyRemote(store: ObjectStore, request: VerifyRequest): Promise<Verified[]> {
  const { formats, latest } = request
  const verified: Verified[] = []
  for (const table of listTableNames(latest, formats)) {
    const sizes = await readSizes(store, tableKey(latest.company, table))
    for (const format of formats.keys())
      verified.push(await verifyTable(store, { ...request, table, format, sizes }))
  }
  return verified
}

/** Sizes of the data files, by their path below the table. */
async function readSizes(store: ObjectStore, directory: string): Promise<ReadonlyMap<string, number>> {
  const sizes = new Map<string, number>()
  for await (const { key, bytes } of store.list(`${directory}/data/`))
    sizes.set(key.slice(directory.length + 1), bytes)
  return sizes
}

type One = VerifyRequest & {
  readonly table: string
  readonly format: TableKeeper
  readonly sizes: ReadonlyMap<string, number>
}

async function verifyTable(store: ObjectStore, one: One): Promise<Verified> {
  const { table, format, formats, latest, local, parquet, sizes } = one
  const known = latest[format]?.[table] ?? null
  const opened = await formats.get(format)?.open(table, known)
  const files = (await opened?.read(parquet)) ?? []
  const rows = files.reduce((sum, file) => sum + file.rows, 0)
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0)
  const problems = files.flatMap(file =>
    describeProblem(file, sizes, `${store.root}/${latest.company}/lake/${table}`),
  )
  const expected = local && countRows(local, table)
  if (expected !== null && expected !== rows)
    problems.push(`It has ${pluralize(rows, 'row')}; the local snapshot has ${formatCount(expected)}.`)
  return { table, format, files: files.length, rows, bytes, problems }
}

function describeProblem(
  { path, bytes }: RemoteFile,
  sizes: ReadonlyMap<string, number>,
  place: string,
): string[] {
  const size = sizes.get(path)
  if (size === undefined) return [`${place}/${path} is gone.`]
  return size === bytes
    ? []
    : [`${place}/${path} has ${pluralize(size, 'byte')} instead of ${formatCount(bytes)}.`]
}

function countRows({ tables, marts }: Manifest, name: string): number | null {
  const mart = marts?.files.find(({ path }) => path === martPath(name))
  return tables[name]?.rows ?? mart?.rows ?? null
}
