import { isAbsolute, relative } from 'node:path'
import { FatalError, messageOf } from '#src/lib/errors.ts'
import type { MetabaseDatabase } from './answers.ts'
import type { Metabase } from './client.ts'
import { isMarked, marked } from './mark.ts'
import { databaseDetails, type Resources } from './resources.ts'

/** How Metabase opens a catalog; the names are the DuckDB driver's (its `metabase-plugin.yaml`). */
const FIRST_DETAILS = {
  read_only: true,
  // The default of Metabase's form: the SQL that Metabase generates depends on it.
  old_implicit_casting: true,
  // By default, DuckDB takes up to 80 % of the machine's memory, beside a JVM.
  memory_limit: '1GB',
}

export type Owner = {
  readonly company: string
  /** The company's lake: a database that reads a snapshot in it belongs to the company. */
  readonly lake: string
}

/** Finds Metabase's database for the company's snapshots; null if there is none yet. */
export async function findDatabase(
  client: Metabase,
  { company, lake }: Owner,
): Promise<MetabaseDatabase | null> {
  const { data } = await client.get<{ data: readonly MetabaseDatabase[] }>('/api/database')
  const found = data
    .filter(({ engine }) => engine === 'duckdb')
    .filter(
      ({ description, details }) =>
        isMarked(description, company, 'base') || isBelow(lake, details?.database_file),
    )
  return found.sort((a, b) => a.id - b.id)[0] ?? null
}

/** Adds the database, with all its options: Metabase opens it at once, and cannot change options of an open file. */
export async function createDatabase(
  client: Metabase,
  { company }: Owner,
  catalogPath: string,
  resources: Resources,
  onMade: (database: MetabaseDatabase) => Promise<void>,
): Promise<MetabaseDatabase> {
  const own = await databaseDetails(client, {}, catalogPath, resources)
  const database = await client
    .post<MetabaseDatabase>('/api/database', {
      name: titled('Editais', company),
      engine: 'duckdb',
      details: { database_file: catalogPath, ...FIRST_DETAILS, ...own },
    })
    .catch(error => {
      if (!/valid database engine/.test(messageOf(error))) throw error
      throw new FatalError(
        `Metabase at ${client.url} has no driver for DuckDB. Put duckdb.metabase-driver.jar into its directory of plugins, and restart it: docs/operating/metabase.md.`,
      )
    })
  await onMade(database)
  const description = marked(
    'Editais acompanhados e suas análises. Cada publicação troca o arquivo que esta base lê.',
    company,
    'base',
  )
  // The description can be set only once the database exists.
  await client.put(`/api/database/${database.id}`, { description })
  return database
}

/** Adds the company's name, unless it is the default company. */
export function titled(name: string, company: string): string {
  return company === 'default' ? name : `${name} (${company})`
}

function isBelow(directory: string, path: unknown): boolean {
  if (typeof path !== 'string') return false
  const below = relative(directory, path)
  return below !== '' && !below.startsWith('..') && !isAbsolute(below)
}
