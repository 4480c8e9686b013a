import { cp, mkdir, readdir, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { FORMAT_NAMES, type RemoteLakeSettings } from '#config/lake.ts'
import { type Latest, readRemoteLatest, type TableKeeper } from '#src/extras/object_store/tables/format.ts'
import { openS3 } from '#src/lib/objects/s3.ts'
import type { Served, Servers } from '#test/api/servers.ts'
import { writeCredentials } from '#tools/s3_server.ts'

/** A company whose lake is published, and what readers must find there. */

export const BUCKET = 'lake'
export const COMPANY = 'acme'
/** Both the id of the key and the key. */
export const SECRET = 'of-the-test'

/** A REST catalog, as readers reach it. */
export type Catalog = {
  readonly name: string
  readonly uri: string
  readonly warehouse: string
  readonly namespace: string
  /** Whether it keeps tags and earlier snapshots. */
  readonly history: boolean
}

/** What the Python readers need. */
export type Given = {
  readonly endpoint: string
  readonly key_id: string
  readonly secret: string
  readonly bucket: string
  readonly prefix: string
  readonly catalog: Catalog | null
  readonly versions: Readonly<Record<TableKeeper, Record<string, Readonly<Record<string, number>>>>>
  readonly snapshots: Record<string, Readonly<Record<string, readonly string[]>>>
  readonly times: Record<string, number>
}

export type PublishedLake = {
  readonly given: Given
  /** The directory of the local lake's snapshots. */
  readonly local: string
  sync(): Promise<unknown>
  /** Adds the latest snapshot to what readers must find. */
  note(): Promise<void>
}

export async function settingsOf(
  directory: string,
  endpoint: string,
  prefix: string,
): Promise<RemoteLakeSettings> {
  await mkdir(directory, { recursive: true })
  return {
    bucket: BUCKET,
    prefix,
    region: 'us-east-1',
    endpoint,
    formats: FORMAT_NAMES,
    catalog: null,
    keepMs: 0,
    intervalMs: 0,
    retryMs: 100,
    credentialsFile: await writeCredentials(join(directory, 's3_credentials'), SECRET),
  }
}

/** Nothing is published yet. */
export function describeLake(
  servers: Servers,
  sandbox: Served,
  about: {
    readonly directory: string
    readonly settings: RemoteLakeSettings
    readonly catalog: Catalog | null
  },
): PublishedLake {
  const { directory, settings, catalog } = about
  const { endpoint, prefix, credentialsFile } = settings
  const data = join(directory, `data-${prefix}`)
  const environment = {
    ...{ API_BASE_URL: sandbox.url, API_KEY: sandbox.key, COMPANY, DATA_DIR: data },
    LAKE_URL: `s3://${BUCKET}/${prefix}`,
    LAKE_FORMATS: FORMAT_NAMES.join(),
    S3_ENDPOINT: `${endpoint}`,
    S3_CREDENTIALS_FILE: `${credentialsFile}`,
    ...(catalog ? { ICEBERG_CATALOG_URI: catalog.uri, ICEBERG_WAREHOUSE: catalog.warehouse } : {}),
  }
  const given: Given = {
    ...{ endpoint: `${endpoint}`, key_id: SECRET, secret: SECRET, catalog },
    ...{ bucket: BUCKET, prefix: `${prefix}/${COMPANY}/lake` },
    versions: { iceberg: {}, catalog: {}, delta: {} },
    snapshots: {},
    times: {},
  }
  return {
    given,
    local: join(data, COMPANY, 'lake/snapshots'),
    async sync() {
      await servers.run(['sync'], environment)
      // A catalog that has just started may be silent for longer than a command waits after its report; a publish waits longer.
      if (catalog) await servers.run(['lake', 'publish'], environment)
    },
    note: () => note(given, settings, join(data, COMPANY)),
  }
}

async function note(given: Given, settings: RemoteLakeSettings, company: string): Promise<void> {
  const latest = await latestOf(settings)
  const { snapshot, published_at } = latest
  const local = await realpath(join(company, 'lake/latest'))
  if (snapshot === null || !local.endsWith(snapshot) || snapshot in given.snapshots)
    throw new Error(`The object store has the snapshot ${snapshot}, not ${local}.`)
  for (const keeper of ['iceberg', 'catalog', 'delta'] as const)
    given.versions[keeper][snapshot] = latest[keeper] ?? {}
  // The next publish removes them.
  const marts = join(company, 'remote_marts', snapshot, 'marts')
  await cp(marts, join(local, 'marts'), { recursive: true })
  given.times[snapshot] = Date.parse(published_at ?? '')
  const tables = Object.keys(latest.delta ?? {}).map(
    async table => [table, await filesOf(local, table)] as const,
  )
  given.snapshots[snapshot] = Object.fromEntries(await Promise.all(tables))
}

export async function latestOf(settings: RemoteLakeSettings): Promise<Latest> {
  const store = await openS3(settings)
  try {
    return ((await readRemoteLatest(store, COMPANY)) as { latest: Latest }).latest
  } finally {
    store.close()
  }
}

async function filesOf(snapshot: string, table: string): Promise<string[]> {
  const files = await readdir(join(snapshot, table)).catch(() => null)
  if (files === null) return [join(snapshot, 'marts', `${table}.parquet`)]
  return files.map(file => join(snapshot, table, file))
}
