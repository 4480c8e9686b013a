import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pluralize } from '#src/lib/count.ts'
import { getMessage } from '#src/lib/errors.ts'
import type { ObjectStore } from '#src/lib/objects/objects.ts'
import { openS3 } from '#src/lib/objects/s3.ts'
import type { Served, Servers } from '#test/api/servers.ts'
import { obtainGoProgram } from '#test/support/go_programs.ts'
import { CONFORMANCE } from '#test/support/s3_conformance.ts'
import { freePort } from '#tools/redis_process.ts'
import { type Result, reasonOf } from '../result.ts'
import { startNessie, startReference } from './catalogs/catalogs.ts'
import { readWithSpark } from './heavy/spark.ts'
import { startTrino } from './heavy/trino.ts'
import { BUCKET, type Catalog, describeLake, type PublishedLake, SECRET, settingsOf } from './published.ts'
import { compareAll, obtainReaders, runPython } from './readers.ts'
import { testRestored } from './restored.ts'

/** Lakes on another S3 server, read by other engines: every value of every table in two snapshots. */

const ENGINES = [
  'pyiceberg',
  'duckdb-iceberg',
  'clickhouse-iceberg',
  'deltalake',
  'polars',
  'duckdb-delta',
  'clickhouse-delta',
]
/** One of each format and library. */
const QUICK_ENGINES = ['pyiceberg', 'duckdb-iceberg', 'deltalake']
const VERSITY = { path: 'github.com/versity/versitygw/cmd/versitygw', version: 'v1.8.0' }
const CATALOG_ENGINES = ['pyiceberg-catalog', 'duckdb-catalog']
const QUICK_SNAPSHOTS = 3
/** After this long, the next snapshot has something new. */
const WORLD_CHANGES_MS = 3000

type Options = {
  /** How many are published while a reader reads. */
  readonly snapshots: number
  /** Without stores, catalogs and engines that are built or downloaded for minutes. */
  readonly quick?: true
  /** Whether Trino and Spark read, too. */
  readonly heavy?: true
}

export async function* testLake(
  servers: Servers,
  directory: string,
  { snapshots, quick, heavy }: Options,
): AsyncGenerator<Result> {
  const python = await obtainReaders()
  const endpoint = await startMoto(servers, python)
  yield* conformanceOf('moto', directory, endpoint)
  const versity = quick ? null : await startVersity(servers, directory)
  if (versity !== null) yield* conformanceOf(`versitygw ${VERSITY.version}`, directory, versity)
  const sandbox = await servers.startSandbox(['--live', '1'])
  const name = versity === null ? 'moto' : 'versitygw'
  yield* testRestored(servers, name, { directory, endpoint: versity ?? endpoint, sandbox })
  const about = { servers, sandbox, directory, endpoint, python }
  const lake = await lakeAt(about, 'bi', null)
  await publishTwice(lake)
  const engines = quick ? QUICK_ENGINES : ENGINES
  yield* compareAll(python, engines, lake.given)
  yield await readWhilePublishing(python, directory, lake, quick ? QUICK_SNAPSHOTS : snapshots)
  if (!quick) yield* testCatalogs(about, heavy ?? false)
}

type About = {
  readonly servers: Servers
  readonly sandbox: Served
  readonly directory: string
  readonly endpoint: string
  readonly python: string
}

async function lakeAt(about: About, prefix: string, catalog: Catalog | null): Promise<PublishedLake> {
  const { servers, sandbox, directory, endpoint } = about
  const settings = await settingsOf(directory, endpoint, prefix)
  return describeLake(servers, sandbox, { directory, settings, catalog })
}

async function* testCatalogs(about: About, heavy: boolean): AsyncGenerator<Result> {
  const { servers, python } = about
  const catalog = await startReference(servers, about)
  const reference = await lakeAt(about, 'reference', catalog)
  await publishTwice(reference)
  yield* compareAll(python, CATALOG_ENGINES, reference.given)
  if (heavy) yield* testHeavy(about, catalog, reference)
  const nessie = await lakeAt(about, 'nessie', await startNessie(servers, about))
  // It shows only the current state, which is compared each time.
  for (const _ of ['first', 'second']) {
    await nessie.sync()
    for (const snapshot of Object.keys(nessie.given.snapshots)) delete nessie.given.snapshots[snapshot]
    await nessie.note()
    yield* compareAll(python, CATALOG_ENGINES, nessie.given)
  }
}

async function* testHeavy(about: About, catalog: Catalog, { given }: PublishedLake): AsyncGenerator<Result> {
  const { servers, python, directory } = about
  yield* compareAll(python, ['spark'], { ...given, spark: await readWithSpark(directory, given) })
  const trino = await startTrino(servers, { ...about, catalog })
  yield* compareAll(python, ['trino-iceberg', 'trino-delta'], { ...given, trino })
}

/** On a disk, because files in memory may have no extended attributes, which it needs. */
async function startVersity(servers: Servers, directory: string): Promise<string> {
  const program = await obtainGoProgram(VERSITY.path, VERSITY.version)
  const data = join(directory, 'versity')
  // A directory is a bucket.
  await mkdir(join(data, BUCKET), { recursive: true })
  const port = await freePort()
  const endpoint = `http://127.0.0.1:${port}`
  const environment = { ROOT_ACCESS_KEY: SECRET, ROOT_SECRET_KEY: SECRET }
  await servers.startProgram(program, ['--port', `127.0.0.1:${port}`, 'posix', data], endpoint, {
    environment,
  })
  return endpoint
}

async function startMoto(servers: Servers, python: string): Promise<string> {
  const port = await freePort()
  const endpoint = `http://127.0.0.1:${port}`
  const program = join(import.meta.dirname, 'moto_in_turn.py')
  await servers.startProgram(python, [program, '-H', '127.0.0.1', '-p', `${port}`], endpoint)
  const created = await fetch(`${endpoint}/${BUCKET}`, { method: 'PUT' })
  if (!created.ok) throw new Error(`moto did not create a bucket: ${created.status}`)
  return endpoint
}

/** The same checks that our own S3 server must pass in `npm test`. */
async function* conformanceOf(name: string, directory: string, endpoint: string): AsyncGenerator<Result> {
  const store: ObjectStore = await openS3(await settingsOf(directory, endpoint, 'conformance'))
  try {
    for (const { title, check } of CONFORMANCE) {
      const wrong = await check(store, directory).then(
        () => [],
        error => [`  ${getMessage(error)}\n`],
      )
      yield { title: `${name}: ${title}`, wrong }
    }
  } finally {
    store.close()
  }
}

async function publishTwice({ sync, note }: PublishedLake): Promise<void> {
  await sync()
  await note()
  await sleep(WORLD_CHANGES_MS)
  await sync()
  await note()
}

/** A reader that joins four tables in a loop sees only whole snapshots. */
async function readWhilePublishing(
  python: string,
  directory: string,
  { given, local, sync }: PublishedLake,
  snapshots: number,
): Promise<Result> {
  const stop = join(directory, 'stop')
  const reading = runPython(python, ['loop.py'], { ...given, local, stop })
  for (let count = 0; count < snapshots; count += 1) await sync()
  await writeFile(stop, '')
  const { stdout, stderr, code } = await reading
  const title = `a reader of four tables, while ${pluralize(snapshots, 'snapshot')} were published`
  if (code !== 0) return { title, wrong: [`  ${reasonOf(stderr)}\n`] }
  const found = JSON.parse(stdout) as { reads: number; snapshots: number; differences: string[] }
  return {
    title: `${title}: ${pluralize(found.reads, 'read')} of ${pluralize(found.snapshots, 'snapshot')}`,
    wrong: found.differences.map(one => `  ${one}\n`),
  }
}
