import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { openS3 } from '#src/lib/objects/s3.ts'
import { anotherHost, LOG, startSharedLog } from '#test/support/hosts.ts'
import { notices } from '#test/support/notices.ts'
import { type Environment, startCommand, temporaryDirectory } from '#test/support/project.ts'
import {
  LAKE,
  latestLocal,
  latestOf,
  startRemote,
  startRemoteWithCatalog,
} from '#test/support/remote_lake.ts'
import { runShared } from '#test/support/shared.ts'
import { startCompany } from '#test/support/synced.ts'
import type { CatalogRequest } from '#tools/iceberg_catalog.ts'
import type { S3Request } from '#tools/s3_server.ts'
import { writeCredentials } from '#tools/s3_server.ts'

const ENDS_WITHIN_MS = 5000

type Gated<R> = { gate: (request: R) => Promise<void> }

/** From now on, the first of these requests and all later ones get no answer. @returns when it came. */
function hang<R>(server: Gated<R>, isMeant: (request: R) => boolean): Promise<void> {
  const reached = Promise.withResolvers<void>()
  let hangs = false
  server.gate = async request => {
    hangs ||= isMeant(request)
    if (!hangs) return
    reached.resolve()
    await new Promise(() => {})
  }
  return reached.promise
}

/** The log's owner is written when it is taken, and again when it is given back. */
function givenBack(): (request: S3Request) => boolean {
  let writes = 0
  return ({ method, key }) => {
    if (method === 'PUT' && key.endsWith('owner.json')) writes += 1
    return writes > 1
  }
}

/** Sends Ctrl-C once the store hangs. */
async function interrupted(
  args: readonly string[],
  environment: Environment,
  hung: Promise<void>,
  signal: NodeJS.Signals = 'SIGINT',
) {
  const { child, ended } = startCommand(args, environment, environment.DATA_DIR ?? '')
  await hung
  const startedMs = performance.now()
  child.kill(signal)
  const { code, stderr } = await ended
  return { code, stderr, ms: performance.now() - startedMs }
}

async function expectEnd(done: Awaited<ReturnType<typeof interrupted>>, code = 130): Promise<void> {
  expect(done.ms).toBeLessThan(ENDS_WITHIN_MS)
  expect([done.code, done.stderr]).toEqual([code, expect.not.stringContaining('    at ')])
  expect(done.stderr).toContain('A second Ctrl-C ends it now.')
}

test.each<[what: string, args: readonly string[], isMeant: (request: S3Request) => boolean]>([
  ['its owner is read', ['sync'], ({ key }) => key.endsWith('owner.json')],
  ['a segment is sealed', ['sync'], ({ method, key }) => method === 'PUT' && key.startsWith(LOG)],
  ['the log is pulled', ['log', 'pull'], ({ method, key }) => method === 'GET' && key === ''],
  ['a company is restored', ['restore'], ({ key }) => key.includes('000000001.ndjson')],
  ['the doctor looks', ['doctor'], ({ key }) => key.includes('.doctor-')],
  ['its state is shown', ['log', 'status'], ({ key }) => key === ''],
  ['the log is given back', ['sync', '--json'], givenBack()],
])('Ctrl-C ends a command within seconds if the store hangs while %s', async (_, args, isMeant) => {
  const { s3, settings } = await startSharedLog()
  const first = await startCompany(notices(1, 12), settings)
  await first.sync()
  first.world.update(first.world.ids()[0] as string, { edital: { objeto: 'Outro' } })
  const host = args[0] === 'sync' || args[0] === 'doctor' ? first : await anotherHost(first)
  const done = await interrupted(args, host.environment, hang(s3, isMeant))
  s3.gate = async () => {}
  // Its work was done before.
  await expectEnd(done, args[1] === '--json' ? 0 : 130)
  // An owner that could not say that it ended is silent by then.
  s3.now = () => new Date(Date.now() + 3_600_000)
  expect(await first.sync(['--wait', '90'])).toMatchObject({ status: 'ok' })
})

const LAKE_URL = { LAKE_URL: 's3://lake/bi' }
const LAST_LINE_MS = 5000

test.each<
  [
    what: string,
    args: readonly string[],
    lake: Environment,
    isMeant: () => (request: S3Request) => boolean,
    ends: string,
  ]
>([
  ['gives the log back', ['sync', '--json'], {}, givenBack, '"status":"ok"'],
  ['gives the log back', ['rebuild'], {}, givenBack, 'Published'],
  ['gives the log back', ['restore'], {}, givenBack, 'ublished'],
  ['gives the log back', ['log', 'pull'], {}, givenBack, 'This disk has the whole log'],
  ['gives the log back', ['log', 'push'], {}, givenBack, 'Everything was there already'],
  ['gives the log back', ['sync', '--plan'], {}, givenBack, 'Nothing was changed.'],
  [
    'publishes the lake',
    ['sync'],
    LAKE_URL,
    () =>
      ({ key }) =>
        key.startsWith('bi/'),
    'did not answer for 4 s',
  ],
  [
    'publishes the lake',
    ['rebuild'],
    LAKE_URL,
    () =>
      ({ method, key }) =>
        method === 'PUT' && key.startsWith('bi/'),
    'did not answer for 4 s',
  ],
])(
  'a command that %s to a store that hangs ends within seconds of its last line: %s',
  async (_, args, lake, isMeant, ends) => {
    const { s3, settings } = await startSharedLog()
    const first = await startCompany(notices(1, 12), settings)
    await first.sync()
    first.world.update(first.world.ids()[0] as string, { edital: { objeto: 'Outro' } })
    const hung = hang(s3, isMeant())
    const environment = { ...first.environment, ...lake }
    await expectEndAfterReport(args, environment, hung, ends)
    s3.gate = async () => {}
    s3.now = () => new Date(Date.now() + 3_600_000)
    expect(await first.sync(['--wait', '90'])).toMatchObject({ status: 'ok' })
    if (lake.LAKE_URL) expect((await runShared(['lake', 'publish'], environment)).code).toBe(0)
  },
)

/** @param ends what the command reports. */
async function expectEndAfterReport(
  args: readonly string[],
  environment: Environment,
  hung: Promise<void>,
  ends: string,
): Promise<void> {
  const { child, ended } = startCommand(args, environment, environment.DATA_DIR ?? '')
  let [lastMs, hungMs] = [0, 0]
  void hung.then(() => {
    hungMs = performance.now()
  })
  for (const stream of [child.stdout, child.stderr])
    stream?.on('data', () => {
      lastMs = performance.now()
    })
  const { code, stdout, stderr } = await ended
  const endMs = performance.now()
  expect([code, `${stdout}${stderr}`]).toEqual([0, expect.stringContaining(ends)])
  expect(endMs - lastMs).toBeLessThan(LAST_LINE_MS)
  // The report comes at most five seconds after the store began to hang.
  expect(endMs - hungMs).toBeLessThan(2 * LAST_LINE_MS)
}

type CatalogHangs = (request: CatalogRequest) => boolean
const HANGING: [what: string, isMeant: CatalogHangs][] = [
  ['asked for its configuration', ({ path }) => path === 'config'],
  ['asked for a table', ({ path }) => path.includes('/tables/')],
  ['sent a commit', ({ path }) => path.endsWith('/commit')],
]

test.each(HANGING)(
  'a sync ends within seconds of its last line if the catalog hangs when it is %s',
  async (_, isMeant) => {
    const { s3, environment, catalog, world, syncHere, lake } = await startRemoteWithCatalog()
    await syncHere()
    world.update(world.ids()[0] as string, { edital: { objeto: 'Outro' } })
    const why = `The catalog at ${catalog.uri} did not answer for 4 s`
    await expectEndAfterReport(['sync'], environment, hang(catalog, isMeant), why)
    const snapshot = await latestLocal(environment)
    expect(latestOf(s3).snapshot).not.toBe(snapshot)
    catalog.gate = async () => {}
    await syncHere()
    expect(latestOf(s3)).toMatchObject({ snapshot: await latestLocal(environment), pending: null })
    expect(await lake('verify')).toMatchObject({ code: 0 })
  },
)

test.each(HANGING)('Ctrl-C ends a publish if the catalog hangs when it is %s', async (_, isMeant) => {
  const { environment, catalog, lake } = await startRemoteWithCatalog()
  await runShared(['sync'], { ...environment, LAKE_URL: '' })
  await expectEnd(await interrupted(['lake', 'publish'], environment, hang(catalog, isMeant)))
  catalog.gate = async () => {}
  expect((await lake('publish')).code).toBe(0)
  expect(await lake('verify')).toMatchObject({ code: 0 })
})

test.each<[args: readonly string[], isMeant: (request: S3Request) => boolean]>([
  [['lake', 'publish'], ({ method, key }) => method === 'PUT' && key.startsWith(LAKE)],
  [['lake', 'publish'], ({ key }) => key.endsWith('latest.json')],
  [['lake', 'status'], ({ key }) => key.endsWith('latest.json')],
  [['lake', 'verify'], ({ method, key }) => method === 'GET' && key === ''],
  [['lake', 'vacuum'], ({ method, key }) => method === 'GET' && key === ''],
  [['doctor'], ({ key }) => key.endsWith('latest.json')],
])('SIGTERM ends %s within seconds if the store hangs', async (args, isMeant) => {
  const { s3, environment, sync } = await startRemote()
  if (args[1] !== 'publish') await sync()
  else await runShared(['sync'], { ...environment, LAKE_URL: '' })
  const done = await interrupted(args, environment, hang(s3, isMeant), 'SIGTERM')
  await expectEnd(done)
  s3.gate = async () => {}
  expect((await runShared(['lake', 'publish'], environment)).code).toBe(0)
})

test('a second Ctrl-C ends a command at once, also while it waits to seal what it has', async () => {
  const { s3, settings } = await startSharedLog()
  const first = await startCompany(notices(1, 12), settings)
  const hung = hang(s3, ({ method, key }) => method === 'PUT' && key.startsWith(LOG))
  const { child, ended } = startCommand(['sync'], first.environment, first.environment.DATA_DIR ?? '')
  await hung
  const noted = Promise.withResolvers<void>()
  child.stderr?.on('data', text => {
    if (String(text).includes('A second Ctrl-C ends it now.')) noted.resolve()
  })
  child.kill('SIGINT')
  await noted.promise
  // An earlier one is taken for a repetition of the first.
  await sleep(1100)
  const startedMs = performance.now()
  child.kill('SIGINT')
  expect((await ended).code).toBe(130)
  expect(performance.now() - startedMs).toBeLessThan(700)
})

test('an answer that trickles in does not hold a process that is to end', async () => {
  const server = createServer((_, response) => {
    response.writeHead(200, { etag: '"1"' })
    const timer = setInterval(() => response.write(' '), 50)
    response.once('close', () => clearInterval(timer))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close().closeAllConnections())
  const directory = await temporaryDirectory()
  const stop = new AbortController()
  const store = await openS3(
    {
      ...{ bucket: 'lake', prefix: '', region: 'us-east-1', retryMs: 1 },
      ...{ endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}` },
      credentialsFile: await writeCredentials(join(directory, 'credentials'), 'x'),
    },
    { signal: stop.signal, graceMs: 500 },
  )
  onTestFinished(() => store.close())
  const startedMs = performance.now()
  setTimeout(() => stop.abort(), 200)
  await expect(store.put('segment', Buffer.from('x'))).rejects.toThrow('Interrupted.')
  expect(performance.now() - startedMs).toBeLessThan(ENDS_WITHIN_MS)
}, 20_000)

test('an answer that never ends is cut at its bound, in a small process', async () => {
  const { s3, settings } = await startSharedLog()
  const first = await startCompany(notices(1, 12), settings)
  await first.sync()
  const host = await anotherHost(first)
  for (const [end, most] of [
    ['owner.json', '65,536'],
    ['000000001.ndjson.zst', '268,435,456'],
  ] as const) {
    s3.fault = ({ method, key }) => (method === 'GET' && key.endsWith(end) ? 'endless' : null)
    const { child, ended } = startCommand(['sync'], host.environment, host.environment.DATA_DIR ?? '')
    let mostBytes = 0
    const timer = setInterval(
      () => void rssOf(child.pid).then(rss => (mostBytes = Math.max(mostBytes, rss))),
      100,
    )
    const { code, stderr } = await ended
    clearInterval(timer)
    expect(code).toBe(1)
    expect(stderr).toContain(`acme: s3://lake/shared/acme/`)
    expect(stderr).toContain(
      `${end} has more than ${most} bytes: another program wrote it, or it is damaged.`,
    )
    expect(stderr).not.toContain('    at ')
    expect(mostBytes).toBeLessThan(400 * 1024 * 1024)
  }
  s3.fault = ({ method, key }) => (method === 'GET' && key === '' ? 'endless' : null)
  expect((await runShared(['sync'], host.environment)).stderr).toContain('its answer never ends')
})

async function rssOf(pid: number | undefined): Promise<number> {
  const text = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  return Number(/VmRSS:\s+(\d+) kB/.exec(text)?.[1] ?? 0) * 1024
}
