import { describe, expect, test } from 'vitest'
import { STATUSES } from '#schema/notice.ts'
import { analysis, notice, noticePage } from '#schema/zod.ts'
import { deriveSandboxKey } from '#src/sandbox/server.ts'
import { createApiRoutes, LIST_PATH } from '#src/server/contract/routes.ts'
import { openSandbox, pageOf } from '#test/support/sandbox.ts'

describe('the list (contract 4.1)', () => {
  test('answers with the first 50 notices, and gives that limit', async () => {
    const { get } = await openSandbox({ notices: 60 })
    const page = await pageOf(await get())
    expect(noticePage.safeParse(page).success).toBe(true)
    expect(page).toMatchObject({ count: 50, total: 60, limit: 50, offset: 0 })
    expect(page.editais).toHaveLength(50)
    expect(page.editais.filter(edital => !notice.safeParse(edital).success)).toEqual([])
  })

  test.each([1, 3, 7, 30, 200])('pages of %i together give the whole list, each notice once', async limit => {
    const { get, world } = await openSandbox()
    const ids: string[] = []
    for (let offset = 0; ; offset += limit) {
      const page = await pageOf(await get(`?limit=${limit}&offset=${offset}`))
      expect(page).toMatchObject({ total: 30, limit, offset, count: page.editais.length })
      if (page.count === 0) break
      ids.push(...page.editais.map(({ id }) => id))
    }
    expect(ids).toHaveLength(30)
    expect(new Set(ids)).toEqual(new Set(world.ids()))
  })

  test('puts the most recently created first, ties by id', async () => {
    const { get, world } = await openSandbox()
    const [first = '', second = ''] = world.ids()
    for (const id of [first, second]) world.update(id, { edital: { created_at: '2026-11-21T00:00:00Z' } })
    const { editais } = await pageOf(await get())
    expect(editais.slice(0, 2).map(({ id }) => id)).toEqual([first, second].sort())
    const times = editais.map(edital => Date.parse(edital.created_at))
    expect(times).toEqual(times.toSorted((a, b) => b - a))
  })

  test.each(['updated_at', 'id', 'none'] as const)('can be ordered by %s', async order => {
    const { get, world } = await openSandbox()
    world.setOrder(order)
    const { editais } = await pageOf(await get())
    const ids = editais.map(({ id }) => id)
    if (order === 'id') expect(ids).toEqual(ids.toSorted())
    else if (order === 'none') expect(ids).toEqual(world.ids())
    else {
      const times = editais.map(edital => Date.parse(edital.updated_at))
      expect(times).toEqual(times.toSorted((a, b) => b - a))
    }
  })

  test('shows and counts only the notices of the requested phases', async () => {
    const { get, world } = await openSandbox({ notices: 80 })
    const statusOf = (id: string) => world.entry(id)?.edital.status
    const wanted = world.ids().filter(id => ['screening', 'expired'].includes(statusOf(id) ?? ''))
    expect(wanted.length).toBeGreaterThan(5)
    const page = await pageOf(await get('?status=screening,expired&limit=5'))
    expect(page).toMatchObject({ count: 5, total: wanted.length })
    const rest = await pageOf(await get(`?status=%20screening%20,,expired&limit=200&offset=5`))
    expect(new Set([...page.editais, ...rest.editais].map(({ id }) => id))).toEqual(new Set(wanted))
    expect((await pageOf(await get(`?status=${STATUSES.join(',')}`))).total).toBe(80)
    expect((await pageOf(await get('?status='))).total).toBe(80)
  })

  test('refuses an unknown phase by name', async () => {
    const { get } = await openSandbox()
    const response = await get('?status=ready,won,lost')
    expect(response.status).toBe(400)
    expect(await response.text()).toBe('{"error":"invalid_status","detail":"unknown status: won"}')
    expect((await get('?status=READY')).status).toBe(400)
    // Only plain spaces are allowed around a phase.
    for (const space of ['%09', '%0A', '%C2%A0'])
      expect((await get(`?status=${space}ready`)).status).toBe(400)
  })

  test.each([
    ['limit=0', { limit: 1, offset: 0 }],
    ['limit=-4', { limit: 1, offset: 0 }],
    ['limit=201', { limit: 200, offset: 0 }],
    ['limit=99999999999999999999', { limit: 200, offset: 0 }],
    ['limit=ten', { limit: 50, offset: 0 }],
    ['limit=1.5', { limit: 50, offset: 0 }],
    ['limit=', { limit: 50, offset: 0 }],
    ['offset=-1', { limit: 50, offset: 0 }],
    ['offset=x', { limit: 50, offset: 0 }],
    ['offset=1000', { limit: 50, offset: 1000, count: 0, total: 30 }],
  ])('limits ?%s to its bounds and returns the values that it used', async (query, applied) => {
    const { get } = await openSandbox()
    expect(await pageOf(await get(`?${query}`))).toMatchObject(applied)
  })
})

describe('one notice and its analysis (contract 4.2 and 4.3)', () => {
  test('are what the list shows and what the contract describes', async () => {
    const { get } = await openSandbox()
    for (const listed of (await pageOf(await get('?limit=10'))).editais) {
      expect(await (await get(`/${listed.id}`)).json()).toEqual(listed)
      const document = (await (await get(`/${listed.id}/analysis`)).json()) as Record<string, unknown>
      expect(analysis.safeParse(document).error).toBeUndefined()
      expect(document).toMatchObject({ id: listed.id, status: listed.status })
    }
  })

  test('of another company and unknown ones give the same answer, byte for byte', async () => {
    const { get, other } = await openSandbox()
    const [foreign = ''] = other.world.ids()
    expect((await get(`/${foreign}`, { 'x-api-key': other.key })).status).toBe(200)
    for (const suffix of ['', '/analysis']) {
      const answers = await Promise.all(
        [foreign, 'f'.repeat(32), '..%2F..', '%20'].map(async id => {
          const response = await get(`/${id}${suffix}`)
          const headers = [...response.headers].filter(([name]) => name !== 'date')
          return { status: response.status, headers, body: await response.text() }
        }),
      )
      expect(answers[0]).toMatchObject({ status: 404, body: '{"error":"not_found"}' })
      for (const answer of answers) expect(answer).toEqual(answers[0])
    }
  })

  test('omit fields without a value', async () => {
    const { get, world } = await openSandbox()
    const [id = ''] = world.ids()
    world.update(id, { edital: { uf: undefined } })
    expect(await (await get(`/${id}`)).text()).not.toContain('"uf"')
    expect(await (await get(`/${id}/analysis`)).text()).not.toContain('"uf"')
  })
})

describe('the key (contract 5)', () => {
  test('is accepted in either header, and determines the company', async () => {
    const { get, world, key, other } = await openSandbox()
    const listed = async (headers: Record<string, string>) =>
      new Set((await pageOf(await get('?limit=200', headers))).editais.map(({ id }) => id))
    expect(await listed({ authorization: `Bearer ${key}` })).toEqual(new Set(world.ids()))
    expect(await listed({ authorization: `bearer  ${key}` })).toEqual(new Set(world.ids()))
    expect(await listed({ 'x-api-key': key })).toEqual(new Set(world.ids()))
    expect(await listed({ 'x-api-key': other.key })).toEqual(new Set(other.world.ids()))
  })

  test('may be sent in both headers, but not with different values', async () => {
    const { get, key, other } = await openSandbox()
    expect((await get('', { authorization: `Bearer ${key}`, 'x-api-key': key })).status).toBe(200)
    expect((await get('', { authorization: `Bearer ${key}`, 'x-api-key': other.key })).status).toBe(401)
    expect((await get('', { authorization: `Basic ${key}`, 'x-api-key': key })).status).toBe(401)
  })

  test.each([
    ['missing', {}],
    ['empty', { 'x-api-key': '' }],
    ['unknown', { 'x-api-key': 'edk_nobody' }],
    ['revoked', { 'x-api-key': deriveSandboxKey(7, 'revoked') }],
    ['not a bearer', { authorization: `Token ${deriveSandboxKey(7, 'aurora')}` }],
    ['cut short', { authorization: `Bearer ${deriveSandboxKey(7, 'aurora').slice(0, -1)}` }],
    ['followed by more', { authorization: `Bearer ${deriveSandboxKey(7, 'aurora')} more` }],
  ])('gets 401 on every route if it is %s', async (_name, headers: Record<string, string>) => {
    const { get, world } = await openSandbox()
    for (const path of ['', '?status=won', `/${world.ids()[0]}`, '/unknown/analysis']) {
      const response = await get(path, headers)
      expect(response.status).toBe(401)
      expect(await response.json()).toEqual({ error: 'unauthorized' })
    }
  })

  test('is refused from the moment it is revoked', async () => {
    const { get, sandbox, key } = await openSandbox()
    expect((await get()).status).toBe(200)
    sandbox.revoke(key)
    expect((await get()).status).toBe(401)
  })
})

describe('everything else', () => {
  test('that is not a route gets 404 in JSON', async () => {
    const { get, sandbox } = await openSandbox()
    for (const path of ['/a/b', '/a/analysis/b']) expect((await get(path)).status).toBe(404)
    const response = await fetch(`${sandbox.url}/api/v2/editais`)
    expect(response.status).toBe(404)
    expect(await response.json()).toEqual({
      error: 'not_found',
      detail: 'There is nothing at /api/v2/editais. GET / lists what is available.',
    })
  })

  test.each(['POST', 'PUT', 'PATCH', 'DELETE'])(
    '%s is not allowed, as there is nothing to write',
    async method => {
      const { sandbox, key, world } = await openSandbox()
      for (const path of ['', `/${world.ids()[0]}`, `/${world.ids()[0]}/analysis`]) {
        const response = await fetch(`${sandbox.url}${LIST_PATH}${path}`, {
          method,
          headers: { 'x-api-key': key },
        })
        expect(response.status).toBe(405)
        expect(response.headers.get('allow')).toBe('GET, HEAD')
        expect(await response.json()).toEqual({ error: 'method_not_allowed' })
      }
    },
  )

  test('that fails internally gets 500 without the reason', async () => {
    const broken = () => Promise.reject(new Error('a secret'))
    const api = createApiRoutes({ companyOfKey: () => ({ list: broken, get: broken, analysis: broken }) })
    const response = await api.request(LIST_PATH, { headers: { 'x-api-key': 'any' } })
    expect(response.status).toBe(500)
    expect(await response.text()).toBe('{"error":"internal_error"}')
  })
})
