import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { inspect } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { generateWorld } from '#src/sandbox/generate.ts'
import { loadClient } from '#test/support/client_package.ts'
import { startCuttingProxy } from '#test/support/cutting_proxy.ts'
import { until } from '#test/support/daemon.ts'
import { CHANGES, type FeedEvent, follow, placed } from '#test/support/feed.ts'
import { idOf, noticeEntry, notices } from '#test/support/notices.ts'
import { serveApi } from '#test/support/serve.ts'
import { startSynced } from '#test/support/synced.ts'

const EXPORT = '/api/v1/mirror/export.ndjson?what=both'
const ONE = '/api/v1/editais/{id}'

const { ApiError, ConnectionFailed, CursorGone, SnapshotGone, createClient } = await loadClient()

/** A served company of 300 notices, a proxy before it, and a client behind that. */
async function served(options: Parameters<typeof serveApi>[1] = {}) {
  const world = generateWorld({ seed: '3', company: 'aurora', notices: 300, start: new Date('2026-11-20') })
  return await servedWith(await startSynced(world), options)
}

async function servedWith(
  company: Awaited<ReturnType<typeof startSynced>>,
  options: Parameters<typeof serveApi>[1] = {},
) {
  const api = await serveApi(company.environment, options)
  const proxy = await startCuttingProxy(api.url)
  const apiKey = api.keys.acme as string
  return { company, api, proxy, apiKey, client: createClient({ url: proxy.url, apiKey }) }
}

async function publish({ company, api }: Awaited<ReturnType<typeof served>>, number: number): Promise<void> {
  company.world.put(noticeEntry(number))
  await company.syncHere()
  await until(async () => (await api.ask(`/api/v1/editais/${idOf(number)}`)).status === 200, {
    what: 'the next snapshot',
  })
}

async function thrownBy(work: Promise<unknown>): Promise<InstanceType<typeof ApiError>> {
  const error = await work.then(
    () => null,
    thrown => thrown,
  )
  expect(error).toBeInstanceOf(Error)
  return error
}

/** The first of an iterator that never ends by itself. */
async function firstOf<T>(iterator: AsyncIterable<T>): Promise<T | undefined> {
  for await (const one of iterator) return one
  return undefined
}

test('documents of both descriptions are those that are served, also below a path of the url', async () => {
  const { api, client } = await served()
  const page = await client.get('/api/v1/editais', { query: { limit: 3, offset: 2 } })
  expect(page).toEqual(await api.json('/api/v1/editais?limit=3&offset=2'))
  const id = page.editais[0]?.id as string
  expect(await client.get(ONE, { path: { id } })).toEqual(await api.json(`/api/v1/editais/${id}`))
  expect(await client.get('/api/v1/mirror')).toEqual(await api.json('/api/v1/mirror'))
  const asked: string[] = []
  const recording = async (address: unknown) => {
    asked.push(String(address))
    return Response.json({})
  }
  const below = createClient({ url: 'https://erp.example/mirror', apiKey: 'edk_1', fetch: recording })
  await below.get(ONE, { path: { id: 'a/b' } })
  await below.get('/api/v1/mirror/editais', { query: { q: 'a&b', limit: 1 } })
  expect(asked).toEqual([
    'https://erp.example/mirror/api/v1/editais/a%2Fb',
    'https://erp.example/mirror/api/v1/mirror/editais?q=a%26b&limit=1',
  ])
})

test('a document is read again only if it has changed', async () => {
  const context = await servedWith(await startSynced(notices(1, 3)))
  const read = (etag: string | null) => context.client.getIfChanged('/api/v1/editais', etag)
  const first = await read(null)
  expect(first?.document.total).toBe(3)
  expect(await read(first?.etag as string)).toBeNull()
  await publish(context, 4)
  expect((await read(first?.etag as string))?.document.total).toBe(4)
})

test('a search has each notice once, from one snapshot, also if others are published', async () => {
  const context = await served()
  const { api, client } = context
  const all = await api.json<{ editais: object[] }>('/api/v1/mirror/editais?uf=SP,RJ&sort=value&limit=200')
  const pages = []
  for await (const page of client.search({ uf: 'SP,RJ', sort: 'value', limit: 9 })) {
    if (pages.length === 1) await publish(context, 1)
    pages.push(page)
  }
  expect(pages.length).toBeGreaterThan(3)
  expect(pages.flatMap(({ editais }) => editais)).toEqual(all.editais)
  expect(new Set(pages.map(({ snapshot }) => snapshot)).size).toBe(1)
})

test('a search or an export whose snapshot is gone ends with a SnapshotGone', async () => {
  const context = await served()
  const { company, api, proxy, client } = context
  const pages = client.search({ limit: 50 })
  const lines = client.exportNotices({ what: 'both' })
  proxy.cutAfter(500_000)
  expect([await pages.next(), await lines.next()]).toMatchObject([{ done: false }, { done: false }])
  await publish(context, 1)
  // Another server knows only the latest snapshot.
  const other = await serveApi(company.environment)
  proxy.leadTo(other.url)
  await api.close()
  expect(await thrownBy(pages.next())).toMatchObject({ status: 410, error: 'snapshot_gone' })
  const gone = await thrownBy(Array.fromAsync(lines))
  expect(gone).toBeInstanceOf(SnapshotGone)
  expect(gone.message).toBe(
    'GET /api/v1/mirror/export.ndjson: 200 snapshot_gone. Its snapshot was replaced while the connection was lost. Begin again, and forget what was read.',
  )
})

test('an export whose connection is cut again and again has each line once, from one snapshot', async () => {
  const context = await served()
  const { api, proxy, client } = context
  const { body } = await api.ask(EXPORT)
  const expected = body.toString().trimEnd().split('\n')
  // In the headers, in the first line, within a character, at the ends of lines, shortly before the end.
  const cuts = [100, 900, 20_000, 65_536, 1, 300_000, 700, 700_000]
  proxy.cutAfter(...cuts)
  const lines: string[] = []
  for await (const line of client.exportNotices({ what: 'both' })) {
    if (lines.length === 50) await publish(context, 1)
    lines.push(JSON.stringify(line))
  }
  expect(proxy.left()).toBe(0)
  expect(proxy.connections()).toBeGreaterThan(cuts.length)
  expect(lines).toEqual(expected.map(line => JSON.stringify(JSON.parse(line))))
})

test('an export may be cut after any byte of a line', async () => {
  const { api, proxy, client } = await servedWith(await startSynced(notices(1, 2)))
  const { body } = await api.ask('/api/v1/mirror/export.ndjson?what=notices')
  const expected = body
    .toString()
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line))
  const head = 700
  for (let after = head; after < head + body.length; after += 97) {
    proxy.cutAfter(after)
    expect(await Array.fromAsync(client.exportNotices({ what: 'notices' }))).toEqual(expected)
  }
}, 120_000)

test('an empty company has an empty export, and ends its feed without an event', async () => {
  const company = await startSynced(notices(1, 1))
  company.world.remove(idOf(1))
  await company.syncHere()
  const { client } = await servedWith(company)
  for (const what of ['notices', 'analyses', 'both'] as const)
    expect(await Array.fromAsync(client.exportNotices({ what }))).toEqual([])
})

test('the feed goes on after its cursor, waits for changes, and survives lost connections', async () => {
  const context = await servedWith(await startSynced(notices(1, 3)))
  const { api, proxy, client } = context
  const { events } = await follow(api, null)
  const seen: FeedEvent[] = []
  let cursor = ''
  const stop = new AbortController()
  const reading = (async () => {
    for await (const page of client.changes({ limit: 2, wait: 30, signal: stop.signal })) {
      expect(page.next).not.toBe(cursor)
      cursor = page.next
      seen.push(...page.events)
    }
  })()
  await until(() => seen.length >= events.length, { what: 'the events that are there' })
  expect(seen).toEqual(events)
  await until(() => api.served.waiting.size === 1, { what: 'the long poll' })
  proxy.cut()
  await publish(context, 4)
  await until(() => seen.length >= events.length + 2, { what: 'the events of the next run' })
  // The cursors also name the snapshot.
  expect(placed(seen)).toEqual(placed((await follow(api, null)).events))
  // From a stored cursor, to the present end.
  const rest = await Array.fromAsync(
    client.changes({ since: events[1]?.cursor as string, wait: 0, limit: 3 }),
  )
  expect(placed(rest.flatMap(page => page.events))).toEqual(placed(seen.slice(2)))
  expect(rest.at(-1)?.next).toBe(cursor)
  stop.abort(new Error('enough'))
  expect(await thrownBy(reading)).toMatchObject({ message: 'enough' })
  await until(() => api.served.waiting.size === 0, { what: 'the end of the long poll' })
})

test('a cursor of another log ends the feed with a CursorGone', async () => {
  const { api, client } = await servedWith(await startSynced(notices(1, 2)))
  const { events } = await follow(api, null)
  const since = `${events[0]?.cursor.slice(0, -7)}AAAAAAA`
  const gone = await thrownBy(firstOf(client.changes({ since })))
  expect(gone).toBeInstanceOf(CursorGone)
  expect(gone).toMatchObject({ name: 'CursorGone', status: 410, error: 'cursor_gone' })
  expect(gone.message).toContain('Begin anew')
  expect(await api.ask(`${CHANGES}?since=${since}`)).toMatchObject({ status: 410 })
})

test('calls wait as long as the server asks for, within their bound', async () => {
  const { api, apiKey, client } = await servedWith(await startSynced(notices(1, 1)), { maxRps: 2 })
  const started = performance.now()
  const all = await Promise.all([1, 2, 3, 4].map(() => client.get('/api/v1/mirror')))
  expect(new Set(all.map(({ company }) => company))).toEqual(new Set(['acme']))
  expect(performance.now() - started).toBeGreaterThan(950)
  const refusals = api.lines.filter(line => line.includes('"status":429')).length
  expect(refusals).toBeGreaterThan(0)
  expect(refusals).toBeLessThanOrEqual(4)
  const hasty = createClient({ url: api.url, apiKey, maxWaitMs: 999 })
  const answers = await Promise.allSettled([1, 2, 3, 4, 5].map(() => hasty.get('/api/v1/mirror')))
  const refused = answers.flatMap(answer => (answer.status === 'rejected' ? [answer.reason] : []))
  expect(refused[0]).toMatchObject({ status: 429, error: 'too_many_requests', retryAfterMs: 1000 })
})

test('a wrong key is reported with what to do, and no error has a key', async () => {
  const { api, apiKey } = await servedWith(await startSynced(notices(1, 1)))
  const wrong = 'edk_wrong_7d1e0a52c9f84b36'
  const refused = await thrownBy(createClient({ url: api.url, apiKey: wrong }).get('/api/v1/mirror'))
  expect(refused.message).toBe(
    'GET /api/v1/mirror: 401 unauthorized. The API key is wrong, expired or revoked. Set apiKey to a valid one; the operator creates it with: editais keys create.',
  )
  const read = api.store.create('acme', 'no feed', new Date(), null, { scopes: ['read'], maxRps: null })
  const lacking = await thrownBy(firstOf(createClient({ url: api.url, apiKey: read }).changes()))
  expect(lacking).toMatchObject({ status: 403, error: 'forbidden' })
  const unusable = [`${wrong}\nx`, `${wrong}é`, '', '  '].map(key => {
    try {
      return createClient({ url: api.url, apiKey: key })
    } catch (error) {
      return error
    }
  })
  for (const error of unusable) expect(error).toBeInstanceOf(TypeError)
  const shown = inspect([refused, lacking, unusable, createClient({ url: api.url, apiKey })], { depth: 9 })
  for (const key of [wrong, read, apiKey]) expect(shown).not.toContain(key)
  expect(api.lines.join('')).not.toContain(wrong)
  // As a file has it.
  const client = createClient({ url: api.url, apiKey: `${apiKey}\n` })
  expect(await client.get('/api/v1/mirror')).toMatchObject({ company: 'acme' })
})

test('a wrong parameter and a missing notice are refused without waiting', async () => {
  const { client } = await servedWith(await startSynced(notices(1, 1)))
  const started = performance.now()
  const missing = await thrownBy(client.get(ONE, { path: { id: 'a/b?c' } }))
  expect(missing).toMatchObject({ status: 404, error: 'not_found', isMissing: true, retryAfterMs: null })
  const wrong = await thrownBy(firstOf(client.search({ uf: 'S' })))
  expect(wrong.message).toBe(
    'GET /api/v1/mirror/editais: 400 invalid_parameter. uf: must be states such as SP, with commas between them.',
  )
  expect(wrong.isMissing).toBe(false)
  expect(performance.now() - started).toBeLessThan(900)
})

test('a server that is away is waited for, within the bound', async () => {
  const { api, proxy, apiKey, client } = await servedWith(await startSynced(notices(1, 1)))
  proxy.leadTo('http://127.0.0.1:9')
  const answer = client.get('/api/v1/mirror')
  const hasty = createClient({ url: proxy.url, apiKey, maxWaitMs: 0 })
  const failed = await thrownBy(hasty.get('/api/v1/mirror'))
  expect(failed).toBeInstanceOf(ConnectionFailed)
  expect(failed.message).toMatch(
    /^The connection to http:\/\/127\.0\.0\.1:\d+ failed \(.+\)\. Check the url, and whether the server is up\.$/,
  )
  const stopped = AbortSignal.timeout(300)
  expect(await thrownBy(client.get('/api/v1/mirror', { signal: stopped }))).toBe(stopped.reason)
  proxy.leadTo(api.url)
  expect(await answer).toMatchObject({ company: 'acme' })
})

/** A server that does what the test wants, and the requests that it got. */
async function serverThat(answer: (response: ServerResponse) => void) {
  const requests: IncomingMessage[] = []
  const server = createServer((request, response) => {
    requests.push(request)
    answer(response)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(async () => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests }
}

test('a redirect is refused: the key goes to no other server', async () => {
  const other = await serverThat(response => response.end('{}'))
  const first = await serverThat(response => response.writeHead(302, { location: other.url }).end())
  const refused = await thrownBy(createClient({ url: first.url, apiKey: 'edk_1' }).get('/api/v1/mirror'))
  expect(refused).toMatchObject({ status: 302, error: 'redirected' })
  expect([first.requests.length, other.requests.length]).toEqual([1, 0])
})

test('a server that falls silent is a failed connection, in the middle of an answer, too', async () => {
  const beginnings: ((response: ServerResponse) => void)[] = [
    () => {},
    response => void response.writeHead(200, { 'content-length': 100 }).write('{'),
  ]
  for (const begin of beginnings) {
    const { url, requests } = await serverThat(begin)
    const client = createClient({ url, apiKey: 'edk_1', silenceMs: 200, maxWaitMs: 700 })
    const failed = await thrownBy(client.get('/api/v1/mirror'))
    expect(failed).toBeInstanceOf(ConnectionFailed)
    expect(failed.message).toContain('(nothing arrived for 0.2 s)')
    expect(requests.length).toBeGreaterThan(1)
  }
})

test('what is no answer of the API is an error without its text, and without a key that it repeats', async () => {
  const apiKey = 'edk_0ce59893_12c19451e536df3f'
  const answers: Readonly<Record<string, [number, string]>> = {
    '/api/v1/mirror': [500, `<html>${apiKey}</html>`],
    '/api/v1/editais': [403, JSON.stringify({ error: 'proxy', detail: `Refused: Bearer ${apiKey}` })],
    '/api/v1/mirror/changes': [502, '<html>Bad gateway</html>'],
  }
  const { url, requests } = await serverThat(response => {
    const [status, body] = answers[String(response.req.url)] ?? [404, '']
    response.writeHead(status).end(body)
  })
  const client = createClient({ url, apiKey, maxWaitMs: 600 })
  const html = await thrownBy(client.get('/api/v1/mirror'))
  expect(html.message).toBe('GET /api/v1/mirror: 500 unexpected_answer.')
  const repeated = await thrownBy(client.get('/api/v1/editais'))
  expect(repeated.message).toBe('GET /api/v1/editais: 403 proxy. Refused: Bearer …')
  expect(requests).toHaveLength(2)
  // The server may restart behind a proxy, so this is repeated like a failed connection.
  const away = await thrownBy(client.get('/api/v1/mirror/changes'))
  expect(away).toBeInstanceOf(ConnectionFailed)
  expect(away.message).toContain('(a proxy answered 502)')
  expect(requests.length).toBeGreaterThan(3)
})
