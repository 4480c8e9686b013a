import { rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { readDaemonSettings } from '#config/daemon.ts'
import type { Scope } from '#src/server/key_file.ts'
import type { KeyStore } from '#src/server/keys.ts'
import {
  bearer,
  cookie,
  errorOf,
  leaveSnapshot,
  STATUS,
  SYNC,
  serveWorker,
  TOKEN,
  type Worker,
} from '#test/support/http.ts'
import type { Environment } from '#test/support/project.ts'
import { exchange, parsed } from '#test/support/raw_http.ts'
import { askAt } from '#test/support/serve.ts'

const PAUSE = '/queues/api/queues/runs/pause'

/** Every route for operators, with the status of a request that gets through. */
const ROUTES = {
  'GET /report': 200,
  'GET /queues': 200,
  'GET /queues/api/queues': 200,
  'GET /queues/static/favicon.ico': 200,
  'PUT /queues/api/queues/runs/pause': 200,
  'PUT /queues/api/queues/runs/resume': 200,
  'GET /companies/acme/status': 200,
  'GET /companies/acme/report': 200,
  'POST /companies/acme/sync': 202,
  'GET /companies/beta/status': 200,
  'GET /companies/beta/report': 200,
  'POST /companies/beta/sync': 202,
  'GET /companies/unknown/status': 404,
  'GET /companies/ac%6De/status': 200,
  'GET /companies/acme%2F..%2Fbeta/status': 404,
  'GET /companies': 200,
} as const
type Route = keyof typeof ROUTES

const all: readonly Route[] = Object.keys(ROUTES) as Route[]
const reading = all.filter(route => route.startsWith('GET '))
const FOR_ALL: readonly Route[] = ['GET /report', 'GET /companies']
const ofAcme = all.filter(route => FOR_ALL.includes(route) || /\/companies\/(acme|ac%6De)\//.test(route))
const ofBeta = all.filter(route => FOR_ALL.includes(route) || route.includes('/companies/beta/'))

type Make = (worker: Worker) => string
const key =
  (company: string, scopes: readonly Scope[], expiresAt: Date | null = null): Make =>
  worker =>
    worker.keyOf(company, scopes, expiresAt)
const ended =
  (end: (keys: KeyStore, prefix: string) => void): Make =>
  worker => {
    const made = worker.keyOf('*', ['operate'])
    worker.withKeys(keys => end(keys, made.slice(0, 12)))
    return made
  }
const now = new Date()

/** A credential, and the routes that it opens; the others answer 403. Null if it is not valid: then all answer 401. */
const CREDENTIALS: readonly (readonly [name: string, make: Make, opened: readonly Route[] | null])[] = [
  ['none', () => '', null],
  ['a wrong key', () => `edk_00000000_${'0'.repeat(64)}`, null],
  ['a wrong token', () => `${TOKEN}x`, null],
  ['a part of the token', () => TOKEN.slice(0, -1), null],
  ['ADMIN_TOKEN', () => TOKEN, all],
  ['a key that reads', key('acme', ['read', 'feed', 'sql', 'admin']), []],
  ['a key that operates', key('*', ['operate']), all],
  ['a key that watches', key('*', ['watch']), reading],
  ['one of acme that operates', key('acme', ['operate']), ofAcme],
  ['one of acme that operates and reads', key('acme', ['read', 'operate']), ofAcme],
  ['one of acme that watches', key('acme', ['watch']), ofAcme.filter(one => reading.includes(one))],
  ['one of another company', key('beta', ['operate']), ofBeta],
  ['one of a company that begins alike', key('acm', ['operate']), FOR_ALL],
  ['one that expired', key('*', ['operate'], new Date('2000-01-01')), null],
  ['one that was revoked', ended((keys, prefix) => keys.revoke(prefix, now)), null],
  [
    'one that was replaced at once',
    ended((keys, prefix) => keys.rotate(prefix, { now, overlapMs: 0 })),
    null,
  ],
]

test.each(CREDENTIALS)('with %s: what it opens, in a header and in a cookie', async (_, make, opened) => {
  const worker = await serveWorker()
  for (const slug of ['acme', 'beta']) await leaveSnapshot(worker.company(slug))
  const made = make(worker)
  const expected = all.map(route => {
    const refused = opened === null ? 401 : 403
    return [route, opened?.includes(route) ? ROUTES[route] : refused]
  })
  for (const [way, headers] of [{}, bearer(made), { 'x-api-key': made }, cookie(made)].entries()) {
    const found = all.map(async (route, n) => {
      const [method = '', path = ''] = route.split(' ')
      // Each from another address: wrong keys make one wait.
      const localAddress = `127.0.${way}.${n + 1}`
      return [route, (await askAt(worker.url + path, { method, headers, localAddress })).status]
    })
    expect(await Promise.all(found)).toEqual(way === 0 ? all.map(route => [route, 401]) : expected)
  }
  // A company has one waiting run.
  const requested = opened?.filter(route => route.startsWith('POST')) ?? []
  expect(await worker.queues.runs.count()).toBe(requested.length)
  if (made !== '') expect(worker.logged.join('')).not.toContain(made)
})

test('without a key, every path is closed but those that are open on purpose', async () => {
  const { url, paths } = await serveWorker()
  const open: string[] = []
  for (const path of paths.filter(one => !one.startsWith('/*'))) {
    const address = url + path.replace(':company', 'acme').replace('*', 'x')
    const { status } = await fetch(address, { redirect: 'manual' })
    if (status !== 401 && !path.startsWith('/docs/')) open.push(path)
  }
  expect(open.sort().join(' ')).toBe(
    '/ /docs /editais/entrar /editais/sair /healthz /metrics /openapi.json /readyz',
  )
})

test('a key of an operator opens no notices, and nothing names other companies to it', async () => {
  const worker = await serveWorker()
  for (const made of [worker.keyOf('*', ['operate', 'watch']), worker.keyOf('acme', ['operate'])])
    for (const path of ['/api/v1/editais', '/api/v1/editais/1/analysis', '/api/v1/mirror', '/editais']) {
      const headers = path === '/editais' ? cookie(made) : bearer(made)
      const { status } = await fetch(worker.url + path, { headers })
      expect([path, status]).toEqual([path, path === '/editais' ? 401 : 403])
    }
  // Even if its row in the file says more.
  const forAll = worker.keyOf('*', ['read', 'feed', 'sql', 'admin', 'operate'])
  expect((await fetch(`${worker.url}/api/v1/editais`, { headers: bearer(forAll) })).status).toBe(403)
  expect((await fetch(`${worker.url}/api/v1/editais`, { headers: bearer(TOKEN) })).status).toBe(401)

  const headers = bearer(worker.keyOf('acme', ['operate']))
  const answers = await Promise.all(
    ['beta', 'unknown'].map(async slug => {
      const response = await fetch(`${worker.url}/companies/${slug}/status`, { headers })
      return [response.status, await response.text()]
    }),
  )
  expect(answers[0]).toEqual(answers[1])
  for (const path of ['acme/../beta', 'acme/%2e%2e/beta', 'acme//beta', '/acme/../beta', 'acme/..%2fbeta']) {
    const line = `GET /companies/${path}/status HTTP/1.1\r\nHost: x\r\n`
    const answer = await exchange(
      worker.url,
      `${line}Authorization: ${headers.authorization}\r\nConnection: close\r\n\r\n`,
    )
    expect([path, [403, 404].includes(parsed(answer).status)]).toEqual([path, true])
  }
  const report = await fetch(`${worker.url}/report`, { headers })
  expect((await errorOf(report)).detail).toMatch(/^acme has no snapshot yet/)
})

test('a refusal says what the request needs, and makes no browser ask for a password', async () => {
  const worker = await serveWorker()
  const reads = worker.keyOf('acme', ['read', 'feed'])
  for (const [headers, detail] of [
    [
      {},
      /^This needs a key with the scope operate, .* editais keys create --description NAME --scopes operate\.$/,
    ],
    [bearer('x'), /^The key is wrong\. This needs/],
    [bearer(reads), /^edk_\w{8} has read, feed\. This needs a key with the scope operate/],
    [bearer(worker.keyOf('*', ['watch'])), /^edk_\w{8} may only watch\. This needs/],
    [bearer(worker.keyOf('beta', ['operate'])), /^edk_\w{8} is a key of beta alone\.$/],
  ] as const) {
    const response = await fetch(`${worker.url}${SYNC}`, { method: 'POST', headers })
    expect((await errorOf(response)).detail).toMatch(detail)
    expect(response.headers.get('www-authenticate')).toBe(response.status === 401 ? 'Bearer' : null)
  }
  // Basic is not read, and a cookie does not replace a header that is wrong.
  const both = { ...cookie(TOKEN), authorization: `Basic ${Buffer.from(`a:${TOKEN}`).toString('base64')}` }
  expect((await fetch(`${worker.url}${SYNC}`, { method: 'POST', headers: both })).status).toBe(401)
})

test.each([
  ['a page of another site', { 'sec-fetch-site': 'cross-site' }, 403],
  ['a page of a sibling site', { 'sec-fetch-site': 'same-site' }, 403],
  ['an old browser on another site', { origin: 'https://evil.example' }, 403],
  ['a page without an origin', { origin: 'null' }, 403],
  ['a page of another port', { origin: 'http://127.0.0.1:9' }, 403],
  ['our own page', { 'sec-fetch-site': 'same-origin', origin: 'https://ops.example' }, 202],
  ['an old browser on our own page', { origin: 'http://ops.example', host: 'ops.example' }, 202],
  ['the address bar', { 'sec-fetch-site': 'none' }, 202],
])('a request from %s gets the right status', async (_, given: Record<string, string>, status) => {
  const { url, queues, logged } = await serveWorker()
  const headers = { ...cookie(TOKEN), ...given }
  expect((await askAt(`${url}${SYNC}`, { method: 'POST', headers })).status).toBe(status)
  const audited = logged.map(line => JSON.parse(line)).filter(({ audit }) => audit === 'admin')
  const result = status === 202 ? 'accepted' : 'refused'
  expect(audited).toMatchObject([{ operator: 'ADMIN_TOKEN', method: 'POST', path: SYNC, result }])
  if (status === 202) return
  expect(await queues.runs.count()).toBe(0)
  expect((await askAt(`${url}${PAUSE}`, { method: 'PUT', headers })).status).toBe(403)
  expect(await queues.runs.isPaused()).toBe(false)
})

test('after ten wrong keys an address must wait, even with ADMIN_TOKEN; keys and other addresses need not', async () => {
  const worker = await serveWorker()
  const { url, logged, metrics } = worker
  const wrong = bearer('tok_0000000000000000')
  // Where ADMIN_TOKEN would open something, also in the form; the API has keys alone.
  for (let n = 0; n < 8; n += 1) {
    expect((await fetch(`${url}${STATUS}`, { headers: wrong })).status).toBe(401)
    expect((await fetch(`${url}/api/v1/editais`, { headers: wrong })).status).toBe(401)
  }
  const signIn = (chave: string) =>
    fetch(`${url}/editais/entrar`, { method: 'POST', body: new URLSearchParams({ chave }) })
  for (let n = 0; n < 2; n += 1) expect((await signIn('tok_0000000000000000')).status).toBe(401)
  for (const headers of [wrong, bearer(TOKEN)]) {
    const response = await fetch(`${url}${SYNC}`, { method: 'POST', headers })
    expect([response.status, Number(response.headers.get('retry-after'))]).toEqual([429, expect.any(Number)])
    expect(Number(response.headers.get('retry-after'))).toBeLessThanOrEqual(6)
    expect(await errorOf(response)).toEqual({
      error: 'too_many_requests',
      detail: expect.stringMatching(/^Too many wrong keys from 127\.0\.0\.1\. Try again in \d s\.$/),
    })
  }
  expect((await signIn(TOKEN)).status).toBe(429)
  const valid = bearer(worker.keyOf('*', ['operate']))
  expect((await fetch(`${url}${SYNC}`, { method: 'POST', headers: valid })).status).toBe(202)
  const elsewhere = { method: 'POST', headers: bearer(TOKEN), localAddress: '127.0.0.9' }
  expect((await askAt(`${url}${SYNC}`, elsewhere)).status).toBe(202)
  // A request without a key is not a guess.
  expect((await fetch(`${url}${STATUS}`)).status).toBe(401)

  const warnings = logged.map(line => JSON.parse(line)).filter(({ msg }) => msg === 'Wrong key')
  expect(warnings).toHaveLength(8)
  expect(warnings[0]).toMatchObject({ address: '127.0.0.1', method: 'GET', path: STATUS, operator: null })
  expect(logged.join('')).not.toContain('tok_0000')
  expect((await metrics.render()).body).toContain('editais_refused_credentials_total{credential="key"} 21')
})

test('a person signs in once for pages and operators, and a cookie goes only where its key leads', async () => {
  const worker = await serveWorker({ companies: ['acme'] })
  await leaveSnapshot(worker.company('acme'))
  const browser = { accept: 'text/html' }
  const door = await fetch(`${worker.url}/companies/acme/report`, { headers: browser, redirect: 'manual' })
  expect([door.status, door.headers.get('location')]).toEqual([
    ...[303, '/editais/entrar?para=%2Fcompanies%2Facme%2Freport'],
  ])
  const form = await fetch(worker.url + door.headers.get('location'), { headers: browser })
  expect(await form.text()).toContain('name="para" value="/companies/acme/report"')

  const signIn = async (chave: string, para?: string) => {
    const body = new URLSearchParams({ chave, ...(para === undefined ? {} : { para }) })
    const answer = await fetch(`${worker.url}/editais/entrar`, { method: 'POST', body, redirect: 'manual' })
    const paths = answer.headers
      .getSetCookie()
      .map(one => /Path=([^;]+); HttpOnly; SameSite=Lax$/.exec(one)?.[1])
    return [answer.status, answer.headers.get('location'), paths]
  }
  const OPERATORS = ['/report', '/queues', '/companies']
  const reads = worker.keyOf('acme', ['read'])
  const operates = worker.keyOf('*', ['operate'])
  expect(await signIn(reads)).toEqual([303, '/editais/hoje', ['/editais']])
  expect(await signIn(reads, '/queues')).toEqual([403, null, []])
  expect(await signIn(operates)).toEqual([303, '/report', OPERATORS])
  expect(await signIn(operates, '/queues/queue/runs?status=failed')).toEqual([
    ...[303, '/queues/queue/runs?status=failed', OPERATORS],
  ])
  expect(await signIn(operates, '/editais/1')).toEqual([403, null, []])
  expect(await signIn(TOKEN, '/queues')).toEqual([303, '/queues', OPERATORS])
  const both = worker.keyOf('acme', ['read', 'watch'])
  expect(await signIn(both)).toEqual([303, '/editais/hoje', ['/editais', ...OPERATORS]])
  expect(await signIn(worker.keyOf('acme', ['feed']))).toEqual([403, null, []])
  for (const para of ['//evil.example/queues', '/.//evil.example/queues', '/queuesx', '/metrics'])
    expect(await signIn(operates, para)).toEqual([303, '/report', OPERATORS])

  const inCookie = { ...browser, ...cookie(operates) }
  for (const [path, cached] of Object.entries({ '/report': 'no-store', '/queues': 'private' }))
    expect((await fetch(worker.url + path, { headers: inCookie })).headers.get('cache-control')).toBe(cached)
  const leaving = await fetch(`${worker.url}/editais/sair`, { method: 'POST', redirect: 'manual' })
  expect(leaving.headers.getSetCookie()).toHaveLength(4)
  // A revoked key leads to the form again, and is in no log.
  worker.withKeys(keys => keys.revoke(operates.slice(0, 12), new Date()))
  const after = await fetch(`${worker.url}/report`, { headers: inCookie, redirect: 'manual' })
  expect(after.headers.get('location')).toBe('/editais/entrar?para=%2Freport')
  // The browser forgets it: a page of the queues that is open would make its address wait. A program has nothing to forget.
  const forgotten = OPERATORS.map(path => `editais_chave=; Max-Age=0; Path=${path}`)
  expect(after.headers.getSetCookie()).toEqual(forgotten)
  const polling = await fetch(`${worker.url}/queues/api/queues`, { headers: cookie(operates) })
  expect([polling.status, polling.headers.getSetCookie()]).toEqual([401, forgotten])
  const program = await fetch(`${worker.url}/queues`, { headers: bearer(operates) })
  expect([program.status, program.headers.getSetCookie()]).toEqual([401, []])
  expect(worker.logged.join('')).not.toContain(operates)
})

test('ADMIN_TOKEN works while the keys cannot be read, and is still not guessed without limit', async () => {
  const worker = await serveWorker()
  const made = worker.keyOf('*', ['operate'])
  for (const ending of ['-wal', '-shm'])
    await rm(join(worker.dataDir, `api_keys.sqlite${ending}`), { force: true })
  await writeFile(join(worker.dataDir, 'new'), 'no database')
  await rename(join(worker.dataDir, 'new'), join(worker.dataDir, 'api_keys.sqlite'))
  expect((await worker.post(SYNC)).status).toBe(202)
  expect((await fetch(`${worker.url}${STATUS}`, { headers: bearer(made) })).status).toBe(503)
  const guess = async () => (await fetch(`${worker.url}${STATUS}`, { headers: bearer('a-guess') })).status
  for (let n = 0; n < 10; n += 1) expect(await guess()).toBe(401)
  expect(await guess()).toBe(429)
})

test.each([
  [{ ADMIN_TOKEN: 'short' }, 'ADMIN_TOKEN has 5 characters'],
  [{ ADMIN_TOKEN: '0123456789abcde' }, 'ADMIN_TOKEN has 15 characters'],
  [{ ADMIN_TOKENS_FILE: '/etc/tokens' }, /^ADMIN_TOKENS_FILE is no longer read: .* `editais keys create /],
])(
  'a token that is too short, or a file of them, is refused at the start: %j',
  (environment: Environment, expected) => {
    expect(() => readDaemonSettings(environment)).toThrow(expected)
    if (environment.ADMIN_TOKEN)
      expect(() => readDaemonSettings(environment)).not.toThrow(environment.ADMIN_TOKEN)
  },
)
