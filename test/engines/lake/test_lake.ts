import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readdir, realpath, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { FORMAT_NAMES, type FormatName, type RemoteLakeSettings } from '#config/remote_lake.ts'
import { counted } from '#src/platform/count.ts'
import { messageOf } from '#src/platform/errors.ts'
import { type Latest, readLatest } from '#src/store/remote/latest.ts'
import type { ObjectStore } from '#src/store/remote/objects.ts'
import { openS3 } from '#src/store/remote/s3.ts'
import type { Servers } from '#test/api/servers.ts'
import { obtainPython } from '#test/support/python_environment.ts'
import { CONFORMANCE } from '#test/support/s3_conformance.ts'
import { freePort } from '#tools/redis_process.ts'
import { type Result, reasonOf } from '../result.ts'

/** A lake on another S3 server, read by other engines: every value of every table in two snapshots. */

const ENGINES = [
  'pyiceberg',
  'duckdb-iceberg',
  'clickhouse-iceberg',
  'deltalake',
  'polars',
  'duckdb-delta',
  'clickhouse-delta',
]
const AT_ONCE = 2
const BUCKET = 'lake'
const COMPANY = 'acme'
const SECRET = 'of-the-test'
/** Until the next snapshot has something new. */
const WORLD_CHANGES_MS = 3000

export async function* testLake(
  servers: Servers,
  directory: string,
  { snapshots }: { readonly snapshots: number },
): AsyncGenerator<Result> {
  const python = await obtainPython({
    name: 'lake readers',
    requirements: join(import.meta.dirname, 'requirements.txt'),
    module: 'chdb, deltalake, duckdb, polars, pyiceberg, moto',
    least: '3.11',
    below: '3.14',
    user: 'The test with other engines',
  })
  const endpoint = await startMoto(servers, python)
  const settings = await settingsOf(directory, endpoint)
  const store = await openS3(settings)
  try {
    yield* conformanceOf(store, directory)
    const { given, publishAgain } = await publishTwice(servers, directory, settings, store)
    const waiting = [...ENGINES]
    while (waiting.length > 0) {
      const some = waiting.splice(0, AT_ONCE)
      yield* await Promise.all(some.map(engine => compare(python, engine, given)))
    }
    yield await readWhilePublishing(python, directory, given, { snapshots, publishAgain })
  } finally {
    store.close()
  }
}

async function startMoto(servers: Servers, python: string): Promise<string> {
  const port = await freePort()
  const endpoint = `http://127.0.0.1:${port}`
  await servers.startProgram(python, ['-m', 'moto.server', '-H', '127.0.0.1', '-p', `${port}`], endpoint)
  const created = await fetch(`${endpoint}/${BUCKET}`, { method: 'PUT' })
  if (!created.ok) throw new Error(`moto did not create a bucket: ${created.status}`)
  return endpoint
}

async function settingsOf(directory: string, endpoint: string): Promise<RemoteLakeSettings> {
  const keyFiles = { id: join(directory, 's3_id'), secret: join(directory, 's3_secret') }
  await mkdir(directory, { recursive: true })
  for (const path of Object.values(keyFiles)) await writeFile(path, SECRET)
  return {
    bucket: BUCKET,
    prefix: 'bi',
    region: 'us-east-1',
    endpoint,
    pathStyle: true,
    formats: FORMAT_NAMES,
    catalog: null,
    keepMs: 0,
    intervalMs: 0,
    keyFiles,
  }
}

/** The same checks as our own S3 server, which `npm test` uses. */
async function* conformanceOf(store: ObjectStore, directory: string): AsyncGenerator<Result> {
  for (const { title, check } of CONFORMANCE) {
    const wrong = await check(store, directory).then(
      () => [],
      error => [`  ${messageOf(error)}\n`],
    )
    yield { title: `moto: ${title}`, wrong }
  }
}

/** What `read.py` needs. */
type Given = {
  readonly endpoint: string
  readonly key_id: string
  readonly secret: string
  readonly bucket: string
  readonly prefix: string
  readonly versions: Readonly<Record<FormatName, Record<string, Readonly<Record<string, number>>>>>
  readonly snapshots: Record<string, Readonly<Record<string, readonly string[]>>>
  readonly times: Record<string, number>
}

async function publishTwice(
  servers: Servers,
  directory: string,
  settings: RemoteLakeSettings,
  store: ObjectStore,
): Promise<{ given: Given; publishAgain: () => Promise<unknown> }> {
  const { url, key } = await servers.startSandbox(['--live', '1'])
  const data = join(directory, 'lake-data')
  const environment = {
    ...{ API_BASE_URL: url, API_KEY: key, COMPANY, DATA_DIR: data },
    ...{
      LAKE_URL: `s3://${BUCKET}/bi`,
      LAKE_FORMATS: FORMAT_NAMES.join(),
      S3_ENDPOINT: `${settings.endpoint}`,
    },
    S3_ACCESS_KEY_ID_FILE: `${settings.keyFiles?.id}`,
    S3_SECRET_ACCESS_KEY_FILE: `${settings.keyFiles?.secret}`,
  }
  const given: Given = {
    ...{ endpoint: `${settings.endpoint}`, key_id: SECRET, secret: SECRET },
    ...{ bucket: BUCKET, prefix: `bi/${COMPANY}/lake` },
    versions: { iceberg: {}, delta: {} },
    snapshots: {},
    times: {},
  }
  await servers.run(['sync', '--full'], environment)
  await note(given, store, data)
  await sleep(WORLD_CHANGES_MS)
  await servers.run(['sync'], environment)
  await note(given, store, data)
  return { given, publishAgain: () => servers.run(['sync'], environment) }
}

/** The snapshot that is the latest now. */
async function note(given: Given, store: ObjectStore, data: string): Promise<void> {
  const { latest } = (await readLatest(store, COMPANY)) as { latest: Latest }
  const { snapshot, published_at } = latest
  const local = await realpath(join(data, COMPANY, 'lake/latest'))
  if (snapshot === null || !local.endsWith(snapshot) || snapshot in given.snapshots)
    throw new Error(`The object store has the snapshot ${snapshot}, not ${local}.`)
  for (const format of FORMAT_NAMES) given.versions[format][snapshot] = latest[format] ?? {}
  given.times[snapshot] = Date.parse(published_at ?? '')
  const tables = Object.keys(latest.iceberg ?? {}).map(
    async table => [table, await filesOf(local, table)] as const,
  )
  given.snapshots[snapshot] = Object.fromEntries(await Promise.all(tables))
}

async function filesOf(snapshot: string, table: string): Promise<string[]> {
  const files = await readdir(join(snapshot, table)).catch(() => null)
  if (files === null) return [join(snapshot, 'marts', `${table}.parquet`)]
  return files.map(file => join(snapshot, table, file))
}

async function compare(python: string, engine: string, given: Given): Promise<Result> {
  const { stdout, stderr, code } = await runPython(python, ['read.py', engine], given)
  if (code !== 0) return { title: engine, wrong: [`  ${reasonOf(stderr)}\n`] }
  const { version, compared, differences } = JSON.parse(stdout) as {
    version: string
    compared: number
    differences: string[]
  }
  return {
    title: `${version}: ${compared} tables of ${Object.keys(given.snapshots).length} snapshots`,
    wrong: differences.map(one => `  ${one}\n`),
  }
}

/** A reader that joins four tables in a loop meets every snapshot that it sees as a whole. */
async function readWhilePublishing(
  python: string,
  directory: string,
  given: Given,
  { snapshots, publishAgain }: { snapshots: number; publishAgain: () => Promise<unknown> },
): Promise<Result> {
  const stop = join(directory, 'stop')
  const local = join(directory, 'lake-data', COMPANY, 'lake/snapshots')
  const reading = runPython(python, ['loop.py'], { ...given, local, stop })
  for (let count = 0; count < snapshots; count += 1) await publishAgain()
  await writeFile(stop, '')
  const { stdout, stderr, code } = await reading
  const title = `a reader of four tables, while ${counted(snapshots, 'snapshot')} were published`
  if (code !== 0) return { title, wrong: [`  ${reasonOf(stderr)}\n`] }
  const found = JSON.parse(stdout) as { reads: number; snapshots: number; differences: string[] }
  return {
    title: `${title}: ${counted(found.reads, 'read')} of ${counted(found.snapshots, 'snapshot')}`,
    wrong: found.differences.map(one => `  ${one}\n`),
  }
}

async function runPython(python: string, [script = '', ...args]: readonly string[], given: object) {
  const child = spawn(python, [join(import.meta.dirname, script), ...args], {
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  child.stdin.end(JSON.stringify(given))
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  return { stdout, stderr, code: child.exitCode }
}
