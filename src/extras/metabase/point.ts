import { EXIT, FatalError } from '#src/lib/errors.ts'
import type { MetabaseDatabase } from './answers.ts'
import type { Metabase } from './client.ts'
import type { Owner } from './database.ts'
import { companyOfMark } from './mark.ts'
import { MetabaseError } from './metabase_error.ts'
import { databaseDetails, type Resources } from './resources.ts'

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
  readonly owner: Owner
  readonly columnsChanged: boolean
  readonly resources: Resources
  /** Called with the catalogs that Metabase may read, as soon as they are known. */
  readonly onRead?: (catalogs: readonly string[]) => void | Promise<void>
}): Promise<Pointed> {
  const { client, databaseId, owner, catalogPath, columnsChanged, onRead = () => {} } = request
  const database = await readDatabase(client, databaseId, owner)
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
