import { describe, expect, test } from 'vitest'
import { createStrikes, noFaults, parseFault } from '#src/sandbox/faults.ts'
import type { SandboxRequest } from '#src/sandbox/requests.ts'
import { openSandbox, pageOf } from '#test/support/sandbox.ts'

async function bytesOf(response: Response): Promise<Buffer> {
  return Buffer.from(await response.arrayBuffer())
}

/** The system error code with which a request failed. */
async function failure(request: Promise<unknown>): Promise<unknown> {
  const error = await request.then(
    () => new Error('the request succeeded'),
    (error: Error) => error,
  )
  return (error.cause as { code?: unknown } | undefined)?.code ?? error.message
}

describe('a fault', () => {
  test('latency delays an answer, and does not change it', async () => {
    const { get, sandbox } = await openSandbox()
    sandbox.faults.plan = [{ fault: 'latency', ms: 60 }]
    const startedAt = performance.now()
    expect((await get()).status).toBe(200)
    // Timers may fire a millisecond early.
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(59)
    sandbox.faults.plan = [{ fault: 'latency', ms: 0, toMs: 3 }]
    expect((await get()).status).toBe(200)
  })

  test('status answers in place of the API, with Retry-After in seconds or as a date', async () => {
    const { get, sandbox } = await openSandbox()
    sandbox.faults.plan = [{ fault: 'status', status: 429, retryAfterSeconds: 7 }]
    const limited = await get()
    expect([limited.status, limited.headers.get('retry-after')]).toEqual([429, '7'])
    expect(await limited.json()).toEqual({ error: 'too_many_requests' })

    sandbox.faults.plan = [{ fault: 'status', status: 503, retryAfterSeconds: 3600, retryAfterAs: 'date' }]
    const unavailable = await get()
    expect(unavailable.status).toBe(503)
    const waitMs = Date.parse(unavailable.headers.get('retry-after') ?? '') - Date.now()
    expect(waitMs).toBeGreaterThan(3_590_000)
    expect(waitMs).toBeLessThanOrEqual(3_600_000)
  })

  test('status can send HTML, like a proxy', async () => {
    const { get, sandbox } = await openSandbox()
    sandbox.faults.plan = [{ fault: 'status', status: 502, body: 'html' }]
    const response = await get()
    expect([response.status, response.headers.get('content-type')]).toEqual([502, 'text/html; charset=utf-8'])
    expect(response.headers.has('retry-after')).toBe(false)
    expect(await response.text()).toContain('<h1>502</h1>')
  })

  test('reset cuts the connection before the headers or in the middle of the body', async () => {
    const { get, sandbox } = await openSandbox()
    sandbox.faults.plan = [{ fault: 'reset', when: 'before_headers' }]
    expect(await failure(get())).toMatch(/ECONNRESET|UND_ERR_SOCKET/)
    sandbox.faults.plan = [{ fault: 'reset', when: 'mid_body' }]
    const response = await get()
    expect(response.status).toBe(200)
    expect(await failure(response.text())).toMatch(/ECONNRESET|UND_ERR_SOCKET/)
    sandbox.faults.plan = []
    expect((await get()).status).toBe(200)
  })

  test('truncate sends half of the JSON in a complete message', async () => {
    const { get, sandbox } = await openSandbox()
    const whole = await (await get()).text()
    sandbox.faults.plan = [{ fault: 'truncate' }]
    const response = await get()
    const text = await response.text()
    expect(response.status).toBe(200)
    expect(whole.startsWith(text)).toBe(true)
    expect(() => JSON.parse(text)).toThrow(SyntaxError)
  })

  test('mutate changes the document, and gets the request', async () => {
    const { get, sandbox, world } = await openSandbox()
    const [id = ''] = world.ids()
    sandbox.faults.plan = [
      {
        fault: 'mutate',
        kinds: ['notice'],
        mutate: (body, request) => ({ ...(body as object), uf: [request.id] }),
      },
    ]
    expect(await (await get(`/${id}`)).json()).toMatchObject({ id, uf: [id] })
    expect((await pageOf(await get())).editais.find(edital => edital.id === id)).toEqual(
      world.entry(id)?.edital,
    )
  })

  test('ignore_offset answers every page with the first one', async () => {
    const { get, sandbox } = await openSandbox()
    const first = await pageOf(await get('?limit=5'))
    sandbox.faults.plan = [{ fault: 'ignore_offset' }]
    expect(await pageOf(await get('?limit=5&offset=10'))).toEqual(first)
  })

  test('clamp_limit makes pages smaller than requested, never larger', async () => {
    const { get, sandbox } = await openSandbox()
    sandbox.faults.plan = [{ fault: 'clamp_limit', max: 4 }]
    expect(await pageOf(await get('?limit=10&offset=2'))).toMatchObject({ count: 4, limit: 4, offset: 2 })
    expect(await pageOf(await get('?limit=3'))).toMatchObject({ count: 3, limit: 3 })
    expect(await pageOf(await get())).toMatchObject({ count: 4, limit: 4 })
  })

  test('total reports a wrong number of notices', async () => {
    const { get, sandbox } = await openSandbox()
    sandbox.faults.plan = [{ fault: 'total', by: -5 }]
    expect(await pageOf(await get('?limit=200'))).toMatchObject({ count: 30, total: 25 })
  })

  test('hang never answers', async () => {
    const { sandbox, key } = await openSandbox()
    sandbox.faults.plan = [{ fault: 'hang' }]
    const request = fetch(`${sandbox.url}/api/v1/editais`, {
      headers: { 'x-api-key': key },
      signal: AbortSignal.timeout(80),
    })
    await expect(request).rejects.toMatchObject({ name: 'TimeoutError' })
    expect(sandbox.requests.byStatus.size).toBe(0)
  })

  test('oversize sends the requested amount of JSON, without a Content-Length', async () => {
    const { get, sandbox } = await openSandbox()
    sandbox.faults.plan = [{ fault: 'oversize', bytes: 300_000 }]
    const response = await get()
    expect(response.headers.has('content-length')).toBe(false)
    const bytes = await bytesOf(response)
    expect(bytes.length).toBe(300_000)
    expect(Object.keys(JSON.parse(bytes.toString()))).toEqual(['padding'])
  })

  test('redirect points to the same path at another origin', async () => {
    const { get, sandbox } = await openSandbox()
    sandbox.faults.plan = [{ fault: 'redirect', origin: 'http://127.0.0.1:9' }]
    const response = await get('?limit=2')
    expect([response.status, response.headers.get('location')]).toEqual([
      302,
      'http://127.0.0.1:9/api/v1/editais?limit=2',
    ])
  })

  test('pretty and bom change the bytes but not the meaning', async () => {
    const { get, sandbox } = await openSandbox()
    const plain = await pageOf(await get())
    sandbox.faults.plan = [{ fault: 'bom' }, { fault: 'pretty' }]
    const bytes = await bytesOf(await get())
    expect(bytes.subarray(0, 3)).toEqual(Buffer.from([0xef, 0xbb, 0xbf]))
    expect(bytes.subarray(3).toString()).toBe(JSON.stringify(plain, null, 2))
  })

  test('that changes answers leaves refusals as they are', async () => {
    const { get, sandbox } = await openSandbox()
    sandbox.faults.plan = [{ fault: 'truncate' }]
    expect(await (await get('/unknown')).text()).toBe('{"error":"not_found"}')
  })
})

describe('the scope of a fault', () => {
  test('can be kinds, ids and a company', async () => {
    const { get, sandbox, world, other } = await openSandbox()
    const [id = '', second = ''] = world.ids()
    const statuses = async () => [
      (await get()).status,
      (await get(`/${id}`)).status,
      (await get(`/${id}/analysis`)).status,
      (await get(`/${second}/analysis`)).status,
      (await get('', { 'x-api-key': other.key })).status,
    ]
    sandbox.faults.plan = [{ fault: 'status', status: 500, kinds: ['analysis'] }]
    expect(await statuses()).toEqual([200, 200, 500, 500, 200])
    sandbox.faults.plan = [{ fault: 'status', status: 500, ids: [id] }]
    expect(await statuses()).toEqual([200, 500, 500, 200, 200])
    sandbox.faults.plan = [{ fault: 'status', status: 500, company: 'boreal' }]
    expect(await statuses()).toEqual([200, 200, 200, 200, 500])
  })

  test('can be the first requests, or those after the first', async () => {
    const { get, sandbox } = await openSandbox()
    sandbox.faults.plan = [{ fault: 'status', status: 500, kinds: ['list'], skip: 1, first: 2 }]
    const statuses: number[] = []
    for (let count = 0; count < 5; count += 1) statuses.push((await get()).status)
    expect(statuses).toEqual([200, 500, 500, 200, 200])
  })

  test('can be a share, which depends on the request and not on the order of arrival', () => {
    const requests = Array.from({ length: 1000 }, (_, index) => request(`n${index}`))
    const struck = (seed: number, order: readonly SandboxRequest[]) => {
      const faults = { ...noFaults(), plan: [{ fault: 'hang', probability: 0.2 } as const] }
      const strikes = createStrikes(faults, seed)
      return new Set(order.filter(one => strikes(one).length > 0).map(({ id }) => id))
    }
    const some = struck(1, requests)
    expect(some.size).toBeGreaterThan(150)
    expect(some.size).toBeLessThan(250)
    expect(struck(1, requests.toReversed())).toEqual(some)
    expect(struck(2, requests)).not.toEqual(some)
  })

  test('by share spares a repeated request sooner or later', () => {
    const strikes = createStrikes({ ...noFaults(), plan: [{ fault: 'hang', probability: 0.5 }] })
    const outcomes = Array.from({ length: 40 }, () => strikes(request('same')).length)
    expect(new Set(outcomes)).toEqual(new Set([0, 1]))
  })
})

describe('hooks', () => {
  test('onRequest may change the world between two requests', async () => {
    const { get, sandbox, world } = await openSandbox()
    const [id = ''] = world.ids()
    sandbox.faults.onRequest = async ({ kind, offset }) => {
      await Promise.resolve()
      if (kind === 'list' && offset === 10) world.remove(id)
    }
    expect((await pageOf(await get('?limit=10'))).total).toBe(30)
    expect((await pageOf(await get('?limit=10&offset=10'))).total).toBe(29)
  })

  test('respond sends its own bytes for the requests that it selects', async () => {
    const { get, sandbox, world } = await openSandbox()
    const [id = ''] = world.ids()
    const body = Buffer.from([0x7b, 0xff, 0x00])
    sandbox.faults.respond = ({ kind, company, limit }) =>
      kind === 'analysis' && company === 'aurora' && limit === null
        ? { status: 200, headers: { 'x-odd': 'yes' }, body }
        : undefined
    const response = await get(`/${id}/analysis`)
    expect([response.status, response.headers.get('x-odd')]).toEqual([200, 'yes'])
    expect(await bytesOf(response)).toEqual(body)
    expect(await (await get(`/${id}`)).json()).toMatchObject({ id })
  })

  test('that fail are reported to the client', async () => {
    const { get, sandbox } = await openSandbox()
    sandbox.faults.onRequest = () => Promise.reject(new Error('the test is wrong'))
    const response = await get()
    expect(response.status).toBe(500)
    expect(await response.json()).toEqual({ error: 'internal_error', detail: 'the test is wrong' })
  })
})

describe('a fault on the command line', () => {
  test.each([
    ['latency=50', { fault: 'latency', ms: 50 }],
    ['latency=20-80,kind=list', { fault: 'latency', ms: 20, toMs: 80, kinds: ['list'] }],
    [
      'status=429,retry_after=2,as=date,first=3,skip=1',
      {
        fault: 'status',
        status: 429,
        retryAfterSeconds: 2,
        retryAfterAs: 'date',
        body: 'json',
        first: 3,
        skip: 1,
      },
    ],
    ['reset', { fault: 'reset', when: 'before_headers' }],
    ['reset=mid_body,id=abc', { fault: 'reset', when: 'mid_body', ids: ['abc'] }],
    ['truncate,probability=0.25', { fault: 'truncate', probability: 0.25 }],
    ['ignore_offset', { fault: 'ignore_offset' }],
    ['clamp_limit=20', { fault: 'clamp_limit', max: 20 }],
    ['total=-1', { fault: 'total', by: -1 }],
    ['hang,company=aurora', { fault: 'hang', company: 'aurora' }],
    ['oversize=1000', { fault: 'oversize', bytes: 1000 }],
    ['redirect=http://127.0.0.1:9/x', { fault: 'redirect', origin: 'http://127.0.0.1:9' }],
    ['pretty', { fault: 'pretty' }],
    ['bom', { fault: 'bom' }],
  ])('%s is accepted', (text, fault) => {
    expect(parseFault(text)).toEqual(fault)
  })

  test('wrong_type changes the type of a field in every listed notice', async () => {
    const { get, sandbox, world } = await openSandbox()
    sandbox.faults.plan = [
      parseFault('wrong_type=participation_confirmed'),
      parseFault('wrong_type=uf,kind=notice'),
    ]
    const { editais } = await pageOf(await get())
    expect(editais).toHaveLength(30)
    for (const edital of editais)
      expect(edital).toMatchObject({ participation_confirmed: expect.stringMatching(/^(true|false)$/) })
    expect(await (await get(`/${world.ids()[0]}`)).json()).toMatchObject({ uf: 2 })
  })

  test.each([
    ['explode', /^There is no fault "explode"; use one of latency, .*bom\.$/],
    ['constructor', /^There is no fault "constructor"/],
    ['latency=fast', '"fast" is not MS or MS-MS.'],
    ['status=1000', '"1000" is not a whole number from 200 to 599.'],
    ['status=', '"" is not a whole number from 200 to 599.'],
    ['reset=later', '"later" is not one of before_headers, mid_body.'],
    ['hang,probability=2', '"2" is not a number from 0 to 1.'],
    ['hang,kind=page', '"page" is not one of list, notice, analysis.'],
    ['hang,retry_after=1', 'The fault "hang" does not take "retry_after".'],
    ['wrong_type', 'needs a field.'],
    ['redirect=nowhere', '"nowhere" is not a URL.'],
  ])('%s is refused in one sentence', (text, message) => {
    expect(() => parseFault(text)).toThrow(message)
  })
})

function request(id: string): SandboxRequest {
  return {
    kind: 'analysis',
    company: 'aurora',
    id,
    offset: null,
    limit: null,
    statuses: null,
    headersSeen: ['x-api-key'],
    address: null,
    connection: 1,
    at: new Date(0),
  }
}
