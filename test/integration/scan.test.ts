import { expect, test } from 'vitest'
import { createRandom } from '#src/sandbox/random.ts'
import { ORDERS } from '#src/sandbox/world.ts'
import { bareNotice, idOf } from '#test/support/notices.ts'
import { type SyncedCompany, startCompany } from '#test/support/synced.ts'
import { dataTables, warehouseTables } from '#test/support/tables.ts'

/** Three pages of up to 200, starting at 0, 199 and 398: neighbours share one notice. */
const NOTICES = 450
/** Only the list matters here; sequential pages let changes happen at known points. */
const SETTINGS = { ANALYSIS_STATUSES: 'ready', API_CONCURRENCY: '1' }
const HEAD = { created_at: '2027-01-01T00:00:00Z', updated_at: '2027-01-01T00:00:00Z' }
const TAIL = { created_at: '2020-01-01T00:00:00Z', updated_at: '2020-01-01T00:00:00Z' }

async function startListed(count = NOTICES, settings = SETTINGS): Promise<SyncedCompany> {
  return await startCompany(
    Array.from({ length: count }, (_, index) => bareNotice(index + 1)),
    settings,
  )
}

/** The ids in the order of the list. */
async function listing({ world }: SyncedCompany): Promise<string[]> {
  const { editais } = await world.list({ statuses: null, limit: Number.POSITIVE_INFINITY, offset: 0 })
  return editais.map(edital => (edital as { id: string }).id)
}

type Page = { editais: { id: string }[]; count: number; total: number }

/** Records every list page from now on, as it is sent. */
function recordPages({ faults }: SyncedCompany): Page[] {
  const pages: Page[] = []
  faults.plan.push({
    fault: 'mutate',
    kinds: ['list'],
    mutate: body => {
      pages.push(body as Page)
      return body
    },
  })
  return pages
}

/** Runs a step just before the page at its offset is sent, in the first `passes` passes. */
function beforePage(company: SyncedCompany, steps: Record<number, (pass: number) => void>, passes = 1): void {
  const times = new Map<number, number>()
  company.faults.onRequest = ({ kind, offset }) => {
    if (kind !== 'list' || offset === null) return
    const pass = (times.get(offset) ?? 0) + 1
    times.set(offset, pass)
    if (pass <= passes) steps[offset]?.(pass)
  }
}

async function liveIds(company: SyncedCompany): Promise<string[]> {
  const rows = await company.query<{ id: string }>(
    'SELECT edital_id AS id FROM editais WHERE deleted_at IS NULL ORDER BY ALL',
  )
  return rows.map(({ id }) => id)
}

test('a notice added at the head during the scan is found, and the list is read again', async () => {
  const company = await startListed()
  beforePage(company, { 199: () => company.world.put(bareNotice(900, HEAD)) })
  const report = await company.syncHere()
  expect(report).toMatchObject({ scan_passes: 2, scan_complete: true, listed: NOTICES + 1, requests: 6 })
  expect(await liveIds(company)).toEqual(company.world.ids().sort())
})

test('a removal that moves the list up loses no notice', async () => {
  const company = await startListed()
  await company.syncHere()
  const removed = (await listing(company))[7] as string
  beforePage(company, { 398: () => company.world.remove(removed) })
  // It was still there when the first page was read; the next run finds it missing.
  const report = await company.syncHere()
  expect(report).toMatchObject({ scan_passes: 2, scan_complete: true, listed: NOTICES, tombstoned: 0 })
  expect(await company.syncHere()).toMatchObject({ scan_passes: 1, listed: NOTICES - 1, tombstoned: 1 })
  expect(await liveIds(company)).toEqual(company.world.ids().sort())
})

test('removals and additions that leave every count unchanged are detected by the overlap alone', async () => {
  const company = await startListed()
  const { world } = company
  const order = await listing(company)
  const pages = recordPages(company)
  beforePage(company, {
    199: () => {
      for (const id of order.slice(3, 5)) world.remove(id)
      for (const number of [901, 902]) world.put(bareNotice(number, TAIL))
    },
    398: () => {
      world.put(bareNotice(903, HEAD))
      world.remove(idOf(902))
    },
  })
  const report = await company.syncHere()
  const first = pages.slice(0, 3)
  const shown = new Set(first.flatMap(page => page.editais.map(({ id }) => id)))
  const slipped = order[200] as string
  expect(first.map(page => page.total)).toEqual([NOTICES, NOTICES, NOTICES])
  expect(shown.size).toBe(NOTICES)
  expect(shown).not.toContain(slipped)

  expect(report).toMatchObject({ scan_passes: 2, scan_complete: true })
  expect(await liveIds(company)).toEqual(expect.arrayContaining([slipped, ...world.ids()]))
})

test('a notice that always moves behind the reader is requested by its id, and updated in the same run', async () => {
  const company = await startListed()
  const { world } = company
  world.setOrder('updated_at')
  await company.syncHere()
  const jumping = (await listing(company))[300] as string
  beforePage(
    company,
    {
      // Puts it ahead of the reader again in the second pass.
      0: pass => pass === 2 && world.update(jumping, { edital: TAIL }),
      199: pass =>
        world.update(jumping, {
          edital: { numero: `versão ${pass}` },
          updatedAt: new Date(Date.UTC(2027, 0, pass)),
        }),
    },
    2,
  )
  const report = await company.syncHere()
  expect(report).toMatchObject({ listed: NOTICES, scan_passes: 2, scan_complete: false, changed: 1 })
  expect(report).toMatchObject({ tombstoned: 0, status: 'ok' })
  expect(
    await company.query(`SELECT numero, deleted_at FROM editais WHERE edital_id = '${jumping}'`),
  ).toEqual([{ numero: 'versão 2', deleted_at: null }])
  expect(await liveIds(company)).toEqual(world.ids().sort())
})

test('pages smaller than requested are read to the end of the list', async () => {
  const company = await startListed(NOTICES, { ...SETTINGS, API_CONCURRENCY: '8' })
  company.faults.plan = [{ fault: 'clamp_limit', max: 50 }]
  expect(await company.syncHere()).toMatchObject({ scan_passes: 1, scan_complete: true, listed: NOTICES })
  // n + 1 pages that share one notice each hold 1 + 49 n notices.
  expect(company.sandbox.requests.byKind.list).toBe(10)
  expect(await liveIds(company)).toEqual(company.world.ids().sort())

  company.faults.plan = [
    {
      fault: 'mutate',
      kinds: ['list'],
      skip: 1,
      first: 1,
      mutate: body => {
        const page = body as Page
        return { ...page, editais: page.editais.slice(0, 20), count: 20 }
      },
    },
  ]
  expect(await company.syncHere()).toMatchObject({ scan_complete: true, listed: NOTICES, deferred: NOTICES })
  expect(company.sandbox.requests.byKind.notice).toBe(0)
})

test('a server with one notice per page is read to the last one', async () => {
  const company = await startListed(12)
  company.faults.plan = [{ fault: 'clamp_limit', max: 1 }]
  expect(await company.syncHere()).toMatchObject({ listed: 12, added: 12 })
  expect(await liveIds(company)).toEqual(company.world.ids().sort())
})

test('a server that ignores offset fails the run, and nothing is deleted or changed', async () => {
  const company = await startListed()
  await company.syncHere()
  const before = dataTables(await warehouseTables(company.environment))
  company.world.remove(idOf(1))
  company.world.update(idOf(2), { edital: { numero: '1/2026' } })
  company.faults.plan = [{ fault: 'ignore_offset' }]
  const report = await company.syncHere()
  expect(report).toMatchObject({ status: 'failed', listed: 0, tombstoned: 0, changed: 0 })
  expect(report.error).toMatch(/ignores offset/)
  expect(company.sandbox.requests.byKind).toMatchObject({ notice: 0, analysis: 0 })
  expect(dataTables(await warehouseTables(company.environment))).toEqual(before)

  company.faults.plan = []
  expect(await company.syncHere()).toMatchObject({ status: 'ok', tombstoned: 1, changed: 1 })
})

test.each([
  { by: 7, notice: 0 },
  // Two pages seem to be enough; the 51 notices of the third are requested one by one.
  { by: -60, notice: 51 },
])('a total that is wrong by $by is detected, and no notice is lost', async ({ by, notice }) => {
  const company = await startListed()
  await company.syncHere()
  company.faults.plan = [{ fault: 'total', by }]
  const report = await company.syncHere()
  expect(report).toMatchObject({ scan_passes: 2, scan_complete: false, listed: NOTICES, tombstoned: 0 })
  expect(report).toMatchObject({ status: 'ok', added: 0, changed: 0, deferred: NOTICES })
  expect(company.sandbox.requests.byKind.notice).toBe(notice)
  expect(await liveIds(company)).toEqual(company.world.ids().sort())
})

test('the order of the list does not matter, even if many notices have the same times', async () => {
  const sameTime = { created_at: '2026-10-05T00:00:00Z', updated_at: '2026-10-05T00:00:00Z' }
  const company = await startCompany(
    Array.from({ length: NOTICES }, (_, index) => bareNotice(index + 1, sameTime)),
    SETTINGS,
  )
  expect(await company.syncHere()).toMatchObject({ added: NOTICES, scan_complete: true })
  for (const order of ORDERS) {
    company.world.setOrder(order)
    const report = await company.syncHere()
    expect(report).toMatchObject({ listed: NOTICES, added: 0, changed: 0, tombstoned: 0, requests: 3 })
    expect(report).toMatchObject({ scan_passes: 1, scan_complete: true })
  }
})

test('a list in random order does not count as complete, and loses no notice', async () => {
  const company = await startListed()
  await company.syncHere()
  const { world, faults } = company
  const random = createRandom('orders')
  faults.respond = ({ kind, offset }) => {
    if (kind !== 'list') return undefined
    const editais = random
      .sample(world.ids(), NOTICES)
      .slice(offset ?? 0, (offset ?? 0) + 200)
      .map(id => world.entry(id)?.edital)
    const page = { editais, count: editais.length, total: NOTICES, limit: 200, offset }
    return { status: 200, body: JSON.stringify(page) }
  }
  const report = await company.syncHere()
  expect(report).toMatchObject({ scan_passes: 2, scan_complete: false, listed: NOTICES, status: 'ok' })
  expect(report).toMatchObject({ added: 0, changed: 0, tombstoned: 0, deferred: NOTICES })
  expect(company.sandbox.requests.byKind.notice).toBeGreaterThan(0)
  expect(await liveIds(company)).toEqual(world.ids().sort())
})

test('a list that claims to be endless is read as far as it has notices', async () => {
  const company = await startListed(3)
  company.faults.plan = [{ fault: 'total', by: 900_000 }]
  const report = await company.syncHere()
  expect(report).toMatchObject({ listed: 3, added: 3, status: 'partial', scan_complete: false })
  expect(report.error).toMatch(/reports 900,003 notices but returned only 3\./)
  expect(company.sandbox.requests.byKind.list).toBeLessThan(10)
})
