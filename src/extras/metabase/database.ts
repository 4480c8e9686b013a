import { basename, dirname, posix } from 'node:path'
import type { MetabaseTarget } from '#config/settings.ts'
import { EXIT, FatalError, getMessage } from '#src/lib/errors.ts'
import { type Metabase, type MetabaseDatabase, MetabaseError } from './client.ts'
import { isMarked, removeMark } from './mark.ts'

export type Resources = Pick<MetabaseTarget, 'memoryMb' | 'spillDirectory'>

/** The driver writes it as "a=b&c=d", and its values win over the driver's own. */
const OPTIONS = 'additional-options'
const SPILL = ['temp_directory', 'max_temp_directory_size'] as const

/** Maximum that a database may spill: a query that needs more fails, before it fills a disk that others use, too. */
const MAX_SPILL = '4GB'
/** A catalog needs only built-in extensions, and nothing from the network. */
const OPEN = 'SET autoinstall_known_extensions = false; SET autoload_known_extensions = false;'
/** Without it, who may write SQL reads and writes every file that Metabase's user can. The driver runs it on each connection. */
const CLOSED = `${OPEN} SET enable_external_access = false;`

/**
 * Returns the details by which DuckDB, inside of Metabase, opens no file outside of the lake, stays within its memory, and has a
 * directory for what does not fit. SQL of a user in `init_sql` stays: DuckDB refuses some of it once it is closed.
 * @param database without an id if it does not exist yet.
 */
async function databaseDetails(
  client: Metabase,
  database: Pick<MetabaseDatabase, 'details'> & { readonly id?: number },
  catalogPath: string,
  { memoryMb, spillDirectory }: Resources,
): Promise<Record<string, string>> {
  const { [OPTIONS]: given, init_sql: init = OPEN } = database.details ?? {}
  const lake = findLake(catalogPath)
  const closes = [OPEN, CLOSED].includes(String(init)) && !UNSPEAKABLE.test(lake)
  const options = [
    // DuckDB reads the text as a list, in which a quote has a backslash before it.
    ...(closes ? [`allowed_directories=['${lake.replaceAll(/[\\']/g, '\\$&')}/']`] : []),
    ...(spillDirectory === null ? [] : composeSpillOptions(catalogPath, spillDirectory)),
  ]
  const own = new Set(options.map(readName))
  const others = typeof given === 'string' ? given.split('&').filter(option => option !== '') : []
  const all = [...others.filter(option => !own.has(readName(option))), ...options]
  return {
    ...(memoryMb === null ? {} : { memory_limit: await computeShare(memoryMb, client, database) }),
    ...(closes ? { init_sql: CLOSED } : {}),
    ...(all.length === 0 ? {} : { [OPTIONS]: all.join('&') }),
  }
}

/** The signs that separate options. */
const UNSPEAKABLE = /[&=]/

const readName = (option: string) => option.split('=', 1)[0]

/** Returns whether a database opens no file outside of the lake. */
export function isClosed({ details }: Pick<MetabaseDatabase, 'details'>): boolean {
  return details?.init_sql === CLOSED && String(details[OPTIONS]).includes('allowed_directories=')
}

/** Returns the memory for one company's database: those of all companies may be in use at once. */
async function computeShare(
  memoryMb: number,
  client: Metabase,
  { id }: { readonly id?: number },
): Promise<string> {
  const { data } = await client.get<{ data: readonly MetabaseDatabase[] }>('/api/database')
  const others = data.filter(other => other.id !== id && readCompany(other) !== null)
  return `${Math.floor(memoryMb / (others.length + 1))}MB`
}

/**
 * Returns the options for a directory of each catalog: the names of DuckDB's files are the same in each database, and for some
 * time Metabase has both the old and the new catalog open.
 */
function composeSpillOptions(catalogPath: string, directory: string): string[] {
  const snapshot = dirname(catalogPath)
  const company = basename(dirname(dirname(dirname(snapshot))))
  const [place, size] = SPILL
  return [`${place}=${posix.join(directory, `${company}-${basename(snapshot)}`)}`, `${size}=${MAX_SPILL}`]
}

/** How Metabase opens a catalog; the names are the DuckDB driver's (its `metabase-plugin.yaml`). */
const FIRST_DETAILS = {
  read_only: true,
  // The default of Metabase's form: the SQL that Metabase generates depends on it.
  old_implicit_casting: true,
  // By default, DuckDB takes up to 80 % of the machine's memory, beside a JVM.
  memory_limit: '1GB',
}

type IsOurs = (database: MetabaseDatabase) => boolean

/** Finds our database among those of an engine: the first by the first of these ways that finds one; null if none does. */
export async function findDatabase(
  client: Metabase,
  engine: string,
  ways: readonly IsOurs[],
): Promise<MetabaseDatabase | null> {
  const { data } = await client.get<{ data: readonly MetabaseDatabase[] }>('/api/database')
  const candidates = data.filter(one => one.engine === engine).sort((a, b) => a.id - b.id)
  return ways.flatMap(isOurs => candidates.find(isOurs) ?? [])[0] ?? null
}

/**
 * Returns how the database of a company is known: it reads a file of this lake; or earlier versions marked it; or it reads a file
 * of the company's lake at another place, as before DATA_DIR was moved.
 */
export function listWaysToRecognize(company: string, catalogPath: string): readonly IsOurs[] {
  const lake = `${findLake(catalogPath)}/`
  return [
    ({ details }) => String(details?.database_file).startsWith(lake),
    one => (readCompany(one) ?? company) === company && isMarked(one, company, 'base'),
    one => readCompany(one) === company,
  ]
}

const findLake = (catalogPath: string) => dirname(dirname(dirname(catalogPath)))

/** What Metabase may lack: how its refusal of the database shows it, and what to do. */
const LACKING = [
  [
    /valid database engine/,
    'driver for DuckDB. Put duckdb.metabase-driver.jar into its directory of plugins, and restart it: docs/operating/metabase.md.',
  ],
  [
    /icu extension/i,
    'ICU extension for DuckDB, and does not load one. docs/operating/metabase.md says where to put it.',
  ],
] as const

/** Adds the database, with all its options: Metabase opens it at once, and cannot change options of an open file. */
export async function createDatabase(
  client: Metabase,
  company: string,
  catalogPath: string,
  resources: Resources,
): Promise<MetabaseDatabase> {
  const own = await databaseDetails(client, {}, catalogPath, resources)
  return await client
    .post<MetabaseDatabase>('/api/database', {
      name: addCompanyName('Editais', company),
      engine: 'duckdb',
      details: { database_file: catalogPath, ...FIRST_DETAILS, ...own },
    })
    .catch(error => {
      const [, what] = LACKING.find(([sign]) => sign.test(getMessage(error))) ?? []
      throw what ? new FatalError(`Metabase at ${client.url} has no ${what}`) : error
    })
}

/** Describes a database that has no description: only one that exists can have it. What earlier versions added to it is removed. */
export async function describeDatabase(client: Metabase, database: MetabaseDatabase): Promise<void> {
  const text = 'Editais acompanhados e suas análises. Cada publicação troca o arquivo que esta base lê.'
  const description = removeMark(database.description) ?? text
  if (description === database.description) return
  await client.put(`/api/database/${database.id}`, { description, cache_ttl: database.cache_ttl ?? null })
}

/** Adds the company's name, unless it is the default company. */
export function addCompanyName(name: string, company: string): string {
  return company === 'default' ? name : `${name} (${company})`
}

type Pointed = {
  /** The file it pointed at before; null for none. */
  readonly from: string | null
  readonly moved: boolean
  readonly synced: boolean
}

/**
 * Points a database of Metabase to a snapshot's catalog, read-only, unless it already reads it. Metabase opens the
 * file before it accepts it, and then drops the connections to the old one. It is asked to read the schema again only
 * if columns changed, and does so later.
 * @param catalogPath absolute, and the same for Metabase: the data directory is mounted at the same path.
 * @throws FatalError, mostly MetabaseError.
 */
export async function pointDatabase(request: {
  readonly client: Metabase
  readonly databaseId: number
  readonly catalogPath: string
  readonly company: string
  readonly columnsChanged: boolean
  readonly resources: Resources
  /** Called with the catalogs that Metabase may read, as soon as they are known. */
  readonly onRead?: (catalogs: readonly string[]) => void | Promise<void>
}): Promise<Pointed> {
  const { client, databaseId, company, catalogPath, columnsChanged, onRead = () => {} } = request
  const database = await readDatabase(client, databaseId, company)
  const { details } = database
  const from = details?.database_file
  // They are hidden from others. What it reads is unknown then, so what was known stays.
  if (typeof from !== 'string') throw new FatalError(noAdministrator(client))
  const moved = from !== catalogPath
  await onRead([from])
  if (moved) {
    // Only a file that is not open yet can have other options.
    const own = await databaseDetails(client, database, catalogPath, request.resources)
    // Until Metabase answers, it may read either one.
    await onRead([from, catalogPath])
    await client
      .put(`/api/database/${databaseId}`, {
        // Sends all details, so that other settings stay.
        details: { ...details, database_file: catalogPath, read_only: true, ...own },
        // Paid editions clear it if it is missing.
        cache_ttl: database.cache_ttl ?? null,
      })
      .catch(async error => {
        if (error instanceof MetabaseError && REFUSALS.has(error.trouble)) await onRead([from])
        throw error
      })
    await onRead([catalogPath])
  }
  if (columnsChanged) await syncSchema(client, databaseId)
  return { from, moved, synced: columnsChanged }
}

/** Metabase did not try: it goes on with the file that it had. */
const REFUSALS: ReadonlySet<string> = new Set(['forbidden', 'key_refused'])

/** Returns the message for a key without the rights to set up Metabase. */
export function noAdministrator({ url }: Metabase): string {
  return `The API key of METABASE_API_KEY_FILE may not administer Metabase at ${url}, so nothing was changed there. Put it into the group Administrators (Admin, Authentication, API keys).`
}

/** Reads a database of Metabase. @throws FatalError if it does not exist, is not DuckDB's, or belongs to another company. */
async function readDatabase(client: Metabase, id: number, company: string): Promise<MetabaseDatabase> {
  const database = await client.get<MetabaseDatabase>(`/api/database/${id}`).catch(error => {
    if (!(error instanceof MetabaseError && error.trouble === 'missing')) throw error
    throw new MetabaseError(
      `Metabase at ${client.url} has no database ${id}. Run \`editais metabase\`, which finds or creates the database.`,
      'missing',
    )
  })
  const other = readCompany(database)
  if (other !== null && other !== company) {
    throw new FatalError(
      `Database ${id} of Metabase (${database.name}) shows company ${other}, and was not changed. Run \`editais metabase\`, which finds or creates the company's own.`,
      EXIT.usage,
    )
  }
  if (database.engine === 'duckdb') return database
  throw new FatalError(
    `Database ${id} of Metabase (${database.name}) is a ${database.engine} database, not DuckDB, and was not changed. Run \`editais metabase\`, which finds or creates the database.`,
  )
}

/** Returns the company whose lake has the file that a database reads; null if it is in none. */
function readCompany({ details }: Pick<MetabaseDatabase, 'details'>): string | null {
  const file = typeof details?.database_file === 'string' ? details.database_file : ''
  return /(?<![^/\\])([^/\\]+)[/\\]lake[/\\](?:snapshots|latest)[/\\]/.exec(file)?.[1] ?? null
}

export async function syncSchema(client: Metabase, databaseId: number): Promise<void> {
  await client.post(`/api/database/${databaseId}/sync_schema`)
}
