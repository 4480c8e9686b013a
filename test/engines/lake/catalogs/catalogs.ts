import { join } from 'node:path'
import type { Servers } from '#test/api/servers.ts'
import { obtainJars, obtainJava } from '#test/support/java_programs.ts'
import { freePort } from '#tools/redis_process.ts'
import { BUCKET, type Catalog, COMPANY } from '../published.ts'

/** Empty REST catalogs for the tests, on the loopback address. */

const NAMESPACE = `editais_${COMPANY}`
/** The Java that runs a single source file. */
const SOURCE_JAVA = 17
const NESSIE_JAVA = 21

/** Apache Iceberg's reference implementation; it keeps everything in an SQLite file. */
export async function startReference(
  servers: Servers,
  { directory, endpoint }: { directory: string; endpoint: string },
): Promise<Catalog> {
  const jars = await obtainJars('Iceberg REST catalog', join(import.meta.dirname, 'reference.xml'))
  const java = await obtainJava(SOURCE_JAVA)
  const port = await freePort()
  const uri = `http://127.0.0.1:${port}`
  const properties = [
    'catalog-impl=org.apache.iceberg.jdbc.JdbcCatalog',
    `uri=jdbc:sqlite:file:${join(directory, 'catalog.db')}`,
    ...['jdbc.user=unused', 'jdbc.password=unused', 'jdbc.schema-version=V1'],
    `warehouse=s3://${BUCKET}/reference`,
    'io-impl=org.apache.iceberg.aws.s3.S3FileIO',
    ...[`s3.endpoint=${endpoint}`, 's3.path-style-access=true', 'client.region=us-east-1'],
    ...['s3.access-key-id=any', 's3.secret-access-key=any'],
  ]
  const source = join(import.meta.dirname, 'ReferenceCatalog.java')
  await servers.startProgram(
    java,
    ['-Xmx512m', '-cp', join(jars, '*'), source, String(port), ...properties],
    uri,
  )
  const name = "Iceberg's reference catalog"
  return { name, uri, warehouse: 'reference', namespace: NAMESPACE, history: true }
}

/** In memory. */
export async function startNessie(servers: Servers, { endpoint }: { endpoint: string }): Promise<Catalog> {
  const jars = await obtainJars('Nessie', join(import.meta.dirname, 'nessie.xml'))
  const java = await obtainJava(NESSIE_JAVA)
  const [port, management] = [await freePort(), await freePort()]
  const uri = `http://127.0.0.1:${port}/iceberg`
  const s3 = 'nessie.catalog.service.s3.default-options'
  const settings = {
    'quarkus.http.host': '127.0.0.1',
    'quarkus.http.port': port,
    'quarkus.management.host': '127.0.0.1',
    'quarkus.management.port': management,
    'nessie.version.store.type': 'IN_MEMORY',
    'nessie.catalog.default-warehouse': 'nessie',
    'nessie.catalog.warehouses.nessie.location': `s3://${BUCKET}/nessie`,
    [`${s3}.endpoint`]: endpoint,
    [`${s3}.path-style-access`]: true,
    [`${s3}.region`]: 'us-east-1',
    [`${s3}.access-key`]: 'urn:nessie-secret:quarkus:keys.s3',
    'keys.s3.name': 'any',
    'keys.s3.secret': 'any',
  }
  const words = Object.entries(settings).map(([name, value]) => `-D${name}=${value}`)
  const jar = join(jars, 'nessie-quarkus-0.99.0-runner.jar')
  await servers.startProgram(java, ['-Xmx700m', ...words, '-jar', jar], `${uri}/v1/config`)
  return { name: 'Nessie 0.99.0', uri, warehouse: 'nessie', namespace: NAMESPACE, history: false }
}
