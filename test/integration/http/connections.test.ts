import { setTimeout as sleep } from 'node:timers/promises'
import { Hono } from 'hono'
import { expect, onTestFinished, test } from 'vitest'
import { startHttp } from '#src/lib/http/server.ts'
import type { HttpSettings } from '#src/lib/http/settings.ts'
import { until } from '#test/support/daemon.ts'
import { exchange, parsed, rawConnection } from '#test/support/raw_http.ts'

const GET = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'
const MEGABYTES = 8

/** More megabytes than the system takes by itself, in pieces. */
async function* endless(taken: { pieces: number }): AsyncGenerator<Uint8Array> {
  for (; taken.pieces < 200; taken.pieces += 1) yield new Uint8Array(256 * 1024)
}

type Door = { underWay: number; most: number; readonly open: PromiseWithResolvers<void> }

/** Answers `/` at once, `/large` with megabytes, `/late` (POST) a moment later, and `/held` once the door opens. */
async function serve(settings: Partial<HttpSettings> = {}) {
  const door: Door = { underWay: 0, most: 0, open: Promise.withResolvers() }
  const large = new Uint8Array(MEGABYTES * 1024 * 1024)
  const app = new Hono()
    .get('/', c => c.text('here'))
    .get('/large', c => c.body(large, 200, { 'content-length': String(large.length) }))
    .post('/late', async c => {
      await sleep(5)
      return c.text('late')
    })
    .get('/held', async c => {
      door.underWay += 1
      door.most = Math.max(door.most, door.underWay)
      await door.open.promise
      await sleep(1)
      door.underWay -= 1
      return c.text(c.req.query('n') ?? '')
    })
  const http = await startHttp(app, settings)
  onTestFinished(() => http.abort())
  return { ...http, door }
}

test('pipelined requests are answered one by one, in order', async () => {
  const { url, door } = await serve()
  const connection = await rawConnection(url)
  const numbers = Array.from({ length: 50 }, (_, n) => n)
  connection.socket.write(numbers.map(n => `GET /held?n=${n}- HTTP/1.1\r\nHost: x\r\n\r\n`).join(''))
  await until(() => door.underWay === 1, { what: 'the first request' })
  await sleep(20)
  expect(door.most).toBe(1)
  door.open.resolve()
  await until(() => connection.received().endsWith('49-'), { what: 'the last answer' })
  expect(door.most).toBe(1)
  expect([...connection.received().matchAll(/^(\d+)-/gm)].map(([, n]) => Number(n))).toEqual(numbers)
})

test('requests that wait on a connection are dropped when it closes', async () => {
  const { url, door, connections } = await serve()
  const connection = await rawConnection(url)
  connection.socket.write('GET /held HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(20))
  await until(() => door.underWay === 1, { what: 'the first request' })
  connection.socket.destroy()
  await until(() => connections().open === 0, { what: 'the end of the connection' })
  door.open.resolve()
  await sleep(50)
  expect(door.most).toBe(1)
  expect(parsed(await exchange(url, `GET / HTTP/1.0\r\n\r\n`)).status).toBe(200)
})

test('a client that pipelines far too many requests is cut, and no other client', async () => {
  const { url, door, connections } = await serve()
  const other = await rawConnection(url, '127.0.0.2')
  expect(await exchange(url, 'GET /held HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(700))).toBe('')
  expect(connections()).toMatchObject({ cut: 1, open: 1 })
  expect(door.most).toBe(1)
  other.socket.write(GET)
  expect(await other.answers(1)).toContain('here')
})

test('a stream counts as unread and is cut when nothing of it is read for a time, not while it is read', async () => {
  const taken = { stalled: { pieces: 0 }, read: { pieces: 0 } }
  const app = new Hono()
    .get('/stalled', c => c.body(ReadableStream.from(endless(taken.stalled))))
    .get('/read', c => c.body(ReadableStream.from(endless(taken.read))))
  const { url, connections, abort } = await startHttp(app, { answerTimeoutMs: 1500 })
  onTestFinished(() => abort())
  const stalled = await rawConnection(url)
  stalled.socket.pause()
  stalled.socket.write('GET /stalled HTTP/1.1\r\nHost: x\r\n\r\n')
  await until(() => connections().unreadBytes > 0, { what: 'what the stream has sent' })
  const { body } = await fetch(`${url}/read`)
  let bytes = 0
  for await (const piece of body ?? []) {
    bytes += piece.length
    // Longer in all than a piece may take.
    await sleep(piece.length / 25_000)
  }
  expect(bytes).toBe(200 * 256 * 1024)
  await until(() => connections().cut === 1, { what: 'the end of the stalled one' })
  expect(taken.stalled.pieces).toBeLessThan(200)
  await until(() => connections().unreadBytes === 0, { what: 'its bytes' })
})

test('an answer not read in time costs its connection, and its bytes are freed', async () => {
  const { url, connections } = await serve({ answerTimeoutMs: 100 })
  const connection = await rawConnection(url)
  connection.socket.pause()
  connection.socket.write('GET /large HTTP/1.1\r\nHost: x\r\n\r\n')
  await until(() => connections().unreadBytes > 0, { what: 'an answer that waits' })
  expect(connections().unreadBytes).toBeLessThanOrEqual(MEGABYTES * 1024 * 1024 + 1000)
  await until(() => connections().unreadBytes === 0, { what: 'the bytes' })
  expect(connections()).toMatchObject({ open: 0, cut: 1 })
})

test('unread answers are limited in total: only the address with the most is cut', async () => {
  const { url, connections } = await serve()
  const ask = async (address: string) => {
    const connection = await rawConnection(url, address)
    connection.socket.pause()
    connection.socket.write('GET /large HTTP/1.1\r\nHost: x\r\n\r\n')
    return connection
  }
  const slow = await ask('127.0.0.2')
  await until(() => connections().unreadBytes > 0, { what: 'an answer that is read slowly' })
  const asked = await Promise.all(Array.from({ length: 24 }, () => ask('127.0.0.3')))
  expect(connections().unreadBytes).toBeLessThanOrEqual(160 * 1024 * 1024)
  // They stay unread: a second later more of them are cut.
  await until(() => connections().cut > 0 && connections().unreadBytes <= 128 * 1024 * 1024, {
    what: 'connections that were cut',
  })
  expect(connections().open).toBeGreaterThan(10)
  expect(asked.length).toBe(24)
  slow.socket.resume()
  await until(() => slow.received().length > MEGABYTES * 1024 * 1024, { what: 'all of the slow answer' })
  expect(parsed(await exchange(url, 'GET / HTTP/1.0\r\n\r\n')).body).toBe('here')
})

test('a new connection replaces an idle one of its address', async () => {
  const { url, connections } = await serve({ maxConnectionsPerAddress: 3 })
  const other = await rawConnection(url, '127.0.0.2')
  other.socket.write(GET)
  await other.answers(1)
  const [silent, idle] = [await rawConnection(url), await rawConnection(url)]
  idle.socket.write(GET)
  await idle.answers(1)
  await rawConnection(url)
  await rawConnection(url)
  // The one without any request was closed, not the one that had an answer.
  expect(await silent.closed).toBe('')
  expect(connections()).toMatchObject({ open: 4, evicted: 1, refused: 0 })
  for (const connection of [idle, other]) {
    connection.socket.write(GET)
    expect(await connection.answers(2)).toContain('here')
  }
})

test('if all places are taken, the address with the most connections loses one', async () => {
  const { url, connections } = await serve({ maxConnections: 5 })
  const many = await Promise.all(Array.from({ length: 4 }, () => rawConnection(url)))
  const few = [await rawConnection(url, '127.0.0.2'), await rawConnection(url, '127.0.0.3')]
  await Promise.race(many.map(({ closed }) => closed))
  expect(connections()).toMatchObject({ open: 5, evicted: 1 })
  for (const connection of few) {
    connection.socket.write(GET)
    expect(await connection.answers(1)).toContain('here')
  }
})

test('a connection is refused only while all others of its address are being answered', async () => {
  const { url, connections, door } = await serve({ maxConnectionsPerAddress: 2 })
  const busy = await Promise.all([rawConnection(url), rawConnection(url)])
  for (const { socket } of busy) socket.write('GET /held HTTP/1.1\r\nHost: x\r\n\r\n')
  await until(() => door.underWay === 2, { what: 'both requests' })
  expect(await (await rawConnection(url)).closed).toBe('')
  expect(connections()).toMatchObject({ open: 2, refused: 1 })
  door.open.resolve()
  for (const connection of busy) await connection.answers(1)
  expect(parsed(await exchange(url, 'GET / HTTP/1.0\r\n\r\n')).status).toBe(200)
})

test('a trusted proxy may have more connections than a single address', async () => {
  const { url, connections } = await serve({ maxConnectionsPerAddress: 2, trustedProxies: ['127.0.0.0/8'] })
  const all = await Promise.all(Array.from({ length: 6 }, () => rawConnection(url)))
  for (const connection of all) {
    connection.socket.write(GET)
    await connection.answers(1)
  }
  expect(connections()).toMatchObject({ open: 6, evicted: 0 })
})

test('a request that is sent too slowly gets a JSON 408 after the set time', async () => {
  const { url, connections } = await serve({ requestTimeoutMs: 300 })
  const started = performance.now()
  const [slow, silent] = await Promise.all([
    exchange(url, 'GET / HTTP/1.1\r\nHost: x\r\nX-Slow: '),
    rawConnection(url).then(({ closed }) => closed),
  ])
  const { status, headers, body } = parsed(slow)
  expect([status, headers['content-type'], body]).toEqual([408, 'application/json', '{"error":"timeout"}'])
  expect(headers['x-content-type-options']).toBe('nosniff')
  expect(parsed(silent || slow).status).toBe(408)
  // Faster than Node's usual check every 30 s.
  expect(performance.now() - started).toBeLessThan(10_000)
  await until(() => connections().open === 0, { what: 'the end of both' })
})

test.each([
  [
    'a body of a hundred megabytes',
    `POST / HTTP/1.1\r\nHost: x\r\nContent-Length: ${100 * 1024 * 1024}\r\n\r\n`,
  ],
  ['a body without an end', 'POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n'],
  ['a header without an end', 'GET / HTTP/1.1\r\nHost: x\r\nX-Large: '],
])('%s is answered, and the rest of it is not read', async (_, head) => {
  const { url } = await serve()
  const { socket, closed } = await rawConnection(url)
  const piece = Buffer.alloc(64 * 1024, 'a')
  const fill = () => {
    while (!socket.destroyed && socket.write(piece)) {}
  }
  socket.on('drain', fill)
  socket.write(head)
  fill()
  const { status, headers } = parsed(await closed)
  expect([404, 431]).toContain(status)
  expect(headers.connection).toBe('close')
  // Only what the system buffers on both sides.
  expect(socket.bytesWritten - socket.writableLength).toBeLessThan(16 * 1024 * 1024)
})

test('a large answer is complete, has its length for HEAD, and delays no other client', async () => {
  const { url } = await serve()
  const large = await rawConnection(url)
  large.socket.pause()
  large.socket.write(
    `GET /large HTTP/1.1\r\nHost: x\r\n\r\nHEAD /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`,
  )
  expect(parsed(await exchange(url, 'GET / HTTP/1.0\r\n\r\n')).body).toBe('here')
  large.socket.resume()
  const [get = '', head = ''] = (await large.closed).split(/(?=HTTP\/1\.1 )/)
  const bytes = MEGABYTES * 1024 * 1024
  expect(parsed(get).body).toHaveLength(bytes)
  expect(parsed(head)).toMatchObject({ status: 200, body: '', headers: { 'content-length': String(bytes) } })
})

test('a client that closes its sending side still gets the whole answer', async () => {
  const { url, connections } = await serve()
  const { socket, closed } = await rawConnection(url)
  socket.end('GET /large HTTP/1.1\r\nHost: x\r\n\r\n')
  expect(parsed(await closed).body).toHaveLength(MEGABYTES * 1024 * 1024)
  await until(() => connections().open === 0, { what: 'the end of the connection' })
})

test('a client that sends all of a large body before it reads gets its answer', async () => {
  const { url } = await serve()
  for (let n = 0; n < 10; n += 1) {
    const { socket, closed } = await rawConnection(url)
    socket.pause()
    const body = Buffer.alloc(4 * 1024 * 1024, 'a')
    socket.write(`POST /late HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n`)
    await new Promise(resolve => socket.write(body, resolve))
    socket.resume()
    expect(parsed(await closed).body).toBe('late')
  }
})

test('clients that keep reading are not cut, however much is unread in total', async () => {
  const { url, connections } = await serve()
  const read = async () => {
    const { socket, closed } = await rawConnection(url)
    socket.write('GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
    return (await closed).length
  }
  const lengths = await Promise.all(Array.from({ length: 18 }, read))
  expect(Math.min(...lengths)).toBeGreaterThan(MEGABYTES * 1024 * 1024)
  expect(connections().cut).toBe(0)
})
