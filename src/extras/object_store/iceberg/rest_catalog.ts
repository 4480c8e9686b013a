import { z } from 'zod'
import type { CatalogSettings } from '#config/iceberg_catalog.ts'
import { RemoteError } from '#src/lib/objects/objects.ts'
import type { Patience } from '#src/lib/objects/patience.ts'
import type { IcebergField, IcebergSchema } from './manifests.ts'
import { MS, type SortOrder, type TableMetadata } from './metadata.ts'
import { type CatalogAnswer, openRestClient, type RestClient } from './rest_client.ts'
import type { TableChange } from './updates.ts'

/** A company's namespace in an Iceberg REST catalog. */
export type RestCatalog = {
  /** Name as the subject of a sentence. */
  readonly name: string
  /** Returns a table's name, for messages. */
  nameOf(table: string): string
  /** Loads a table's metadata; null if there is no such table. */
  load(table: string): Promise<TableMetadata | null>
  /** Creates an empty table; one that already exists is loaded. */
  create(table: string, wanted: NewTable): Promise<TableMetadata>
  /**
   * Changes all of these tables, in one transaction if the catalog can.
   * @returns false if an answer was lost, so that it is not known which of them were changed.
   * @throws RemoteError if the catalog refuses, or a table was changed by another program.
   */
  commit(changes: readonly TableChange[]): Promise<boolean>
  close(): void
}

type NewTable = {
  readonly location: string
  readonly schema: IcebergSchema | null
  readonly order: SortOrder
  readonly properties: Readonly<Record<string, string>>
}

const TRANSACTION = 'POST /v1/{prefix}/transactions/commit'

/**
 * Opens a REST catalog.
 * @param patience of the object store that the tables are in.
 * @throws RemoteError if the catalog cannot be reached, or does not know the warehouse.
 */
export async function openRestCatalog(settings: CatalogSettings, patience: Patience): Promise<RestCatalog> {
  const client = openRestClient(settings, patience)
  try {
    const config = await configOf(client, settings)
    return catalogOf(client, settings.namespace, config)
  } catch (error) {
    client.close()
    throw error
  }
}

type Config = {
  /** The part of a path before the namespace: empty, or ends with a slash. */
  readonly prefix: string
  /** Separates the levels of a namespace in a path. */
  readonly separator: string
  /** False if the catalog is known to have no transactions. */
  readonly hasTransactions: boolean
}

async function configOf(client: RestClient, { warehouse }: CatalogSettings): Promise<Config> {
  const query = warehouse === null ? '' : `?warehouse=${encodeURIComponent(warehouse)}`
  const answer = await client.get(`config${query}`)
  const { defaults, overrides, endpoints } = answer.json as {
    defaults?: Record<string, string>
    overrides?: Record<string, string>
    endpoints?: string[]
  }
  if (answer.status !== 200) throw client.refusal('return its configuration', answer)
  if (!defaults && !overrides) throw strange(client, 'its configuration')
  const known = { ...defaults, ...overrides }
  return {
    prefix: known.prefix ? `${inPath(client, known.prefix)}/` : '',
    separator: separatorIn(client, known['namespace-separator'] ?? '%1F'),
    hasTransactions: endpoints?.includes(TRANSACTION) ?? true,
  }
}

/** Encodes a part of a path, which a catalog may have encoded or not. */
function inPath(client: RestClient, part: unknown): string {
  try {
    return encodeURI(decodeURI(String(part)))
  } catch {
    throw strange(client, 'its configuration')
  }
}

/** Checks a separator, which must be written as it stands in a path. */
function separatorIn(client: RestClient, text: string): string {
  if (/^(%[0-9a-f]{2}|[\w.~-])+$/i.test(text)) return text
  throw strange(client, 'its configuration')
}

function strange({ name }: RestClient, what: string): RemoteError {
  return new RemoteError(
    `${name} does not answer as an Iceberg REST catalog (${what}). Check ICEBERG_CATALOG_URI.`,
  )
}

function catalogOf(client: RestClient, levels: readonly string[], config: Config): RestCatalog {
  const { prefix, separator } = config
  const tables = `${prefix}namespaces/${levels.join(separator)}/tables`
  const nameOf = (table: string) => [...levels, table].join('.')
  const load = async (table: string) => {
    const answer = await client.get(`${tables}/${table}`)
    if (answer.status === 404) return null
    if (answer.status === 200) return metadataOf(client, answer)
    throw client.refusal(`load ${nameOf(table)}`, answer)
  }
  let hasTransactions = config.hasTransactions
  let namespace: Promise<void> | null = null
  return {
    name: client.name,
    nameOf,
    load,
    async create(table, { order, ...wanted }) {
      namespace ??= ensureNamespace(client, config, levels)
      await namespace
      // Some catalogs require all of these.
      const answer = await client.post(tables, {
        name: table,
        ...wanted,
        'partition-spec': { 'spec-id': 0, fields: [] },
        'write-order': order,
        'stage-create': false,
      })
      if (answer.status === 200) return metadataOf(client, answer)
      // It may already exist, if an earlier answer was lost.
      const found = answer.status === null || answer.status === 409 ? await load(table) : null
      if (found) return found
      throw client.refusal(`create ${nameOf(table)}`, answer)
    },
    async commit(changes) {
      const about = { client, levels, nameOf }
      if (hasTransactions && changes.length > 1) {
        const done = await commitTogether(about, `${prefix}transactions/commit`, changes)
        if (done !== 'unsupported') return done
        hasTransactions = false
      }
      return await commitEach(about, tables, changes)
    },
    close: () => client.close(),
  }
}

/** Creates it only if it does not exist: creating may need a separate right. */
async function ensureNamespace(
  client: RestClient,
  { prefix, separator }: Config,
  levels: readonly string[],
): Promise<void> {
  for (let count = 1; count <= levels.length; count += 1) {
    const namespace = levels.slice(0, count)
    const found = await client.get(`${prefix}namespaces/${namespace.join(separator)}`)
    if (found.status === 200) continue
    const answer = await client.post(`${prefix}namespaces`, { namespace, properties: {} })
    // After a lost answer, the first table shows whether it is there; 409 means that it is.
    if (answer.status !== null && answer.status !== 200 && answer.status !== 409)
      throw client.refusal(`create the namespace ${namespace.join('.')}`, answer)
  }
}

type About = {
  readonly client: RestClient
  readonly levels: readonly string[]
  readonly nameOf: (table: string) => string
}

/** Statuses of a catalog that does not support this request. */
const UNSUPPORTED = new Set([404, 405, 406, 501])

async function commitTogether(
  { client, levels, nameOf }: About,
  path: string,
  changes: readonly TableChange[],
): Promise<boolean | 'unsupported'> {
  const answer = await client.post(path, {
    'table-changes': changes.map(change => requestOf(change, levels)),
  })
  const { status, type } = answer
  if (status === 200 || status === 204) return true
  if (status === null) return false
  if (UNSUPPORTED.has(status) && !/^NoSuch(Table|Namespace)/.test(type)) return 'unsupported'
  throw refusedCommit(client, `${nameOf(changes[0]?.table ?? '')} and other tables`, answer)
}

/** Commits one table after another, in the same order each time: if one is refused, the next publish does the rest. */
async function commitEach(
  { client, levels, nameOf }: About,
  tables: string,
  changes: readonly TableChange[],
): Promise<boolean> {
  for (const change of changes) {
    const answer = await client.post(`${tables}/${change.table}`, requestOf(change, levels))
    if (answer.status === null) return false
    if (answer.status !== 200) throw refusedCommit(client, nameOf(change.table), answer)
  }
  return true
}

function requestOf({ table, requirements, updates }: TableChange, namespace: readonly string[]): object {
  return { identifier: { namespace, name: table }, requirements, updates }
}

function refusedCommit(client: RestClient, name: string, answer: CatalogAnswer): RemoteError {
  const error = client.refusal(`commit to ${name}`, answer)
  if (answer.status !== 409) return error
  return new RemoteError(`${error.message} Another program changed it meanwhile. The next run publishes.`)
}

/** The fields that we use; the specification has the rest. */
const METADATA = z.object({
  'table-uuid': z.string(),
  'last-sequence-number': z.number(),
  'last-updated-ms': MS,
  'last-column-id': z.number(),
  'current-schema-id': z.number(),
  schemas: z.array(
    z.object({
      'schema-id': z.number(),
      fields: z.array(z.object({ id: z.number(), name: z.string(), type: z.unknown() })),
    }),
  ),
  properties: z.record(z.string(), z.string()).nullish(),
  'current-snapshot-id': z.number().nullish(),
  snapshots: z
    .array(
      z.object({
        'snapshot-id': z.number(),
        'timestamp-ms': MS,
        'manifest-list': z.string(),
        summary: z.record(z.string(), z.string()).nullish(),
      }),
    )
    .nullish(),
  refs: z.record(z.string(), z.object({ 'snapshot-id': z.number() })).nullish(),
})

/** Fields that a catalog leaves out are empty; those of a schema get the order that ours have, to be compared. */
function metadataOf(client: RestClient, { json }: CatalogAnswer): TableMetadata {
  if (!METADATA.safeParse(json.metadata).success) throw strange(client, 'the metadata of a table')
  const metadata = json.metadata as TableMetadata
  return {
    ...metadata,
    schemas: metadata.schemas.map(schema => ({ ...schema, fields: schema.fields.map(fieldOf) })),
    properties: metadata.properties ?? {},
    'current-snapshot-id': metadata['current-snapshot-id'] ?? -1,
    snapshots: (metadata.snapshots ?? []).map(one => ({ ...one, summary: one.summary ?? {} })),
    'sort-orders': metadata['sort-orders'] ?? [],
    'default-sort-order-id': metadata['default-sort-order-id'] ?? 0,
    'snapshot-log': metadata['snapshot-log'] ?? [],
    'metadata-log': metadata['metadata-log'] ?? [],
    refs: metadata.refs ?? {},
  }
}

function fieldOf({ id, name, required, type, doc }: IcebergField): IcebergField {
  return { id, name, required, type, doc: doc ?? '' }
}
