import type { CatalogSettings } from '#config/lake.ts'
import {
  type Commit,
  DATA_PATH,
  type Expired,
  type Expiry,
  type OpenTable,
  type RemoteTable,
  type TableFormat,
  tableKey,
} from '#src/extras/object_store/tables/format.ts'
import { type ObjectStore, RemoteError } from '#src/lib/objects/objects.ts'
import {
  createTableMetadata,
  dropTags,
  findCurrentSchema,
  findExpired,
  findSortOrder,
  MAIN,
  type TableMetadata,
  withSchema,
} from './metadata.ts'
import { describeChange, openRestCatalog, type RestCatalog, type TableChange } from './rest_catalog.ts'
import {
  assertOurs,
  type IcebergTable,
  listNamedObjects,
  listTableFiles,
  readTable,
  writeNextMetadata,
} from './snapshot.ts'

/**
 * Opens Iceberg v2 tables in a REST catalog: it writes their metadata and decides which writer wins; data files, manifests and
 * their lists are ours. Commits of all tables are collected, and sent as one.
 */
export async function openCatalogTables(
  store: ObjectStore,
  settings: CatalogSettings,
  company: string,
): Promise<TableFormat> {
  const catalog = await openRestCatalog(settings, store.patience)
  const changes: TableChange[] = []
  const opened = { store, catalog, company, changes, lastChange: 0 }
  return {
    open: (name, _, create) => open(opened, name, create),
    lastChange: () => opened.lastChange,
    finish: () => commitAll(catalog, changes.splice(0)),
    close: () => catalog.close(),
  }
}

type Opened = {
  readonly store: ObjectStore
  readonly catalog: RestCatalog
  readonly company: string
  /** Not sent yet. */
  readonly changes: TableChange[]
  lastChange: number
}

/** The property that names the company of a table: two companies must not share a namespace. */
const COMPANY_PROPERTY = 'editais-sync.company'

/** Set when a table is created: the catalog itself removes old versions of its metadata. */
const PROPERTIES = {
  'write.metadata.delete-after-commit.enabled': 'true',
  'write.metadata.previous-versions-max': '20',
}

async function open(opened: Opened, name: string, create?: RemoteTable): Promise<OpenTable> {
  const { store, catalog, company } = opened
  const directory = tableKey(company, name)
  const found = await catalog.load(name)
  const metadata = found ?? (create ? await createTable(opened, directory, create) : null)
  if (metadata === null) return EMPTY
  assertOwner(catalog.readName(name), metadata, company)
  opened.lastChange = Math.max(opened.lastChange, metadata['last-updated-ms'])
  const table = await readTable(store, directory, metadata)
  const files = listTableFiles(store, table)
  return {
    version: metadata.refs[MAIN]?.['snapshot-id'] ?? null,
    files: new Set(files.map(({ path }) => path)),
    commit: wanted => commit(opened, table, wanted),
    read: async () => files,
    expire: older => expire(opened, name, table, older),
  }
}

const NOTHING: Expired = {
  version: null,
  removed: 0,
  kept: 0,
  isNamed: () => false,
  superseded: new Set(),
}
const EMPTY: OpenTable = {
  version: null,
  files: new Set(),
  async commit({ table }) {
    throw new RemoteError(`The catalog has no table ${table.name}.`)
  },
  read: async () => [],
  expire: async () => NOTHING,
}

/** Throws RemoteError if the table is not the company's, or another program committed to it. */
function assertOwner(name: string, metadata: TableMetadata, company: string): void {
  const owner = metadata.properties[COMPANY_PROPERTY]
  if (owner === undefined)
    throw new RemoteError(
      `The table ${name} belongs to another program. Set ICEBERG_NAMESPACE to another namespace.`,
    )
  if (owner !== company)
    throw new RemoteError(
      `The table ${name} belongs to the company ${owner}. Put {company} into ICEBERG_NAMESPACE.`,
    )
  assertOurs(`the table ${name}`, metadata)
}

/** Creates an empty table: catalogs differ in what they accept within a transaction. */
async function createTable({ store, catalog, company }: Opened, directory: string, table: RemoteTable) {
  const location = `${store.root}/${directory}`
  const described = withSchema(createTableMetadata('', location), table)
  return await catalog.create(table.name, {
    location,
    schema: findCurrentSchema(described),
    order: findSortOrder(described),
    properties: { ...PROPERTIES, ...described.properties, [COMPANY_PROPERTY]: company },
  })
}

/** Collects the change of a table. @returns the id of the snapshot that has exactly the wanted files. */
async function commit({ store, changes }: Opened, table: IcebergTable, wanted: Commit): Promise<number> {
  const next = await writeNextMetadata(store, table, wanted)
  const change = describeChange(wanted.table.name, table.metadata, next)
  if (change) changes.push(change)
  return next['current-snapshot-id']
}

async function commitAll(catalog: RestCatalog, changes: readonly TableChange[]): Promise<void> {
  if (changes.length === 0 || (await catalog.commit(changes))) return
  const missing = await Promise.all(changes.map(async change => ((await isThere(catalog, change)) ? 0 : 1)))
  if (missing.includes(1))
    throw new RemoteError(`${catalog.name} did not answer a commit. The next run publishes again.`)
}

/** Returns whether a change is in the catalog. Called after a lost answer. */
async function isThere(catalog: RestCatalog, { table, next }: TableChange): Promise<boolean> {
  const metadata = await catalog.load(table)
  const has = (name: string) => metadata?.refs[name]?.['snapshot-id'] === next.refs[name]?.['snapshot-id']
  // A catalog that keeps no tags shows only the snapshot.
  return metadata !== null && has(MAIN) && (!keepsTags(metadata) || Object.keys(next.refs).every(has))
}

function keepsTags({ refs, snapshots }: TableMetadata): boolean {
  return snapshots.length === 0 || Object.keys(refs).some(name => name !== MAIN)
}

async function expire(opened: Opened, name: string, table: IcebergTable, older: Expiry): Promise<Expired> {
  const { store, catalog } = opened
  const { snapshots, expired } = findExpired(table.metadata, older)
  const metadata = dropTags(table.metadata, expired, older.now)
  const version = metadata['current-snapshot-id'] === -1 ? null : metadata['current-snapshot-id']
  const change = describeChange(name, table.metadata, metadata)
  await commitAll(catalog, change ? [change] : [])
  const forgotten = table.metadata.snapshots.filter(one => !metadata.snapshots.includes(one))
  const named = await listNamedObjects(store, table.directory, metadata.snapshots)
  // Without tags, the catalog keeps the history and knows what is named.
  const isNamed = (key: string) => named.has(key) || !isOurs(table.directory, key)
  return {
    version,
    removed: expired.size,
    kept: snapshots.length - expired.size,
    isNamed: keepsTags(table.metadata) ? isNamed : () => true,
    superseded: await listNamedObjects(store, table.directory, forgotten),
  }
}

/** Returns whether a publish wrote it, not the catalog (its metadata) or another program. */
function isOurs(directory: string, key: string): boolean {
  const path = key.slice(directory.length + 1)
  return (
    DATA_PATH.test(path) ||
    /^metadata\/(snap-\d+-)?[0-9a-f]{32}\.avro$/.test(path) ||
    // Written before there was a catalog.
    /^metadata\/v\d+\.metadata\.json$/.test(path) ||
    path.startsWith('_delta_log/')
  )
}
