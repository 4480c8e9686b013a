import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { createRandom } from '#src/sandbox/random.ts'
import { idOf, noticeEntry, notices } from '#test/support/notices.ts'
import { type ServedApi, serveApi } from '#test/support/serve.ts'
import { startCompany, startSynced } from '#test/support/synced.ts'

const PATH = '/api/v1/editais'
const STATUSES = ['screening', 'analysis', 'pricing', 'ready', 'discarded', 'expired']

type Page = {
  readonly editais: { id: string; status: string; created_at: string; objeto: string }[]
  readonly count: number
  readonly total: number
  readonly limit: number
  readonly offset: number
}

async function pagesOf({ json }: ServedApi, limit: number, filter = ''): Promise<Page[]> {
  const pages: Page[] = []
  for (let offset = 0; ; offset += limit) {
    const page = await json<Page>(`${PATH}?limit=${limit}&offset=${offset}${filter}`)
    expect(page).toMatchObject({ count: page.editais.length, limit, offset })
    pages.push(page)
    if (page.count === 0) return pages
  }
}

test('pages are parts of one list, newest first, for every set of phases', async () => {
  const entries = Array.from({ length: 150 }, (_, n) => {
    // Over seven months, many at the same instant.
    const created_at = new Date(Date.UTC(2026, n % 7, 1 + (n % 3))).toISOString()
    return noticeEntry(n + 1, { status: STATUSES[(n * 7) % 5], created_at })
  })
  const company = await startCompany(entries)
  await company.syncHere()
  const removed = idOf(5)
  company.world.remove(removed)
  await company.syncHere()
  const mirror = await serveApi(company.environment)
  const [whole] = (await pagesOf(mirror, 200)) as [Page]
  const order = [...whole.editais].sort(
    (a, b) => Date.parse(b.created_at) - Date.parse(a.created_at) || (a.id < b.id ? -1 : 1),
  )
  expect(whole.editais).toEqual(order)
  expect(whole.editais.map(({ id }) => id)).not.toContain(removed)
  expect(whole.total).toBe(149)

  for (const limit of [1, 7, 50, 149]) {
    const pages = await pagesOf(mirror, limit)
    expect(pages.flatMap(({ editais }) => editais)).toEqual(whole.editais)
    expect(new Set(pages.map(({ total }) => total))).toEqual(new Set([149]))
  }
  for (let set = 1; set < 2 ** STATUSES.length; set += 1) {
    const statuses = STATUSES.filter((_, bit) => set & (1 << bit))
    const expected = whole.editais.filter(({ status }) => statuses.includes(status))
    const page = await mirror.json<Page>(`${PATH}?limit=200&status=${statuses.reverse().join(',')}`)
    expect(page.editais, String(statuses)).toEqual(expected)
    expect(page.total).toBe(expected.length)
  }
  const pages = await pagesOf(mirror, 10, '&status=ready,screening,ready')
  expect(pages.flatMap(({ editais }) => editais)).toEqual(
    whole.editais.filter(({ status }) => ['ready', 'screening'].includes(status)),
  )
})

test('a limit or offset out of bounds is replaced by the nearest valid one', async () => {
  const company = await startSynced(notices(1, 3))
  const { json } = await serveApi(company.environment)
  for (const [query, limit, offset, count] of [
    ['', 50, 0, 3],
    ['limit=0', 1, 0, 1],
    ['limit=-5', 1, 0, 1],
    ['limit=201', 200, 0, 3],
    ['limit=1e3', 50, 0, 3],
    ['limit=', 50, 0, 3],
    ['offset=-1', 50, 0, 3],
    ['offset=3', 50, 3, 0],
    ['offset=99999999999999999999', 50, Number.MAX_SAFE_INTEGER, 0],
    ['limit=2&offset=2', 2, 2, 1],
  ] as const) {
    expect(await json<Page>(`${PATH}?${query}`), query).toMatchObject({ limit, offset, count, total: 3 })
  }
})

test('while snapshots are replaced, every answer is complete and of one snapshot, and none fails', async () => {
  const company = await startCompany(notices(1, 120))
  const version = (n: number) => {
    for (const id of company.world.ids()) {
      const items = [{ numero_item: n, descricao: `v${n}` }]
      company.world.update(id, { edital: { objeto: `v${n}` }, analysis: { items }, updatedAt: new Date() })
    }
  }
  version(0)
  await company.syncHere()
  const { json, ask } = await serveApi(company.environment)
  const seen = new Set<string>()
  let over = false

  async function client(number: number): Promise<number> {
    let asked = 0
    for (; !over; asked += 1) {
      const page = await json<Page>(`${PATH}?limit=200${number % 2 ? '' : '&status=analysis,ready'}`)
      const versions = new Set(page.editais.map(({ objeto }) => objeto))
      expect(versions.size).toBe(1)
      expect(page).toMatchObject({ count: 120, total: 120 })
      for (const one of versions) seen.add(one)
      const id = idOf(1 + ((asked * 7) % 120))
      const analysis = await json<{ objeto: string; items: { descricao: string }[] }>(
        `${PATH}/${id}/analysis`,
      )
      expect(analysis.items[0]?.descricao).toBe(analysis.objeto)
      expect((await ask(`${PATH}/${id}`)).status).toBe(200)
    }
    return asked
  }

  const clients = Promise.all([1, 2, 3, 4].map(client))
  for (const n of [1, 2, 3]) {
    version(n)
    await company.syncHere()
    await expect.poll(() => seen.has(`v${n}`), { timeout: 30_000 }).toBe(true)
  }
  await sleep(50)
  over = true
  for (const asked of await clients) expect(asked).toBeGreaterThan(3)
  expect(seen).toEqual(new Set(['v0', 'v1', 'v2', 'v3']))
})

test('a thousand hostile requests are answered like any others, and break nothing', async () => {
  const company = await startSynced(notices(1, 5))
  const { ask, lines } = await serveApi(company.environment)
  const seed = process.env.TEST_SEED ?? String(Date.now())
  const random = createRandom(`hostile ${seed}`)
  const known = [200, 400, 401, 404, 405, 414]
  for (let n = 0; n < 1000; n += 1) {
    const path = hostilePath(random)
    const method = random.pick(['GET', 'GET', 'GET', 'HEAD', 'POST', 'PROPFIND'])
    const headers = random.pick([
      {},
      { 'x-request-id': '%{jndi:ldap://x}' },
      { 'if-none-match': ','.repeat(500) },
      { 'accept-encoding': `${'gzip;q=9,'.repeat(50)}` },
      { authorization: 'Bearer' },
      { 'x-api-key': "' OR 1=1 --" },
      { 'x-api-key': `edk_${'0'.repeat(2000)}` },
    ])
    // Each from another address: an address that only guesses keys is slowed down.
    const from = `127.0.${1 + Math.floor(n / 250)}.${1 + (n % 250)}`
    const { status, body } = await ask(path, { method, headers, from })
    expect(known, `seed ${seed}: ${method} ${path} ${JSON.stringify(headers)}: ${body}`).toContain(status)
    expect(body.toString()).not.toMatch(/node_modules|\.ts:|Error:/)
  }
  expect(lines.filter(line => line.includes('"level":"error"'))).toEqual([])
  expect((await ask(PATH)).status).toBe(200)
})

function hostilePath(random: ReturnType<typeof createRandom>): string {
  const piece = () =>
    random.pick([
      ...['..', '%2e%2e%2f', '%00', '%ff%fe', "'", '%27%20OR%201=1--', '%', '%zz', ';', 'analysis', idOf(1)],
      ...[
        'constructor',
        '__proto__',
        '%F0%9F%92%A9',
        'a'.repeat(random.int(1, 4200)),
        '%0d%0aSet-Cookie:x',
        '',
      ],
    ])
  const query = () =>
    `${random.pick(['status', 'limit', 'offset', '__proto__', 'status[]', ''])}=${random.pick([
      ...['ready', 'ready,,', ',', 'READY', '%00', '-1', '1e999', 'NaN', '0x10', '٣', '1;DROP TABLE x', ''],
      ...['9'.repeat(400), 'ready%2Cnope', '%25', '+', '1.5'],
    ])}`
  const path = `${PATH}${random.chance(0.7) ? `/${piece()}` : ''}${random.chance(0.4) ? `/${piece()}` : ''}`
  return random.chance(0.6) ? `${path}?${query()}&${query()}` : path
}
