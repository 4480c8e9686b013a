import { setTimeout as sleep } from 'node:timers/promises'
import { Hono } from 'hono'
import { expect, onTestFinished, test } from 'vitest'
import { startHttp } from '#src/http/server.ts'
import { until } from '../support/daemon.ts'
import { parsed, rawConnection } from '../support/raw_http.ts'

const WORK = 'GET /work HTTP/1.1\r\nHost: x\r\n\r\n'
const WORK_MS = 5
const CROWD = 200

/** Answers `/` at once, and `/work` after it has kept the event loop busy for a while. */
async function serve(onCrowd?: (isCrowd: boolean) => void) {
  const done = { work: 0 }
  const app = new Hono()
    .get('/', c => c.text('here'))
    .get('/work', c => {
      const untilMs = performance.now() + WORK_MS
      while (performance.now() < untilMs) {}
      done.work += 1
      return c.text('done')
    })
  const http = await startHttp(app, onCrowd ? { onCrowd } : {})
  onTestFinished(() => http.abort())
  return { ...http, done }
}

function crowd(url: string, size: number) {
  return Promise.all(Array.from({ length: size }, () => rawConnection(url, '127.0.0.3')))
}

test('who connects while hundreds of requests of another address wait is answered before most of them', async () => {
  const { url, done } = await serve()
  for (const { socket } of await crowd(url, CROWD)) socket.write(WORK)
  await until(() => done.work > 0, { what: 'the first of the crowd' })
  const newcomer = await rawConnection(url, '127.0.0.2')
  newcomer.socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
  expect(await newcomer.answers(1)).toContain('here')
  expect(done.work).toBeLessThan(CROWD / 4)
  await until(() => done.work === CROWD, { what: 'the whole crowd' })
})

test('who sends no more after a request is answered also if that has to wait', async () => {
  const { url, done } = await serve()
  for (const { socket } of await crowd(url, 20)) socket.write(WORK)
  const last = await rawConnection(url, '127.0.0.3')
  last.socket.end('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
  expect(await last.answers(1)).toContain('here')
  expect(parsed(last.received()).status).toBe(200)
  await until(() => done.work === 20, { what: 'the whole crowd' })
})

test('what waits of a client whose connection is lost is not begun', async () => {
  const { url, done, connections } = await serve()
  const sockets = (await crowd(url, CROWD)).map(({ socket }) => socket)
  for (const socket of sockets) socket.write(WORK)
  await until(() => done.work > 0, { what: 'the first of the crowd' })
  for (const socket of sockets) socket.resetAndDestroy()
  await until(() => connections().open === 0, { what: 'the end of the crowd' })
  const begun = done.work
  await sleep(10 * WORK_MS)
  expect(done.work).toBe(begun)
  expect(begun).toBeLessThan(CROWD)
})

test('whoever serves learns when many connections are open, and when they are few again', async () => {
  const seen: boolean[] = []
  const { url } = await serve(isCrowd => void seen.push(isCrowd))
  const few = await crowd(url, 10)
  expect(seen).toEqual([])
  const more = await crowd(url, 40)
  await until(() => seen.length > 0, { what: 'the crowd' })
  for (const { socket } of more) socket.destroy()
  await until(() => seen.length === 2, { what: 'the end of the crowd' })
  expect(seen).toEqual([true, false])
  for (const { socket } of few) socket.destroy()
})
