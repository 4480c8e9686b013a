import { EXIT, FatalError } from '#src/platform/errors.ts'
import type { MetabaseDatabase } from './answers.ts'
import { type Metabase, MetabaseError } from './client.ts'
import type { Owner } from './database.ts'
import { companyOfMark } from './mark.ts'

export type Pointed = {
  /** The file it pointed at before; null for none. */
  readonly from: string | null
  readonly moved: boolean
  readonly synced: boolean
}

/**
 * Makes a database of Metabase read a snapshot's catalog, read-only, where it does not already. Metabase opens the
 * file before it accepts it, and then drops the connections to the old one. Only where columns changed is it asked
 * to read the schema again, which it does in its own time.
 * @param catalogPath absolute, and the same for Metabase: the data directory is mounted at the same path.
 * @throws FatalError, mostly MetabaseError; nothing was changed unless `sync_schema` is what failed.
 */
export async function pointDatabase(request: {
  readonly client: Metabase
  readonly databaseId: number
  readonly catalogPath: string
  readonly owner: Owner
  readonly columnsChanged: boolean
  /** Told which catalogs it may read, as soon as that is known. */
  readonly onRead?: (catalogs: readonly string[]) => void
}): Promise<Pointed> {
  const { client, databaseId, owner, catalogPath, columnsChanged, onRead = () => {} } = request
  const { details = {} } = await readDatabase(client, databaseId, owner)
  const from = typeof details.database_file === 'string' ? details.database_file : null
  const moved = from !== catalogPath || details.read_only !== true
  const before = from === null ? [] : [from]
  onRead(before)
  if (moved) {
    // Until it answers, it may read either.
    onRead([...before, catalogPath])
    await client.put(`/api/database/${databaseId}`, {
      // All of them: whatever else was set there stays.
      details: { ...details, database_file: catalogPath, read_only: true },
    })
  }
  onRead([catalogPath])
  if (columnsChanged) await syncSchema(client, databaseId)
  return { from, moved, synced: columnsChanged }
}

/** @throws FatalError when it is not there, none of DuckDB's, or another company's. */
export async function readDatabase(
  client: Metabase,
  databaseId: number,
  owner: Owner,
): Promise<MetabaseDatabase> {
  const database = await client.get<MetabaseDatabase>(`/api/database/${databaseId}`).catch(error => {
    if (!(error instanceof MetabaseError && error.trouble === 'missing')) throw error
    throw new MetabaseError(
      `Metabase at ${client.url} has no database ${databaseId}. Take METABASE_DATABASE_ID away and run \`npm run metabase\`, which finds or makes it.`,
      'missing',
    )
  })
  const other = companyOf(database)
  if (other !== null && other !== owner.company) {
    throw new FatalError(
      `Database ${databaseId} of Metabase (${database.name}) shows company ${other}, and was left alone. Each company needs a METABASE_DATABASE_ID of its own, or none: \`npm run metabase\` finds it.`,
      EXIT.usage,
    )
  }
  if (database.engine === 'duckdb') return database
  throw new FatalError(
    `Database ${databaseId} of Metabase (${database.name}) is of ${database.engine}, not of DuckDB, and was left alone. Correct METABASE_DATABASE_ID.`,
  )
}

/** Whose data it shows, by our mark or by the file that it reads; null where neither says it. */
function companyOf({ description, details }: MetabaseDatabase): string | null {
  const file = typeof details?.database_file === 'string' ? details.database_file : ''
  const byFile = /([^/\\]+)[/\\]lake[/\\]snapshots[/\\]/.exec(file)?.[1]
  return companyOfMark(description) ?? byFile ?? null
}

export async function syncSchema(client: Metabase, databaseId: number): Promise<void> {
  await client.post(`/api/database/${databaseId}/sync_schema`)
}
