import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { idOf, noticeEntry, notices } from '#test/support/notices.ts'
import { askAt, serveApi } from '#test/support/serve.ts'
import { type SyncedCompany, startCompany, startSynced } from '#test/support/synced.ts'

const PATH = '/api/v1/editais'

async function synced(count = 30): Promise<SyncedCompany> {
  return await startSynced(notices(1, count))
}

test('unchanged data is not sent again, and answers can be compressed', async () => {
  const { environment, syncHere } = await startCompany(notices(1, 30))
  await syncHere()
  const { ask } = await serveApi(environment)
  for (const path of [PATH, `${PATH}/${idOf(1)}`, `${PATH}/${idOf(1)}/analysis`]) {
    const { headers, body, status } = await ask(path)
    expect([status, headers['content-type']]).toEqual([200, 'application/json'])
    expect(headers['content-length']).toBe(String(body.length))
    expect(headers['cache-control']).toBe('private, no-cache')
    expect(headers.vary).toBe('Authorization, X-API-Key, Accept-Encoding')
    expect(Math.abs(Date.now() - Date.parse(headers['x-data-as-of'] as string))).toBeLessThan(60_000)

    const etag = headers.etag as string
    for (const known of [etag, etag.slice(2), `"other", ${etag}`, '*']) {
      const again = await ask(path, { headers: { 'if-none-match': known } })
      expect([again.status, again.body.length, again.headers.etag], known).toEqual([304, 0, etag])
      expect(again.headers['x-data-as-of']).toBe(headers['x-data-as-of'])
    }
    expect(await ask(path, { headers: { 'if-none-match': '"other"' } })).toMatchObject({ status: 200, body })

    const head = await ask(path, { method: 'HEAD' })
    expect([head.status, head.body.length, head.headers.etag]).toEqual([200, 0, etag])
    expect(head.headers['content-length']).toBe(String(body.length))
  }
  const { body } = await ask(PATH)
  const compressed = async (accepted: string) => await ask(PATH, { headers: { 'accept-encoding': accepted } })
  const gzip = await compressed('gzip, deflate, br')
  expect(gzip.headers['content-encoding']).toBe('gzip')
  expect(gunzipSync(gzip.body)).toEqual(body)
  const br = await compressed('gzip;q=0.5, br')
  expect(br.headers['content-encoding']).toBe('br')
  expect(brotliDecompressSync(br.body)).toEqual(body)
  expect(br.body.length).toBeLessThan(body.length / 4)
  for (const none of ['identity', 'gzip;q=0', 'zstd', '*;q=0.1']) {
    expect(await compressed(none), none).toMatchObject({ status: 200, body })
  }
})

test('a tag changes exactly when its documents change', async () => {
  const company = await synced()
  const mirror = await serveApi(company.environment)
  const paths = [PATH, `${PATH}/${idOf(1)}`, `${PATH}/${idOf(2)}`, `${PATH}/${idOf(1)}/analysis`]
  const tags = async () => await Promise.all(paths.map(async path => (await mirror.ask(path)).headers.etag))
  const before = await tags()
  const asOf = (await mirror.ask(PATH)).headers['x-data-as-of']
  company.world.update(idOf(2), { edital: { objeto: 'Outro' }, updatedAt: new Date() })
  await company.syncHere()
  await expect
    .poll(async () => (await mirror.ask(PATH)).headers['x-data-as-of'], { timeout: 20_000 })
    .not.toBe(asOf)
  const after = await tags()
  expect(after.map((tag, index) => tag === before[index])).toEqual([false, true, false, true])
})

test('every request is answered in JSON, with a request id', async () => {
  const { ask, url, lines, keys } = await serveApi((await synced(3)).environment)
  const answered = async (path: string, question: Parameters<typeof ask>[1] = {}) => {
    const { status, headers, body } = await ask(path, question)
    expect(headers['content-type']).toBe('application/json')
    return [status, JSON.parse(body.toString())]
  }
  expect(await answered('/nowhere')).toEqual([
    404,
    { error: 'not_found', detail: 'There is nothing at /nowhere. GET / lists what is available.' },
  ])
  expect(await answered(`${PATH}/${idOf(1)}/nowhere`)).toEqual([404, { error: 'not_found' }])
  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE']) {
    expect(await answered(PATH, { method })).toEqual([405, { error: 'method_not_allowed' }])
  }
  expect(await answered(PATH, { key: null })).toEqual([401, { error: 'unauthorized' }])
  expect(await answered(PATH, { key: `${keys.acme}x` })).toEqual([401, { error: 'unauthorized' }])
  expect(await answered(PATH, { headers: { authorization: 'Bearer other' } })).toEqual([
    401,
    { error: 'unauthorized' },
  ])
  expect(await answered(`${PATH}?status=ready,nope`)).toEqual([
    400,
    { error: 'invalid_status', detail: 'unknown status: nope' },
  ])
  expect(await answered(`${PATH}?status=${'a'.repeat(5000)}`)).toEqual([414, { error: 'url_too_long' }])
  const large = await askAt(`${url}${PATH}`, { method: 'GET', headers: { 'x-large': 'a'.repeat(20_000) } })
  expect([large.status, large.body.toString()]).toEqual([431, '{"error":"headers_too_large"}'])

  // Node's default is 417 without a body.
  expect(await answered(`${PATH}/x`, { headers: { expect: 'a-miracle' } })).toEqual([
    404,
    { error: 'not_found' },
  ])

  const own = await ask(PATH, { headers: { 'x-request-id': 'erp-42' } })
  expect(own.headers['x-request-id']).toBe('erp-42')
  const forged = await ask(PATH, { headers: { 'x-request-id': '{"level":60}' } })
  expect(forged.headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/)
  const line = lines.map(text => JSON.parse(text)).find(({ request_id }) => request_id === 'erp-42')
  expect(line).toMatchObject({ method: 'GET', path: PATH, status: 200, company: 'acme', msg: 'Answered' })
  const key = keys.acme as string
  expect(key.startsWith(line.key)).toBe(true)
  expect(lines.join('')).not.toContain(key)
  // No page of another site can read it.
  const foreign = await ask(PATH, { headers: { origin: 'https://elsewhere.example' } })
  expect(foreign.headers['access-control-allow-origin']).toBeUndefined()
})

test('pages of a configured origin may send requests, and a key is held to its rate', async () => {
  const { environment } = await synced(3)
  const origin = 'https://erp.example'
  const { ask, lines } = await serveApi(environment, { corsOrigins: [origin], maxRps: 5 })
  const preflight = await ask(PATH, {
    method: 'OPTIONS',
    key: null,
    headers: {
      origin,
      'access-control-request-method': 'GET',
      'access-control-request-headers': 'x-api-key',
    },
  })
  expect([preflight.status, preflight.headers['access-control-allow-origin']]).toEqual([204, origin])
  expect(preflight.headers['access-control-allow-headers']).toBe('x-api-key')
  const own = await ask(PATH, { headers: { origin } })
  expect(own.headers['access-control-allow-origin']).toBe(origin)
  expect(own.headers.vary).toBe('Authorization, X-API-Key, Accept-Encoding, Origin')
  expect(own.headers['x-data-as-of']).toMatch(/Z$/)
  const other = await ask(PATH, { headers: { origin: 'https://elsewhere.example' } })
  expect(other.headers['access-control-allow-origin']).toBeUndefined()
  const any = await serveApi(environment, { corsOrigins: ['*'] })
  expect((await any.ask(PATH, { headers: { origin } })).headers['access-control-allow-origin']).toBe('*')

  const answers = await Promise.all(Array.from({ length: 20 }, () => ask(PATH)))
  const refused = answers.filter(({ status }) => status === 429)
  expect(refused.length).toBeGreaterThan(10)
  expect(refused[0]?.headers['retry-after']).toBe('1')
  expect(JSON.parse(String(refused[0]?.body))).toEqual({
    error: 'too_many_requests',
    detail: 'This key may send 5 requests per second.',
  })
  const logged = lines.map(line => JSON.parse(line)).filter(({ status }) => status === 429)
  expect(logged).toHaveLength(refused.length)
  expect(logged[0]).toMatchObject({ company: 'acme', key: expect.stringMatching(/^edk_/) })
})

test('what is not available yet gets 503 with the reason, not 404', async () => {
  const company = await startCompany(notices(1, 4), { ANALYSIS_STATUSES: 'analysis' })
  const { world, faults } = company
  world.update(idOf(3), { edital: { status: 'discarded' } })
  faults.plan = [
    { fault: 'status', status: 500, kinds: ['analysis'], ids: [idOf(2)] },
    { fault: 'truncate', kinds: ['analysis'], ids: [idOf(4)] },
  ]
  await company.syncHere()
  const { ask, keys } = await serveApi(company.environment, {
    companies: ['acme', 'beta'],
    ready: ['acme'],
  })
  const [now, excluded] = ['analysis_not_available', 'analysis_excluded']
  for (const [number, error, expected, retryAfter] of [
    [2, now, 'The analysis of this notice has not been fetched yet. Try again after the next sync.', '300'],
    [3, excluded, 'Analyses of notices in this phase are not fetched here (ANALYSIS_STATUSES).', undefined],
    [4, now, 'The analysis of this notice could not be used. It will be fetched again soon.', '300'],
  ] as const) {
    const { status, headers, body } = await ask(`${PATH}/${idOf(number)}/analysis`)
    expect([status, headers['retry-after']]).toEqual([503, retryAfter])
    expect(JSON.parse(body.toString())).toEqual({ error, detail: expected })
    expect((await ask(`${PATH}/${idOf(number)}`)).status).toBe(200)
  }
  expect((await ask(`${PATH}/${idOf(1)}/analysis`)).status).toBe(200)
  const nothing = await ask(PATH, { key: keys.beta as string })
  expect([nothing.status, nothing.headers['retry-after']]).toEqual([503, '5'])
})

test('an older analysis is not served for a notice that has changed since', async () => {
  const company = await synced(2)
  company.world.update(idOf(1), { edital: { objeto: 'Outro' }, updatedAt: new Date() })
  company.faults.plan = [{ fault: 'status', status: 500, kinds: ['analysis'] }]
  await company.syncHere()
  const { ask, json } = await serveApi(company.environment)
  expect(await json(`${PATH}/${idOf(1)}`)).toMatchObject({ objeto: 'Outro' })
  expect((await ask(`${PATH}/${idOf(1)}/analysis`)).status).toBe(503)
  expect((await ask(`${PATH}/${idOf(2)}/analysis`)).status).toBe(200)
})

test('dates in the far past and future are served', async () => {
  const dates = ['9999-12-31T00:00:00Z', '2300-01-01T00:00:00.123456Z', '1500-03-01T12:00:00Z']
  const entries = dates.map((created_at, index) =>
    noticeEntry(index + 1, { created_at, updated_at: created_at }),
  )
  const company = await startCompany(entries)
  await company.syncHere()
  const { json } = await serveApi(company.environment)
  const { editais } = await json<{ editais: { created_at: string }[] }>(PATH)
  expect(editais.map(({ created_at }) => created_at)).toEqual(dates)
})
