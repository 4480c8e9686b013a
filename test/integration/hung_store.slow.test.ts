import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { openS3 } from '#src/store/remote/s3.ts'
import { anotherHost, LOG, startSharedLog } from '#test/support/hosts.ts'
import { notices } from '#test/support/notices.ts'
import { type Environment, startCommand, temporaryDirectory } from '#test/support/project.ts'
import { LAKE, startRemote } from '#test/support/remote_lake.ts'
import { runShared } from '#test/support/shared.ts'
import { startCompany } from '#test/support/synced.ts'
import type { S3Request, S3Server } from '#tools/s3_server.ts'

const ENDS_WITHIN_MS = 5000

/** From now on, the first of these requests and all later ones get no answer. @returns when it came. */
function hang(s3: S3Server, isMeant: (request: S3Request) => boolean): Promise<void> {
  const reached = Promise.withResolvers<void>()
  let hangs = false
  s3.gate = async request => {
    hangs ||= isMeant(request)
    if (!hangs) return
    reached.resolve()
    await new Promise(() => {})
  }
  return reached.promise
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

async function expectEnd(done: Awaited<ReturnType<typeof interrupted>>): Promise<void> {
  expect(done.ms).toBeLessThan(ENDS_WITHIN_MS)
  expect([done.code, done.stderr]).toEqual([130, expect.not.stringContaining('    at ')])
}

test.each<[what: string, args: readonly string[], isMeant: (request: S3Request) => boolean]>([
  ['its owner is read', ['sync'], ({ key }) => key.endsWith('owner.json')],
  ['a segment is sealed', ['sync'], ({ method, key }) => method === 'PUT' && key.startsWith(LOG)],
  ['the log is pulled', ['log', 'pull'], ({ method, key }) => method === 'GET' && key === ''],
  ['a company is restored', ['restore'], ({ key }) => key.includes('000000001.ndjson')],
  ['the doctor looks', ['doctor'], ({ key }) => key.includes('.doctor-')],
  ['its state is shown', ['log', 'status'], ({ key }) => key === ''],
])('Ctrl-C ends a command within seconds if the store hangs while %s', async (_, args, isMeant) => {
  const { s3, settings } = await startSharedLog()
  const first = await startCompany(notices(1, 12), settings)
  await first.sync()
  first.world.update(first.world.ids()[0] as string, { edital: { objeto: 'Outro' } })
  const host = args[0] === 'sync' || args[0] === 'doctor' ? first : await anotherHost(first)
  const done = await interrupted(args, host.environment, hang(s3, isMeant))
  s3.gate = async () => {}
  await expectEnd(done)
  // An owner that could not say that it ended is silent by then.
  s3.now = () => new Date(Date.now() + 3_600_000)
  expect(await first.sync(['--wait', '90'])).toMatchObject({ status: 'ok' })
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
  const id = join(directory, 'key')
  await writeFile(id, 'x')
  const stop = new AbortController()
  const store = await openS3(
    {
      ...{ bucket: 'lake', prefix: '', region: 'us-east-1', pathStyle: true, retryMs: 1 },
      ...{ endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}` },
      keyFiles: { id, secret: id },
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
