import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { Hono } from 'hono'
import { expect, onTestFinished, test } from 'vitest'
import { startHttp } from '#jobs/http.ts'
import { requestRun } from '#jobs/queue.ts'
import { EXIT, FatalError } from '#src/errors.ts'
import { askWith, leaveSnapshot, serveWorker, TOKEN, type Worker } from '#test/support/http.ts'
import { temporaryDirectory } from '#test/support/project.ts'
import { canOwnRedis, openRedis, startOwnRedis, startProxy, withClient } from '#test/support/redis.ts'

const SYNC = '/companies/acme/sync'
const STATUS = '/companies/acme/status'
const basic = (user: string, password: string) => ({
  authorization: `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`,
})

async function errorOf(response: Response): Promise<{ error: string; detail: string }> {
  expect(response.headers.get('content-type')).toMatch(/^application\/json/)
  return (await response.json()) as { error: string; detail: string }
}

test('what there is, is told to everybody', async () => {
  const { url } = await serveWorker()
  const response = await fetch(url)
  expect(response.status).toBe(200)
  expect(await response.json()).toMatchObject({
    'GET /healthz': expect.any(String),
    token: expect.any(String),
  })
})

test('nothing is found elsewhere, and a wrong method is told the right ones', async () => {
  const { url, ask, post } = await serveWorker()
  const nowhere = await fetch(`${url}/nowhere`)
  expect(nowhere.status).toBe(404)
  expect(await errorOf(nowhere)).toEqual({
    error: 'not_found',
    detail: 'There is nothing at /nowhere. GET / says what there is.',
  })
  const wrong = await post('/metrics')
  expect([wrong.status, wrong.headers.get('allow')]).toEqual([405, 'GET, HEAD'])
  expect((await errorOf(wrong)).detail).toBe('POST is not for /metrics; it takes GET, HEAD.')
  const got = await ask(SYNC)
  expect([got.status, got.headers.get('allow')]).toEqual([405, 'POST'])
  expect((await ask('/companies/acme')).status).toBe(404)
})

test('with or without a slash at the end', async () => {
  const { ask } = await serveWorker()
  for (const path of ['/healthz/', '/queues', '/queues/', `${STATUS}/`]) {
    expect([path, (await ask(path)).status]).not.toEqual([path, 404])
  }
})

test('a fault is logged, and told without a stack', async () => {
  const { ask, company, logged } = await serveWorker({
    status: () => Promise.reject(new TypeError('fruit is undefined')),
  })
  await leaveSnapshot(company('acme'))
  const response = await ask(STATUS)
  expect(response.status).toBe(500)
  expect(await errorOf(response)).toEqual({
    error: 'internal_error',
    detail: 'Something went wrong; see the log.',
  })
  expect(logged.join('')).toContain('fruit is undefined')
  expect(logged.join('')).not.toContain('.ts:')
})

test('a port that is taken is told in one sentence', async () => {
  const taken = createServer().listen(0, '127.0.0.1')
  onTestFinished(() => void taken.close())
  await new Promise(resolve => taken.once('listening', resolve))
  const { port } = taken.address() as { port: number }
  const failure = await startHttp(new Hono(), { host: '127.0.0.1', port }).catch(error => error)
  expect(failure).toBeInstanceOf(FatalError)
  expect(failure).toMatchObject({
    exitCode: EXIT.usage,
    message: `Port ${port} of 127.0.0.1 is already in use: does another worker run here? Set HTTP_PORT to another.`,
  })
  const elsewhere = await startHttp(new Hono(), { host: '192.0.2.1', port: 0 }).catch(error => error)
  expect(elsewhere).toMatchObject({ exitCode: EXIT.usage, message: expect.stringContaining('HTTP_HOST') })
})

test('closing does not wait for a request that does not end', async () => {
  const hanging = new Hono().get('/', () => new Promise<Response>(() => {}))
  const { url, close } = await startHttp(hanging, { host: '127.0.0.1', port: 0 })
  const asked = fetch(url).catch(error => error)
  const late = fetch(url).catch(error => error)
  await expect.poll(() => Promise.race([asked, late, 'under way'])).toBe('under way')
  await close()
  expect(await asked).toBeInstanceOf(Error)
  await expect(fetch(url)).rejects.toThrow()
})

test.each([
  ['no token', {}],
  ['a wrong token', { authorization: 'Bearer tok_7d1e0a52c9f84b37' }],
  ['a part of the token', { authorization: `Bearer ${TOKEN.slice(0, -1)}` }],
  ['an empty token', { authorization: 'Bearer ' }],
  ['a wrong password', basic('admin', 'secret')],
  ['the token as the user', basic(TOKEN, '')],
  ['no credentials that can be read', { authorization: 'Basic !!!' }],
  ['another scheme', { authorization: `Digest ${TOKEN}` }],
])('with %s nothing is shown and nothing done', async (_, headers: Record<string, string>) => {
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
  ['the same in other case', { authorization: `bearer  ${TOKEN}` }],
  ['the password of a user', basic('anybody', TOKEN)],
  ['the password of nobody', basic('', TOKEN)],
])('the token opens as %s', async (_, headers) => {
  const { url } = await serveWorker()
  expect((await fetch(`${url}${SYNC}`, { method: 'POST', headers })).status).toBe(202)
})

test.each([[null], ['']])('without a token (%j) what needs it is off, and says so', async adminToken => {
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
  expect(await (await ask('/')).json()).toMatchObject({ token: expect.stringContaining('are off') })
})

test.each([
  ['a page of another site', { 'sec-fetch-site': 'cross-site' }, 403],
  ['a page of a neighbour', { 'sec-fetch-site': 'same-site' }, 403],
  ['an old browser on another site', { origin: 'https://evil.example' }, 403],
  ['a page without an origin', { origin: 'null' }, 403],
  ['a page of another port', { origin: 'http://127.0.0.1:9' }, 403],
  ['a page of ours', { 'sec-fetch-site': 'same-origin', origin: 'https://ops.example' }, 202],
  ['the address bar', { 'sec-fetch-site': 'none' }, 202],
])('what %s asks for is answered with the right status', async (_, headers, status) => {
  const { url, queues } = await serveWorker()
  const given = { ...basic('admin', TOKEN), ...headers }
  expect(await askWith(`${url}${SYNC}`, { method: 'POST', headers: given })).toBe(status)
  if (status === 202) return
  expect(await queues.runs.count()).toBe(0)
  expect(await askWith(`${url}/queues/api/queues/runs/pause`, { method: 'PUT', headers: given })).toBe(403)
  expect(await queues.runs.isPaused()).toBe(false)
})

test('an old browser on a page of ours may ask', async () => {
  const { url } = await serveWorker()
  const headers = { ...basic('admin', TOKEN), origin: url }
  expect(await askWith(`${url}${SYNC}`, { method: 'POST', headers })).toBe(202)
})

test('a run is asked for, with or without a body', async () => {
  const asked: unknown[] = []
  const { post, logged } = await serveWorker({
    async requestSync(company, options) {
      asked.push({ company, ...options })
      return { job: String(asked.length) }
    },
  })
  const answers = []
  for (const body of [undefined, '', '{}', '{"full": false}', ' {"full": true}\n']) {
    const response = await post(SYNC, body)
    answers.push([response.status, await response.json()])
  }
  expect(answers).toEqual([
    [202, { company: 'acme', full: false, job: '1' }],
    [202, { company: 'acme', full: false, job: '2' }],
    [202, { company: 'acme', full: false, job: '3' }],
    [202, { company: 'acme', full: false, job: '4' }],
    [202, { company: 'acme', full: true, job: '5' }],
  ])
  expect(asked.at(-1)).toEqual({ company: 'acme', full: true })
  expect(logged.at(-1)).toContain('"company":"acme","job":"5","full":true')
  expect(
    (await post(SYNC, '{"full":true}', { 'content-type': 'application/json; charset=utf-8' })).status,
  ).toBe(202)
})

test.each([
  ['a text instead of true', '{"full": "true"}', 400],
  ['a number', '{"full": 1}', 400],
  ['null instead of a value', '{"full": null}', 400],
  ['a misspelt name', '{"ful": true}', 400],
  ['a name more', '{"full": true, "restart": true}', 400],
  ['a list', '[]', 400],
  ['null', 'null', 400],
  ['no object', 'true', 400],
  ['half a document', '{"full": tru', 400],
  ['a form', 'full=true', 400],
  ['more than 10 kB', `{"full": true${' '.repeat(10_000)}}`, 413],
])('no run is asked for by %s', async (_, body, status) => {
  const { post, queues } = await serveWorker()
  const response = await post(SYNC, body)
  expect(response.status).toBe(status)
  expect((await errorOf(response)).detail).toMatch(/^[^\n]+\.$/)
  expect(await queues.runs.count()).toBe(0)
})

test.each([['text/plain'], ['application/x-www-form-urlencoded'], ['multipart/form-data; boundary=x'], ['']])(
  'a body of type %j, as a form of another site could send it, is refused',
  async type => {
    const { post, queues } = await serveWorker()
    const response = await post(SYNC, '{"full": true}', type ? { 'content-type': type } : {})
    expect(response.status).toBe(415)
    expect(await queues.runs.count()).toBe(0)
  },
)

test('a body of no given length is bounded too', async () => {
  const { url, queues } = await serveWorker()
  const body = new ReadableStream({
    pull: controller => controller.enqueue(new TextEncoder().encode(' '.repeat(1000))),
  })
  const response = await fetch(`${url}${SYNC}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' },
    body,
    duplex: 'half',
  } as RequestInit).catch(error => error)
  // Node may close the connection before all was sent.
  if (response instanceof Response) expect(response.status).toBe(413)
  expect(await queues.runs.count()).toBe(0)
})

test('a company that is not configured is told with those that are', async () => {
  const { post, ask, configure } = await serveWorker()
  for (const response of [await post('/companies/gamma/sync'), await ask('/companies/gamma/status')]) {
    expect(response.status).toBe(404)
    expect((await errorOf(response)).detail).toBe('gamma is not configured. Known: acme, beta.')
  }
  await configure([])
  expect((await errorOf(await post(SYNC))).detail).toBe('acme is not configured. No company is.')
})

test('before a snapshot there is no status', async () => {
  const { ask, company } = await serveWorker()
  const response = await ask(STATUS)
  expect(response.status).toBe(409)
  expect((await errorOf(response)).detail).toContain('acme has no snapshot yet')
  await leaveSnapshot(company('acme'))
  const after = await ask(STATUS)
  expect([after.status, after.headers.get('content-type')]).toEqual([200, 'application/json'])
  expect(await after.json()).toEqual({ company: 'acme' })
})

test('a status that cannot be read is told in its own sentence', async () => {
  const { ask, company } = await serveWorker({
    status: () => Promise.reject(new FatalError('acme: the snapshot was moved.')),
  })
  await leaveSnapshot(company('acme'))
  const response = await ask(STATUS)
  expect(response.status).toBe(500)
  expect((await errorOf(response)).detail).toBe('acme: the snapshot was moved.')
})

test('equal questions are one, and at most two are looked after at a time', async () => {
  const companies = ['acme', 'beta', 'gamma', 'delta']
  const asked: string[] = []
  const answers: (() => void)[] = []
  const { ask, company } = await serveWorker({
    companies,
    status(slug) {
      asked.push(slug)
      return new Promise(resolve => answers.push(() => resolve(JSON.stringify({ company: slug }))))
    },
  })
  for (const slug of companies) await leaveSnapshot(company(slug))
  const responses = [...companies, ...companies].map(slug => ask(`/companies/${slug}/status`))
  await expect.poll(() => asked.length).toBe(2)
  while (answers.length > 0) {
    answers.shift()?.()
    if (asked.length < companies.length) {
      const before = asked.length
      await expect.poll(() => asked.length).toBe(before + 1)
    }
    expect(answers.length).toBeLessThanOrEqual(2)
  }
  const told = await Promise.all((await Promise.all(responses)).map(response => response.json()))
  expect(told).toEqual([...companies, ...companies].map(company => ({ company })))
  expect(asked.toSorted()).toEqual(companies.toSorted())
})

test('a question that fails leaves its place, and is asked anew', async () => {
  let failures = 3
  const { ask, company } = await serveWorker({
    async status(slug) {
      failures -= 1
      if (failures >= 0) throw new FatalError('not now.')
      return JSON.stringify({ company: slug })
    },
  })
  await leaveSnapshot(company('acme'))
  const statuses = []
  for (let i = 0; i < 4; i++) statuses.push((await ask(STATUS)).status)
  expect(statuses).toEqual([500, 500, 500, 200])
})

test('alive needs nothing, ready needs all', async () => {
  const { url, configure } = await serveWorker()
  expect(await (await fetch(`${url}/healthz`)).json()).toEqual({ alive: true })
  const ready = await fetch(`${url}/readyz`)
  expect(ready.status).toBe(200)
  expect(await ready.json()).toEqual({
    ready: true,
    checks: { redis: { ok: true }, directories: { ok: true }, configuration: { ok: true } },
  })
  await configure([])
  const without = await fetch(`${url}/readyz`)
  expect(without.status).toBe(503)
  expect(await without.json()).toMatchObject({
    ready: false,
    checks: { configuration: { ok: false, detail: expect.stringContaining('No company is configured') } },
  })
})

test('a companies file that cannot be used, or a data directory, makes a worker not ready', async () => {
  const directory = await temporaryDirectory()
  const file = join(directory, 'file')
  await writeFile(file, '')
  for (const dataDir of [file, join(file, 'below')]) {
    const { url, configure } = await serveWorker({ dataDir })
    await configure(['ACME!'])
    const response = await fetch(`${url}/readyz`)
    expect(response.status).toBe(503)
    expect(await response.json()).toEqual({
      ready: false,
      checks: {
        redis: { ok: true },
        directories: { ok: false, detail: expect.stringContaining(`${dataDir} `) },
        configuration: { ok: false, detail: expect.stringContaining('ACME!') },
      },
    })
  }
})

async function expectAway({ url, ask, post }: Worker): Promise<void> {
  const started = Date.now()
  const [alive, ready, metrics, sync, board] = await Promise.all([
    fetch(`${url}/healthz`),
    fetch(`${url}/readyz`),
    fetch(`${url}/metrics`),
    post(SYNC),
    ask('/queues/api/queues'),
  ])
  expect(Date.now() - started).toBeLessThan(15_000)
  expect([alive, ready, metrics, sync, board].map(({ status }) => status)).toEqual([200, 503, 200, 503, 503])
  expect(await ready.json()).toMatchObject({
    checks: { redis: { ok: false, detail: expect.stringContaining('Redis does not answer') } },
  })
  expect((await errorOf(sync)).detail).toContain('Redis does not answer')
  expect((await errorOf(board)).error).toBe('unavailable')
  const text = await metrics.text()
  expect(text).toContain('editais_runs_total{')
  expect(text).not.toContain('editais_queue_jobs{')
}

test('while Redis is away, nobody waits for it, and nothing is done once it is back', async () => {
  const proxy = await startProxy((await openRedis()).url)
  const worker = await serveWorker({ redisUrl: proxy.url })
  await proxy.cut()
  await expect.poll(() => worker.queues.redis.status).not.toBe('ready')
  await expectAway(worker)
  await proxy.mend()
  await expect.poll(async () => (await worker.ask('/readyz')).status, { timeout: 20_000 }).toBe(200)
  expect(await worker.queues.runs.count()).toBe(0)
  expect((await worker.post(SYNC)).status).toBe(202)
  expect(await worker.queues.runs.count()).toBe(1)
})

test.skipIf(!canOwnRedis)('a Redis that does not answer is not waited for either', async () => {
  const { url } = await startOwnRedis()
  const worker = await serveWorker({ redisUrl: url })
  await withClient(url, client => client.client('PAUSE', 60_000, 'ALL'))
  await expectAway(worker)
})

test('the board shows the queues, with all that belongs to it', async () => {
  const { ask, queues } = await serveWorker()
  const { id } = await requestRun(queues, 'sync', 'acme')
  const page = await ask('/queues')
  expect([page.status, page.headers.get('content-type')]).toEqual([200, expect.stringMatching(/^text\/html/)])
  const html = await page.text()
  expect(html).toContain('<base href="/queues/" />')
  const assets = [...html.matchAll(/(?:src|href)="(static\/[^"]+)"/g)].map(([, path]) => path)
  expect(assets.length).toBeGreaterThan(3)
  for (const path of assets) {
    const asset = await ask(`/queues/${path}`)
    expect([path, asset.status]).toEqual([path, 200])
    expect((await asset.bytes()).length).toBeGreaterThan(0)
  }
  const { queues: shown } = (await (await ask('/queues/api/queues')).json()) as { queues: { name: string }[] }
  expect(shown.map(({ name }) => name).toSorted()).toEqual(['runs', 'ticks'])
  const job = await ask(`/queues/api/queues/runs/${id}`)
  expect(await job.json()).toMatchObject({ job: { name: 'sync', data: { company: 'acme' } } })
  expect((await ask('/queues/queue/runs')).status).toBe(200)
})

test('on the board a job can be removed; what it does not have is not found', async () => {
  const { ask, queues } = await serveWorker()
  const { id } = await requestRun(queues, 'sync', 'acme')
  expect((await ask(`/queues/api/queues/runs/${id}/clean`, { method: 'PUT' })).status).toBe(204)
  expect(await queues.runs.count()).toBe(0)
  for (const path of [
    '/queues/nowhere',
    '/queues/static/nowhere.js',
    '/queues/static/..%2f..%2fpackage.json',
  ]) {
    const response = await ask(path)
    expect([path, response.status]).toEqual([path, 404])
    expect((await errorOf(response)).error).toBe('not_found')
  }
})

test('no page may frame it, and none of its scripts comes from elsewhere', async () => {
  const { ask } = await serveWorker()
  for (const path of ['/', '/queues', '/queues/static/favicon.ico', '/nowhere', '/metrics']) {
    const { headers } = await ask(path)
    expect(headers.get('content-security-policy')).toMatch(/^default-src 'self';.*frame-ancestors 'none'/)
    expect(headers.get('x-content-type-options')).toBe('nosniff')
    expect(headers.get('x-frame-options')).toBe('DENY')
    expect(headers.get('strict-transport-security')).toBeNull()
    expect(headers.get('access-control-allow-origin')).toBeNull()
  }
})
