import { setTimeout as sleep } from 'node:timers/promises'
import { Hono } from 'hono'
import { expect, onTestFinished, test } from 'vitest'
import type { Exchange, HttpBindings } from '#src/lib/http/outgoing.ts'
import { startHttp } from '#src/lib/http/server.ts'
import type { HttpSettings } from '#src/lib/http/settings.ts'
import { until } from '#test/support/daemon.ts'
import { parsed, type RawConnection, rawConnection } from '#test/support/raw_http.ts'

const GET = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'
const WORK = 'GET /work HTTP/1.1\r\nHost: x\r\n\r\n'
const WORK_MS = 5
const CROWD = 200
const LARGE_BYTES = 8 * 1024 * 1024

type Settings = Partial<HttpSettings> & { readonly onCrowd?: (isCrowd: boolean) => void }

/** Answers `/` at once, and `/work` after blocking the event loop for a while. */
async function serve(settings: Settings = {}) {
  const done = { work: 0, ms: 0 }
  const large = new Uint8Array(LARGE_BYTES)
  const note: Exchange['onEnd'] = (_, { ms }) => {
    done.ms = ms
  }
  const app = new Hono<{ Bindings: HttpBindings }>()
    .get('/', c => {
      if (c.env.outgoing.exchange) c.env.outgoing.exchange.onEnd = note
      return c.text('here')
    })
    .get('/large', c => c.body(large, 200, { 'content-length': String(LARGE_BYTES) }))
    .get('/work', c => {
      const untilMs = performance.now() + WORK_MS
      while (performance.now() < untilMs) {}
      done.work += 1
      return c.text('done')
    })
  const http = await startHttp(app, settings)
  onTestFinished(() => http.abort())
  return { ...http, done }
}

function connect(url: string, size: number, from = '127.0.0.3'): Promise<RawConnection[]> {
  return Promise.all(Array.from({ length: size }, () => rawConnection(url, from)))
}

function send(connections: readonly RawConnection[], text: string): void {
  for (const { socket } of connections) socket.write(text)
}

test('a client that connects while another address has hundreds of requests waiting is served before most of them', async () => {
  const { url, done, connections } = await serve()
  send(await connect(url, CROWD), WORK)
  await until(() => done.work > 0, { what: 'the first of the crowd' })
  const newcomer = await rawConnection(url, '127.0.0.2')
  newcomer.socket.write(GET)
  expect(await newcomer.answers(1)).toContain('here')
  expect(done.work).toBeLessThan(CROWD * 0.75)
  await until(() => done.work === CROWD, { what: 'the whole crowd' })
  expect(connections().waiting).toBe(0)
})

test('behind a trusted proxy the clients take turns, and the log includes their waiting time', async () => {
  const { url, done } = await serve({ trustedProxies: ['127.0.0.0/8'] })
  const proxied = (path: string, client: string) =>
    `GET ${path} HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: ${client}\r\n\r\n`
  const crowd = await connect(url, CROWD)
  const [newcomer] = (await connect(url, 1)) as [RawConnection]
  send(crowd, proxied('/work', '203.0.113.7'))
  newcomer.socket.write(proxied('/', '198.51.100.9'))
  expect(await newcomer.answers(1)).toContain('here')
  expect(done.work).toBeLessThan(CROWD * 0.75)
  const last = crowd.at(-1) as RawConnection
  last.socket.write(proxied('/', '203.0.113.7'))
  await until(() => done.work === CROWD, { what: 'the whole crowd' })
  await last.answers(2)
  expect(done.ms).toBeGreaterThan((CROWD / 2) * WORK_MS)
})

test('a client that closes its sending side gets its whole answer, even if it has to wait', async () => {
  const { url, done, connections } = await serve()
  send(await connect(url, 20), WORK)
  const [small, large] = (await connect(url, 2)) as [RawConnection, RawConnection]
  small.socket.end(GET)
  large.socket.end('GET /large HTTP/1.1\r\nHost: x\r\n\r\n')
  expect(parsed(await small.closed).body).toBe('here')
  expect(parsed(await large.closed).body).toHaveLength(LARGE_BYTES)
  await until(() => done.work === 20, { what: 'the whole crowd' })
  await until(() => connections().open === 20, { what: 'the end of both' })
})

test('waiting requests of lost connections are dropped, however many there are', async () => {
  const { url, done, connections } = await serve()
  const busy = await connect(url, 20, '127.0.0.2')
  let isOver = false
  const working = busy.map(async connection => {
    for (let n = 1; !isOver; n += 1) {
      connection.socket.write(WORK)
      await connection.answers(n)
    }
  })
  for (let round = 0; round < 5; round += 1) {
    const crowd = await connect(url, CROWD)
    send(crowd, WORK)
    await sleep(WORK_MS)
    for (const { socket } of crowd) socket.resetAndDestroy()
    await until(() => connections().open === busy.length, { what: 'the end of the crowd' })
    expect(connections().waiting).toBeLessThanOrEqual(busy.length)
  }
  isOver = true
  await Promise.all(working)
  const { work } = done
  await sleep(10 * WORK_MS)
  expect(done.work).toBe(work)
  expect(connections().abandoned).toBeGreaterThan(CROWD)
})

test('a server full of waiting requests drops the last one of the busiest address for a new client', async () => {
  const { url, connections } = await serve({ maxConnections: 40 })
  const crowd = await connect(url, 40)
  // No connection is idle: behind each request another one waits.
  send(crowd, WORK.repeat(40))
  await until(() => crowd.every(one => one.received().includes('done')), { what: 'an answer to each' })
  const newcomer = await rawConnection(url, '127.0.0.2')
  newcomer.socket.write(GET)
  expect(await newcomer.answers(1)).toContain('here')
  expect(connections()).toMatchObject({ open: 40, refused: 0, evicted: 0, cut: 1 })
})

test('the server is notified when many connections are open, and when they are few again', async () => {
  const seen: boolean[] = []
  const { url } = await serve({ onCrowd: isCrowd => void seen.push(isCrowd) })
  const few = await connect(url, 10)
  expect(seen).toEqual([])
  const more = await connect(url, 40)
  await until(() => seen.length > 0, { what: 'the crowd' })
  for (const { socket } of more) socket.destroy()
  await until(() => seen.length === 2, { what: 'the end of the crowd' })
  expect(seen).toEqual([true, false])
  for (const { socket } of few) socket.destroy()
})
