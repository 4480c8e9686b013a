import { execFile } from 'node:child_process'
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Servers } from '#test/api/servers.ts'
import { obtainJars, obtainJava } from '#test/support/java_programs.ts'
import { freePort } from '#tools/redis_process.ts'
import type { Catalog } from '../published.ts'

/** Trino 476 needs at least this Java, and flags that later versions no longer need. */
const JAVA = 24
const PLUGINS = new Set(['iceberg', 'delta-lake', 'hive', 'memory'])
const NAME = 'trino-server-476'
const START_MS = 180_000

/**
 * Trino on the loopback address, with the catalogs `ice` (Iceberg, through the REST catalog) and `delta`.
 * @returns its port.
 */
export async function startTrino(
  servers: Servers,
  { directory, endpoint, catalog }: { directory: string; endpoint: string; catalog: Catalog },
): Promise<number> {
  const home = join(await obtainJars('Trino 476', join(import.meta.dirname, 'trino.xml'), unpack), NAME)
  const java = await obtainJava(JAVA)
  const port = await freePort()
  const data = join(directory, 'trino')
  const catalogs = join(data, 'catalogs')
  await mkdir(catalogs, { recursive: true })
  const s3 = {
    'fs.native-s3.enabled': true,
    's3.endpoint': endpoint,
    's3.region': 'us-east-1',
    's3.path-style-access': true,
    's3.aws-access-key': 'any',
    's3.aws-secret-key': 'any',
  }
  await writeProperties(join(catalogs, 'ice.properties'), {
    'connector.name': 'iceberg',
    'iceberg.catalog.type': 'rest',
    'iceberg.rest-catalog.uri': catalog.uri,
    ...s3,
  })
  await writeProperties(join(catalogs, 'delta.properties'), {
    'connector.name': 'delta_lake',
    'hive.metastore': 'file',
    'hive.metastore.catalog.dir': 'local:///metastore',
    'fs.native-local.enabled': true,
    'local.location': data,
    'delta.register-table-procedure.enabled': true,
    ...s3,
  })
  const config = join(data, 'config.properties')
  await writeProperties(config, {
    coordinator: true,
    'node-scheduler.include-coordinator': true,
    'http-server.http.port': port,
    'discovery.uri': `http://127.0.0.1:${port}`,
    'catalog.config-dir': catalogs,
    'plugin.dir': join(home, 'plugin'),
    'node.environment': 'test',
    'node.id': 'one',
    'node.bind-ip': '127.0.0.1',
    'node.internal-address': '127.0.0.1',
  })
  const flags = ['-Xmx2G', '-Djdk.attach.allowAttachSelf=true', '-Dfile.encoding=UTF-8']
  const words = [...flags, `-Dnode.data-dir=${data}`, `-Dconfig=${config}`, '-cp', join(home, 'lib', '*')]
  const url = `http://127.0.0.1:${port}/v1/info`
  await servers.startProgram(java, [...words, 'io.trino.server.TrinoServer'], url, {
    isReady: async response => ((await response.json()) as { starting: boolean }).starting === false,
    withinMs: START_MS,
  })
  return port
}

/** Most of it is connectors to other databases. */
async function unpack(directory: string): Promise<void> {
  const archive = join(directory, `${NAME}.tar.gz`)
  await promisify(execFile)('tar', ['xzf', archive, '-C', directory])
  await rm(archive)
  const plugins = join(directory, NAME, 'plugin')
  for (const name of await readdir(plugins))
    if (!PLUGINS.has(name)) await rm(join(plugins, name), { recursive: true })
}

async function writeProperties(
  path: string,
  properties: Readonly<Record<string, string | number | boolean>>,
): Promise<void> {
  const lines = Object.entries(properties).map(([name, value]) => `${name}=${value}\n`)
  await writeFile(path, lines.join(''))
}
