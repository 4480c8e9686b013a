import { Database } from '#src/core/warehouse/database.ts'
import type { Installation, Routes } from './routes.ts'
import { type Entity, find, Refusal } from './state.ts'

type TrinoDetails = {
  readonly host: string
  readonly port: number
  readonly catalog: string
  readonly schema: string
}

/** Databases, and their tables and fields. */
export function databaseRoutes(installation: Installation): Routes {
  const { state, nextId, violated } = installation
  /** After a delay: the test may have ended by then, and its snapshot be gone. */
  const sync = (database: Entity) =>
    setTimeout(() => void readSchema(database, installation).catch(() => {}), installation.syncMs)
  return {
    'GET /api/database': () => ({ data: state.databases, total: state.databases.length }),
    'POST /api/database': async ({ body }) => {
      await checkOpens(body, installation)
      const made = { ...body, id: nextId(), description: null, initial_sync_status: 'incomplete' }
      state.databases.push(made)
      sync(made)
      return made
    },
    'GET /api/database/:id': ({ id }) => find(state.databases, id),
    'PUT /api/database/:id': async ({ id, body }) => {
      const database = find(state.databases, id)
      if (database.is_sample) throw violated('PUT /api/database', 'The sample database cannot be edited.')
      const details = { ...(database.details as object), ...(body.details as object | undefined) }
      await checkOpens({ ...database, details }, installation)
      // A paid edition: what is not sent is cleared.
      return Object.assign(database, body, { id, details, cache_ttl: body.cache_ttl ?? null })
    },
    'POST /api/database/:id/sync_schema': ({ id }) => {
      sync(find(state.databases, id))
      return { status: 'ok' }
    },
    'GET /api/database/:id/metadata': ({ id }) => ({
      ...find(state.databases, id),
      tables: state.tables.filter(table => table.db_id === id),
    }),
    'PUT /api/table/:id': ({ id, body }) => Object.assign(find(state.tables, id), body, { id }),
    'PUT /api/field/:id': ({ id, body }) => {
      const fields = state.tables.flatMap(table => table.fields)
      const target = body.fk_target_field_id
      if (typeof target === 'number') find(fields, target)
      if (body.semantic_type === 'type/FK' && !target) throw violated('PUT /api/field', 'FK without a target')
      return Object.assign(find(fields, id), body, { id })
    },
  }
}

/** Metabase's driver asks Trino for the catalog, not for the schema. */
async function checkOpens({ engine, details }: Entity, { trino }: Installation): Promise<void> {
  if (engine === 'starburst') {
    const { host, port, catalog } = details as TrinoDetails
    if (trino?.at === `${host}:${port}/${catalog}`) return
    throw new Refusal(400, { message: `Error starting query at http://${host}:${port}/v1/statement` })
  }
  await Database.open((details as { database_file: string }).database_file, { readOnly: true }).then(
    db => db.close(),
    error => {
      throw new Refusal(400, { message: String(error), errors: { database_file: 'check your file' } })
    },
  )
}

/** Reads the schema with the driver's own queries. */
async function readSchema(database: Entity, installation: Installation): Promise<void> {
  const { file, schema } = catalogOf(database, installation)
  if (file === undefined) return
  const db = await Database.open(file, { readOnly: true })
  const tables = await db.rows<{ table_name: string; table_comment: string | null }>(
    `SELECT table_catalog, table_schema, table_name, table_comment FROM information_schema.tables
         WHERE table_catalog NOT LIKE '__ducklake_metadata%' AND table_schema NOT IN ('information_schema', 'pg_catalog')`,
  )
  const columns = await db.rows<{
    table_name: string
    column_name: string
    column_comment: string | null
  }>(`SELECT * FROM information_schema.columns WHERE table_schema = 'main'`)
  db.close()
  const known = knownOrNew(installation)
  for (const { table_name: name, table_comment: comment } of tables) {
    const same = { db_id: database.id, name, schema }
    const table = known(installation.state.tables, same, comment, { fields: [] })
    for (const { column_name, column_comment } of columns.filter(column => column.table_name === name)) {
      const more = { semantic_type: null, fk_target_field_id: null, settings: null }
      known(table.fields, { name: column_name }, column_comment, more)
    }
  }
  database.initial_sync_status = 'complete'
}

/** A Trino's schema is read from the catalog of the snapshot that its tables have. */
function catalogOf({ engine, details }: Entity, { trino }: Installation) {
  if (engine !== 'starburst') {
    return { file: (details as { database_file: string }).database_file, schema: 'main' }
  }
  const { schema } = details as TrinoDetails
  return { file: trino?.schemas.get(schema), schema }
}

/** The entity with these properties, or a new one; a comment becomes the description of a new one. */
function knownOrNew({ nextId }: Installation) {
  return <T extends Entity>(
    those: T[],
    same: Record<string, unknown>,
    comment: string | null,
    more: object,
  ): T => {
    const known = those.find(one => Object.entries(same).every(([name, value]) => one[name] === value))
    if (known) return known
    const made = {
      id: nextId(),
      ...same,
      display_name: String(same.name),
      description: comment,
      ...more,
    } as unknown as T
    those.push(made)
    return made
  }
}
