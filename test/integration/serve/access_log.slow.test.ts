import { Registry } from 'prom-client'
import { expect, test } from 'vitest'
import { startHttp } from '#src/lib/http/server.ts'
import { MIRROR_EXTRAS } from '#src/server/api_extras.ts'
import { createService } from '#src/server/contract/app.ts'
import { createServiceMetrics } from '#src/server/contract/metrics.ts'
import { createEntrance } from '#src/server/entrance.ts'
import { createServeRoutes } from '#src/server/mirror/app.ts'
import { until } from '#test/support/daemon.ts'
import { idOf, notices } from '#test/support/notices.ts'
import { readMetrics } from '#test/support/prometheus.ts'
import { exchange, parsed } from '#test/support/raw_http.ts'
import { serveApi } from '#test/support/serve.ts'
import { startSynced } from '#test/support/synced.ts'

const PATH = '/api/v1/editais'

/** A mirror, with another server that has trusted proxies and readable metrics. */
async function serve(trustedProxies: readonly string[] = []) {
  const company = await startSynced(notices(1, 3))
  const mirrored = await serveApi(company.environment)
  const registry = new Registry()
  const metrics = createServiceMetrics(registry)
  const { served, log } = mirrored.parts
  const entrance = createEntrance({ served, maxRps: null, metrics, log })
  const api = createServeRoutes({ ...mirrored.parts, entrance })
  const service = createService({ api, extras: MIRROR_EXTRAS, log: null, contents: {} })
  const http = await startHttp(service, { trustedProxies })
  metrics.watch(http.connections)
  metrics.watchKeys(() => served.expiringKeys())
  const key = mirrored.keys.acme as string
  const ask = async (path: string, headers = '') => {
    const text = `GET ${path} HTTP/1.1\r\nHost: x\r\nX-API-Key: ${key}\r\n${headers}Connection: close\r\n\r\n`
    return parsed(await exchange(http.url, text))
  }
  // Lines of the snapshot that is loaded may come between.
  const lastLine = () =>
    JSON.parse(mirrored.lines.findLast(line => line.includes('"path"')) ?? '{}') as Record<string, unknown>
  return {
    ...mirrored,
    ask,
    key,
    lastLine,
    close: http.abort,
    url: http.url,
    figures: () => registry.metrics(),
  }
}

test.each([
  ['no proxy is trusted', [], 'X-Forwarded-For: 203.0.113.7\r\n', '127.0.0.1'],
  ['the proxy is trusted', ['127.0.0.1'], 'X-Forwarded-For: 203.0.113.7\r\n', '203.0.113.7'],
  [
    'the client forged another one',
    ['127.0.0.1'],
    'X-Forwarded-For: 6.6.6.6, 203.0.113.7\r\n',
    '203.0.113.7',
  ],
  [
    'there are two proxies',
    ['127.0.0.0/8', '10.0.0.0/8'],
    'X-Forwarded-For: 2001:db8::1, 10.1.1.1\r\n',
    '2001:db8::1',
  ],
  ['the proxy sends no header', ['127.0.0.1'], '', '127.0.0.1'],
  ['the proxy sends nonsense', ['127.0.0.1'], 'X-Forwarded-For: 203.0.113.7, <script>\r\n', '127.0.0.1'],
  [
    'the client forged many',
    ['127.0.0.1'],
    `X-Forwarded-For: ${'1.1.1.1,'.repeat(500)}203.0.113.7\r\n`,
    '203.0.113.7',
  ],
  ['the proxy adds the port', ['127.0.0.1'], 'X-Forwarded-For: 203.0.113.7:4711\r\n', '203.0.113.7'],
  [
    'the proxy adds the port to IPv6',
    ['127.0.0.1'],
    'X-Forwarded-For: [2001:db8::1]:4711\r\n',
    '2001:db8::1',
  ],
])("the access log has the client's address if %s", async (_, trusted, header, address) => {
  const { ask, lastLine, close } = await serve(trusted)
  expect((await ask(PATH, header)).status).toBe(200)
  expect(lastLine()).toMatchObject({ msg: 'Answered', address, status: 200, company: 'acme', path: PATH })
  await close()
})

test('the log contains no key from a path, and no terminal control characters', async () => {
  const { ask, key, keys, lines, lastLine, close } = await serve()
  const foreign = 'sk_live_0123456789abcdefghijklmnopqrstuvwxyzABCDEF'
  const shown = async (path: string, headers = '') => {
    expect([path, (await ask(path, headers)).status]).toEqual([path, 404])
    return lastLine().path
  }
  expect(await shown(`${PATH}/${key}`)).toBe(`${PATH}/…`)
  expect(await shown(`${PATH}/edk_00000000_${'f'.repeat(64)}`)).toBe(`${PATH}/edk_00000000…`)
  expect(await shown(`${PATH}/%65dk_00000000_${'f'.repeat(64)}/analysis`)).toBe(
    `${PATH}/edk_00000000…/analysis`,
  )
  expect(await shown(`${PATH}/${foreign}`)).toBe(`${PATH}/sk_liv…`)
  expect(await shown(`${PATH}/secret-of-mine`, 'X-Request-Id: 1\r\n')).toBe(`${PATH}/secret-of-mine`)
  expect(await shown(`${PATH}/a%1b%5B31mb%0d%0ac%e2%80%ae`)).toBe(`${PATH}/a\ufffd[31mb\ufffd\ufffdc\ufffd`)
  expect(await shown(`${PATH}/${idOf(7)}`)).toBe(`${PATH}/${idOf(7)}`)
  expect(await shown(`${PATH}/0f8fad5b-d9cb-469f-a165-70867728950e`)).toContain('70867728950e')
  // Even next to characters that cannot be decoded.
  expect(await shown(`${PATH}/%65dk_%30%30000000_${'f'.repeat(64)}%zz%ff`)).toBe(
    `${PATH}/edk_00000000…%zz%ff`,
  )
  expect((await shown(`${PATH}/${'a-'.repeat(900)}`)) as string).toHaveLength(`${PATH}/a-a-a-…`.length)
  const all = lines.join('')
  for (const secret of [keys.acme as string, foreign]) expect(all).not.toContain(secret.slice(13))
  await close()
})

test('/metrics counts API requests by route, status and company, with times, bytes and refused keys', async () => {
  const { ask, url, close, figures } = await serve()
  const figure = async (name: string) => (await readMetrics(await figures())).get(name)?.values ?? {}
  for (const path of [
    '',
    '?limit=1',
    `/${idOf(1)}`,
    `/${idOf(1)}/analysis`,
    '/nobody',
    '/a/b/c',
    '?status=x',
  ])
    await ask(`${PATH}${path}`)
  await exchange(url, `GET ${PATH} HTTP/1.1\r\nHost: x\r\nX-API-Key: wrong\r\nConnection: close\r\n\r\n`)
  await exchange(url, `GET ${PATH} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`)
  await until(async () => Object.keys(await figure('editais_serve_requests_total')).length >= 7, {
    what: 'all requests',
  })
  expect(await figure('editais_serve_requests_total')).toEqual({
    'route=list,status=200,company=acme': 2,
    'route=list,status=400,company=acme': 1,
    'route=notice,status=200,company=acme': 1,
    'route=notice,status=404,company=acme': 1,
    'route=analysis,status=200,company=acme': 1,
    'route=other,status=404,company=acme': 1,
    'route=list,status=401,company=': 2,
  })
  expect(await figure('editais_refused_credentials_total')).toEqual({ 'credential=key': 1 })
  const bytes = await figure('editais_serve_response_bytes_total')
  expect(bytes['route=list,company=acme']).toBeGreaterThan(1000)
  expect(await figures()).toMatch(/editais_serve_request_duration_seconds_count\{route="list"\} 5\n/)
  expect(await figure('editais_http_unread_bytes')).toEqual({ '': 0 })
  await close()
})

test('/metrics shows when keys expire that are in use, until they are replaced', async () => {
  const { store, url, close, figures } = await serve()
  const [now, expiresAt] = [new Date(), new Date(Date.now() + 86_400_000)]
  const [used, unused] = [
    store.create('acme', 'CRM', now, expiresAt),
    store.create('acme', 'ERP', now, expiresAt),
  ]
  await exchange(url, `GET ${PATH} HTTP/1.1\r\nHost: x\r\nX-API-Key: ${used}\r\nConnection: close\r\n\r\n`)
  const shown = async () =>
    (await readMetrics(await figures())).get('editais_api_key_expires_timestamp_seconds')?.values ?? {}
  const seconds = expiresAt.getTime() / 1000
  // The server notes uses every two seconds.
  await until(async () => Object.keys(await shown()).length > 0, { what: 'the key that was used' })
  expect(await shown()).toEqual({ [`company=acme,key=${used.slice(0, 12)}`]: seconds })
  expect(await figures()).not.toContain(unused.slice(0, 12))
  store.rotate(used.slice(0, 12), { now: new Date(), overlapMs: 3_600_000 })
  expect(await shown()).toEqual({})
  await close()
})

test('guessed keys are slowed down; a valid key from the same address is not', async () => {
  const { ask, url, lines, close } = await serve()
  const guess = async (n: number) => {
    const started = performance.now()
    const text = `GET ${PATH} HTTP/1.1\r\nHost: x\r\nX-API-Key: edk_${n}\r\nConnection: close\r\n\r\n`
    const { status } = parsed(await exchange(url, text))
    return { status, ms: performance.now() - started }
  }
  for (let n = 0; n < 10; n += 1) expect((await guess(n)).status).toBe(401)
  const slow = guess(10)
  expect((await ask(PATH)).status).toBe(200)
  const { status, ms } = await slow
  expect(status).toBe(401)
  expect(ms).toBeGreaterThan(900)
  // Above the number that may wait, further ones are refused at once.
  const flood = await Promise.all(Array.from({ length: 130 }, (_, n) => guess(n)))
  expect(flood.filter(one => one.status === 429).length).toBe(30)
  const refused = lines.map(line => JSON.parse(line)).filter(line => line.status === 401)
  expect(refused.length).toBeGreaterThan(10)
  expect(refused[0]).toMatchObject({ address: '127.0.0.1', path: PATH })
  await close()
})
