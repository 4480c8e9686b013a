import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { openS3 } from '#src/lib/objects/s3.ts'
import { anotherHost, LOG, startSharedLog } from '#test/support/hosts.ts'
import {
  ENDS_WITHIN_MS,
  expectEnd,
  expectEndAfterReport,
  givenBack,
  hang,
  interrupted,
} from '#test/support/hung_store.ts'
import { notices } from '#test/support/notices.ts'
import { startCommand, temporaryDirectory } from '#test/support/project.ts'
import { runShared } from '#test/support/shared.ts'
import { startCompany } from '#test/support/synced.ts'
import { writeCredentials } from '#tools/s3_server.ts'

test('Ctrl-C ends a sync within seconds if the store hangs while a segment is sealed', async () => {
  const { s3, settings } = await startSharedLog()
  const first = await startCompany(notices(1, 12), settings)
  const hung = hang(s3, ({ method, key }) => method === 'PUT' && key.startsWith(LOG))
  await expectEnd(await interrupted(['sync'], first.environment, hung))
  s3.gate = async () => {}
  // An owner that could not say that it ended is silent by then.
  s3.now = () => new Date(Date.now() + 3_600_000)
  expect(await first.sync(['--wait', '90'])).toMatchObject({ status: 'ok' })
})

test('a sync ends within seconds of its last line if the store hangs when the log is given back', async () => {
  const { s3, settings } = await startSharedLog()
  const first = await startCompany(notices(1, 12), settings)
  await expectEndAfterReport(['sync', '--json'], first.environment, hang(s3, givenBack()), '"status":"ok"')
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
