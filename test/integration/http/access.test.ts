import { expect, test } from 'vitest'
import { readDaemonSettings } from '#config/daemon.ts'
import { askWith, basic, errorOf, STATUS, SYNC, serveWorker, TOKEN } from '#test/support/http.ts'
import { askAt } from '#test/support/serve.ts'

test.each([
  ['no token', {}],
  ['a wrong token', { authorization: 'Bearer tok_7d1e0a52c9f84b37' }],
  ['a part of the token', { authorization: `Bearer ${TOKEN.slice(0, -1)}` }],
  ['an empty token', { authorization: 'Bearer ' }],
  ['a wrong password', basic('admin', 'secret')],
  ['the token as the user', basic(TOKEN, '')],
  ['unreadable credentials', { authorization: 'Basic !!!' }],
  ['another scheme', { authorization: `Digest ${TOKEN}` }],
])('with %s nothing is shown and nothing is done', async (_, headers: Record<string, string>) => {
  const { url, queues } = await serveWorker()
  for (const [path, method] of [
    ['/queues', 'GET'],
    ['/queues/api/queues', 'GET'],
    ['/queues/static/favicon.ico', 'GET'],
    [STATUS, 'GET'],
    [SYNC, 'POST'],
    ['/companies/unknown/status', 'GET'],
    ['/companies/', 'GET'],
  ] as const) {
    const response = await fetch(`${url}${path}`, { method, headers })
    expect([path, response.status]).toEqual([path, 401])
    expect(response.headers.get('www-authenticate')).toMatch(/^Basic realm="/)
    expect((await errorOf(response)).error).toBe('unauthorized')
  }
  expect(await queues.runs.count()).toBe(0)
})

test.each([
  ['a bearer token', { authorization: `Bearer ${TOKEN}` }],
  ['a bearer token in other case', { authorization: `bearer  ${TOKEN}` }],
  ['the password of a user', basic('anybody', TOKEN)],
  ['a password without a user', basic('', TOKEN)],
])('the token is accepted as %s', async (_, headers) => {
  const { url } = await serveWorker()
  expect((await fetch(`${url}${SYNC}`, { method: 'POST', headers })).status).toBe(202)
})

test.each([[null], ['']])('without a token (%j) what needs one is off, with the reason', async adminToken => {
  const { url, ask } = await serveWorker({ adminToken })
  for (const path of ['/queues', STATUS, '/companies/unknown/status']) {
    for (const headers of [
      {},
      { authorization: 'Bearer ' },
      basic('', ''),
      { authorization: `Bearer ${TOKEN}` },
    ]) {
      const response = await fetch(`${url}${path}`, { headers })
      expect([path, response.status]).toEqual([path, 403])
      expect((await errorOf(response)).detail).toContain('ADMIN_TOKEN is not set')
    }
  }
  expect((await ask('/healthz')).status).toBe(200)
  expect(await (await fetch(url)).json()).toMatchObject({ token: expect.stringContaining('are off') })
})

test.each([
  ['a page of another site', { 'sec-fetch-site': 'cross-site' }, 403],
  ['a page of a sibling site', { 'sec-fetch-site': 'same-site' }, 403],
  ['an old browser on another site', { origin: 'https://evil.example' }, 403],
  ['a page without an origin', { origin: 'null' }, 403],
  ['a page of another port', { origin: 'http://127.0.0.1:9' }, 403],
  ['our own page', { 'sec-fetch-site': 'same-origin', origin: 'https://ops.example' }, 202],
  ['the address bar', { 'sec-fetch-site': 'none' }, 202],
])('a request from %s gets the right status', async (_, headers, status) => {
  const { url, queues, logged } = await serveWorker()
  const given = { ...basic('admin', TOKEN), ...headers }
  expect(await askWith(`${url}${SYNC}`, { method: 'POST', headers: given })).toBe(status)
  const audited = logged.map(line => JSON.parse(line)).filter(({ audit }) => audit === 'admin')
  const result = status === 202 ? 'accepted' : 'refused'
  expect(audited).toMatchObject([{ operator: 'ADMIN_TOKEN', method: 'POST', path: SYNC, result }])
  if (status === 202) return
  expect(await queues.runs.count()).toBe(0)
  expect(await askWith(`${url}/queues/api/queues/runs/pause`, { method: 'PUT', headers: given })).toBe(403)
  expect(await queues.runs.isPaused()).toBe(false)
})

test('an old browser on our own page may send requests', async () => {
  const { url } = await serveWorker()
  const headers = { ...basic('admin', TOKEN), origin: url }
  expect(await askWith(`${url}${SYNC}`, { method: 'POST', headers })).toBe(202)
})

test('after ten wrong tokens an address must wait, whatever it sends; others need not', async () => {
  const { url, logged, metrics } = await serveWorker()
  const wrong = { authorization: 'Bearer tok_0000000000000000' }
  for (let n = 0; n < 10; n += 1)
    expect((await fetch(`${url}${STATUS}`, { headers: wrong })).status, String(n)).toBe(401)
  const good = { authorization: `Bearer ${TOKEN}` }
  for (const headers of [wrong, good]) {
    const response = await fetch(`${url}${SYNC}`, { method: 'POST', headers })
    expect([response.status, Number(response.headers.get('retry-after'))]).toEqual([429, expect.any(Number)])
    expect(Number(response.headers.get('retry-after'))).toBeLessThanOrEqual(6)
    expect(await errorOf(response)).toEqual({
      error: 'too_many_requests',
      detail: expect.stringMatching(/^Too many wrong tokens from 127\.0\.0\.1\. Try again in \d s\.$/),
    })
  }
  const elsewhere = await askAt(`${url}${SYNC}`, { method: 'POST', headers: good, localAddress: '127.0.0.9' })
  expect(elsewhere.status).toBe(202)
  // A request without a token is not a guess.
  expect((await fetch(`${url}${STATUS}`)).status).toBe(401)

  const warnings = logged.map(line => JSON.parse(line)).filter(({ msg }) => msg === 'Wrong admin token')
  expect(warnings).toHaveLength(10)
  expect(warnings[0]).toMatchObject({ address: '127.0.0.1', method: 'GET', path: STATUS })
  expect(logged.join('')).toContain('must wait')
  expect(logged.join('')).not.toContain('tok_0000')
  expect((await metrics.render()).body).toContain('editais_refused_credentials_total{credential="token"} 12')
})

test.each([
  [{ ADMIN_TOKEN: 'short' }, 'ADMIN_TOKEN has 5 characters'],
  [{ ADMIN_TOKEN: '0123456789abcde' }, 'ADMIN_TOKEN has 15 characters'],
])('a token that is too short is refused at the start: %j', (environment, expected) => {
  expect(() => readDaemonSettings(environment)).toThrow(expected)
  expect(() => readDaemonSettings(environment)).not.toThrow(environment.ADMIN_TOKEN)
})
