import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { FatalError } from '#src/lib/errors.ts'
import { errorOf, leaveSnapshot, STATUS, SYNC, serveWorker, TOKEN } from '#test/support/http.ts'

test('a run can be requested with or without a body', async () => {
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
  expect(logged.at(-2)).toContain('"company":"acme","job":"5","full":true')
  expect(
    (await post(SYNC, '{"full":true}', { 'content-type': 'application/json; charset=utf-8' })).status,
  ).toBe(202)
})

test.each([
  ['a string instead of true', '{"full": "true"}', 400],
  ['a number', '{"full": 1}', 400],
  ['null instead of a value', '{"full": null}', 400],
  ['a misspelt property', '{"ful": true}', 400],
  ['an extra property', '{"full": true, "restart": true}', 400],
  ['a list', '[]', 400],
  ['null', 'null', 400],
  ['no object', 'true', 400],
  ['half a document', '{"full": tru', 400],
  ['a form', 'full=true', 400],
  ['more than 10 kB', `{"full": true${' '.repeat(10_000)}}`, 413],
])('%s requests no run', async (_, body, status) => {
  const { post, queues } = await serveWorker()
  const response = await post(SYNC, body)
  expect(response.status).toBe(status)
  expect((await errorOf(response)).detail).toMatch(/^[^\n]+\.$/)
  expect(await queues.runs.count()).toBe(0)
})

test.each([['text/plain'], ['application/x-www-form-urlencoded'], ['multipart/form-data; boundary=x'], ['']])(
  'a body of type %j, which a form of another site can send, is refused',
  async type => {
    const { post, queues } = await serveWorker()
    const response = await post(SYNC, '{"full": true}', type ? { 'content-type': type } : {})
    expect(response.status).toBe(415)
    expect(await queues.runs.count()).toBe(0)
  },
)

test('a body without a length is limited too', async () => {
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
  // Node may close the connection before everything is sent.
  if (response instanceof Response) expect(response.status).toBe(413)
  expect(await queues.runs.count()).toBe(0)
})

test('a company that is not configured is answered with the configured ones', async () => {
  const { post, ask, configure } = await serveWorker()
  for (const response of [await post('/companies/gamma/sync'), await ask('/companies/gamma/status')]) {
    expect(response.status).toBe(404)
    expect((await errorOf(response)).detail).toBe('gamma is not configured. Known: acme, beta.')
  }
  await configure([])
  expect((await errorOf(await post(SYNC))).detail).toBe('acme is not configured. No company is configured.')
})

test('there is no status before the first snapshot', async () => {
  const { ask, company } = await serveWorker()
  const response = await ask(STATUS)
  expect(response.status).toBe(409)
  expect((await errorOf(response)).detail).toContain('acme has no snapshot yet')
  await leaveSnapshot(company('acme'))
  const after = await ask(STATUS)
  expect([after.status, after.headers.get('content-type')]).toEqual([200, 'application/json'])
  expect(await after.json()).toEqual({ company: 'acme' })
})

test('an unreadable status is answered with its own message', async () => {
  const { ask, company } = await serveWorker({
    status: () => Promise.reject(new FatalError('acme: the snapshot was moved.')),
  })
  await leaveSnapshot(company('acme'))
  const response = await ask(STATUS)
  expect(response.status).toBe(500)
  expect((await errorOf(response)).detail).toBe('acme: the snapshot was moved.')
})

test('equal status requests share one computation, and at most two run at a time', async () => {
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
  // A request that arrives after its equal was answered would start a new computation.
  await sleep(500)
  while (answers.length > 0) {
    answers.shift()?.()
    if (asked.length < companies.length) {
      const before = asked.length
      await expect.poll(() => asked.length).toBe(before + 1)
    }
    expect(answers.length).toBeLessThanOrEqual(2)
  }
  const bodies = await Promise.all((await Promise.all(responses)).map(response => response.json()))
  expect(bodies).toEqual([...companies, ...companies].map(company => ({ company })))
  expect(asked.toSorted()).toEqual(companies.toSorted())
})

test('a failed status request frees its slot, and the next one computes again', async () => {
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
