import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { expect, test } from 'vitest'
import { until } from '#test/support/daemon.ts'
import { CHANGES, type FeedAnswer, follow, placed } from '#test/support/feed.ts'
import { idOf, noticeEntry, notices } from '#test/support/notices.ts'
import { type ServedApi, serveApi } from '#test/support/serve.ts'
import { startSynced } from '#test/support/synced.ts'

type Stream = {
  readonly status: number
  readonly type: string
  readonly ids: () => string[]
  readonly ended: Promise<unknown>
  readonly text: () => string
  readonly destroy: () => void
}

async function openStream(
  { url, keys }: Pick<ServedApi, 'url' | 'keys'>,
  path: string,
  headers = {},
): Promise<Stream> {
  const asked = request(`${url}${path}`, {
    headers: { 'x-api-key': keys.acme, accept: 'text/event-stream', ...headers },
  })
  asked.on('error', () => {})
  asked.end()
  const [response] = (await once(asked, 'response')) as [IncomingMessage]
  let text = ''
  response.setEncoding('utf8').on('data', part => {
    text += part
  })
  response.on('error', () => {})
  return {
    status: response.statusCode ?? 0,
    type: response.headers['content-type'] ?? '',
    ids: () => [...text.matchAll(/^id: (\S+)$/gm)].map(([, id]) => id as string),
    ended: new Promise(resolve => response.on('close', resolve)),
    text: () => text,
    destroy: () => asked.destroy(),
  }
}

test('a stream goes on after its last event, sees what is published, and ends when the server stops', async () => {
  const company = await startSynced(notices(1, 2))
  const api = await serveApi(company.environment)
  const { events } = await follow(api, null)
  const stream = await openStream(api, CHANGES, { 'last-event-id': events[1]?.cursor })
  expect([stream.status, stream.type]).toEqual([200, 'text/event-stream'])
  await until(() => stream.ids().length >= 2, { what: 'the events that are there' })
  expect(stream.ids()).toEqual(events.slice(2).map(({ cursor }) => cursor))
  const leaving = api.store.create('acme', 'leaving', new Date())
  const revoked = await openStream({ url: api.url, keys: { acme: leaving } }, `${CHANGES}?since=latest`)
  api.store.revoke(leaving.slice(0, 12), new Date())
  company.world.put(noticeEntry(3))
  await company.syncHere()
  await revoked.ended
  expect(revoked.ids()).toEqual([])
  await until(() => stream.ids().length >= 4, { what: 'the events of the next run' })
  const { events: all } = await follow(api, null)
  const data = [...stream.text().matchAll(/^event: (\S+)\ndata: (.*)$/gm)]
  expect(placed(data.map(([, , json]) => JSON.parse(String(json))))).toEqual(placed(all.slice(2)))
  expect(data.map(([, kind]) => kind)).toEqual(all.slice(2).map(({ kind }) => kind))
  const ofNoLog = `${all[0]?.cursor.slice(0, -7)}AAAAAAA`
  const gone = await openStream(api, `${CHANGES}?since=${ofNoLog}`)
  expect([gone.status, gone.type]).toEqual([410, 'application/json'])

  const started = performance.now()
  await Promise.all([api.close(), stream.ended])
  expect(performance.now() - started).toBeLessThan(4000)
  expect(stream.text().endsWith('\n\n')).toBe(true)
  expect(api.lines.filter(line => line.includes('"aborted":true'))).toEqual([])
})

test('a request that waits ends within seconds when its key is revoked, and gets no events', async () => {
  const company = await startSynced(notices(1, 1))
  const api = await serveApi(company.environment)
  const { next } = await follow(api, 'latest')
  const key = api.store.create('acme', 'leaving', new Date())
  const waiting = api.ask(`${CHANGES}?since=${next}&wait=50`, { key })
  await until(() => api.served.waiting.size === 1, { what: 'the request' })
  const stream = await openStream({ url: api.url, keys: { acme: key } }, `${CHANGES}?since=${next}`)
  api.store.revoke(key.slice(0, 12), new Date())
  const { status, headers, body } = await waiting
  await stream.ended
  expect(stream.ids()).toEqual([])
  expect([status, headers['www-authenticate']]).toEqual([401, 'Bearer'])
  expect(body.toString()).not.toContain('edital_id')
})

test('waiting requests are bounded for each key, and answered when the server stops', async () => {
  const { environment } = await startSynced(notices(1, 1))
  const api = await serveApi(environment)
  const { next } = await follow(api, 'latest')
  const before = performance.now()
  const short: FeedAnswer = await api.json(`${CHANGES}?since=${next}&wait=1`)
  expect(short).toEqual({ events: [], next, has_more: false })
  expect(performance.now() - before).toBeGreaterThan(950)
  const path = `${CHANGES}?since=${next}&wait=50`
  const streams = await Promise.all(
    Array.from({ length: 10 }, () => openStream(api, `${CHANGES}?since=${next}`)),
  )
  const poll = async () => {
    const answer = await fetch(api.url + path, { headers: { 'x-api-key': String(api.keys.acme) } })
    return (await answer.json()) as FeedAnswer
  }
  const polls = Array.from({ length: 10 }, poll)
  await until(() => api.served.waiting.size === 20, { what: 'the bound of a key' })
  expect(await api.ask(path)).toMatchObject({ status: 429, headers: { 'retry-after': '5' } })
  // Another key has places of its own, a request that does not wait needs none, and neither hold a turn.
  const other = api.store.create('acme', 'other', new Date())
  expect((await api.ask(`${CHANGES}?since=${next}&wait=1`, { key: other })).status).toBe(200)
  expect((await api.ask(`${CHANGES}?since=${next}`)).status).toBe(200)
  expect((await api.ask(`/api/v1/editais/${idOf(1)}/analysis`)).status).toBe(200)
  // Who leaves gives its place back.
  streams[0]?.destroy()
  await until(async () => (await api.ask(`${CHANGES}?since=${next}&wait=1`)).status === 200, {
    what: 'a free place',
    withinMs: 10_000,
  })
  await Promise.all([api.close(), ...streams.slice(1).map(({ ended }) => ended)])
  for (const answer of await Promise.all(polls)) expect(answer).toEqual({ events: [], next, has_more: false })
})
