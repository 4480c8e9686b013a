import { EXIT, FatalError } from '#src/lib/errors.ts'
import type { MetabaseDatabase } from './answers.ts'
import type { Metabase } from './client.ts'
import { covers } from './covers.ts'
import type { Owner } from './database.ts'
import { companyOfMark } from './mark.ts'
import { MetabaseError } from './metabase_error.ts'
import { type Resources, resourceDetails } from './resources.ts'

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
 * @throws FatalError, mostly MetabaseError; nothing was changed unless `sync_schema` failed.
 */
export async function pointDatabase(request: {
  readonly client: Metabase
  readonly databaseId: number
  readonly catalogPath: string
  readonly owner: Owner
  readonly columnsChanged: boolean
  readonly resources: Resources
  /** Called with the catalogs that Metabase may read, as soon as they are known. */
  readonly onRead?: (catalogs: readonly string[]) => void
}): Promise<Pointed> {
  const { client, databaseId, owner, catalogPath, columnsChanged, onRead = () => {} } = request
  const database = await readDatabase(client, databaseId, owner)
  const { details } = database
  // What it reads is unknown then, so what was known stays.
  if (details === undefined)
    throw new FatalError(
      `The API key of METABASE_API_KEY_FILE may not administer Metabase at ${client.url}, so nothing was changed there. Put it into the group Administrators (Admin, Authentication, API keys).`,
    )
  const from = typeof details.database_file === 'string' ? details.database_file : null
  const wanted = { database_file: catalogPath, read_only: true }
  const moved = !covers(details, wanted)
  const before = from === null ? [] : [from]
  onRead(before)
  if (moved) {
    // Only another file can have other options: DuckDB opens a file once.
    const resources = await resourceDetails(client, database, catalogPath, request.resources)
    // Until Metabase answers, it may read either one.
    onRead([...before, catalogPath])
    await client
      .put(`/api/database/${databaseId}`, {
        // Sends all details, so that other settings stay.
        details: { ...details, ...wanted, ...resources },
        // Paid editions clear it if it is missing.
        cache_ttl: database.cache_ttl ?? null,
      })
      .catch(error => {
        if (error instanceof MetabaseError && REFUSALS.has(error.trouble)) onRead(before)
        throw error
      })
  }
  onRead([catalogPath])
  if (columnsChanged) await syncSchema(client, databaseId)
  return { from, moved, synced: columnsChanged }
}

/** Metabase then goes on with the file that it had. */
const REFUSALS: ReadonlySet<string> = new Set(['rejected', 'forbidden', 'key_refused'])

/** Reads a database of Metabase. @throws FatalError if it does not exist, is not DuckDB's, or belongs to another company. */
async function readDatabase(client: Metabase, databaseId: number, owner: Owner): Promise<MetabaseDatabase> {
  const database = await client.get<MetabaseDatabase>(`/api/database/${databaseId}`).catch(error => {
    if (!(error instanceof MetabaseError && error.trouble === 'missing')) throw error
    throw new MetabaseError(
      `Metabase at ${client.url} has no database ${databaseId}. Run \`npm run metabase\`, which finds or creates the database.`,
      'missing',
    )
  })
  const other = companyOf(database)
  if (other !== null && other !== owner.company) {
    throw new FatalError(
      `Database ${databaseId} of Metabase (${database.name}) shows company ${other}, and was not changed. Run \`npm run metabase\`, which finds or creates the company's own.`,
      EXIT.usage,
    )
  }
  if (database.engine === 'duckdb') return database
  throw new FatalError(
    `Database ${databaseId} of Metabase (${database.name}) is a ${database.engine} database, not DuckDB, and was not changed. Run \`npm run metabase\`, which finds or creates the database.`,
  )
}

/** Returns the company whose data it shows, by our mark or by the file that it reads; null if neither names one. */
function companyOf({ description, details }: MetabaseDatabase): string | null {
  const file = typeof details?.database_file === 'string' ? details.database_file : ''
  const byFile = /(?<![^/\\])([^/\\]+)[/\\]lake[/\\]snapshots[/\\]/.exec(file)?.[1]
  return companyOfMark(description) ?? byFile ?? null
}

export async function syncSchema(client: Metabase, databaseId: number): Promise<void> {
  await client.post(`/api/database/${databaseId}/sync_schema`)
}
