import { describe, expect, it } from 'vitest'
import {
  type DetectOptions,
  detect,
  type Plan,
  readRecords,
  readWork,
  type Work,
} from '#src/core/pipeline/detect.ts'
import type { ListedRecord } from '#src/core/pipeline/listed.ts'
import type { Verdict } from '#src/core/pipeline/validate.ts'
import { hashContent } from '#src/lib/hash.ts'
import type { Entry } from '#src/sandbox/world.ts'
import { idOf, noticeEntry, notices } from '#test/support/notices.ts'
import { temporaryDirectory } from '#test/support/project.ts'
import {
  minutesLater,
  openStored,
  openWarehouseCase,
  STARTED,
  type WarehouseCase,
} from '#test/support/warehouse.ts'

const HOUR_MS = 3_600_000
const EARLIER = '2026-10-01T00:00:00.000Z'
const LATER = '2026-11-25T00:00:00.000Z'

type Compared = Omit<Plan, 'records'> & {
  readonly records: readonly ListedRecord[]
  readonly work: readonly Work[]
}

/** What a run does that is shown these notices now. */
async function compare(
  warehouse: WarehouseCase,
  shown: readonly (Entry | Verdict)[],
  options: Partial<DetectOptions> = {},
): Promise<Compared> {
  const { path } = await warehouse.list(...shown)
  const plan = await detect({
    db: warehouse.db,
    now: new Date(minutesLater(60)),
    analysisStatuses: [],
    refetchSegment: null,
    analysisMaxAge: { openMs: null, closedMs: null },
    force: false,
    temporaryDirectory: await temporaryDirectory(),
    ...options,
  })
  const { listed, unchanged, deferred, rejected, toFetch } = plan
  expect(unchanged + deferred + rejected + toFetch, 'each listed notice has one action').toBe(listed)
  return {
    ...plan,
    records: await Array.fromAsync(readRecords(plan, path)),
    work: await Array.fromAsync(readWork(plan)),
  }
}

const openCurrent = (...entries: readonly Entry[]) => openStored(entries)

function unusable(editalId: string | null, raw: string): Verdict {
  return { ok: false, editalId, reason: 'a required field is missing', path: 'status', raw: Buffer.from(raw) }
}

describe('what is compared', () => {
  it('a notice that is not stored is new, its record is logged and its analysis fetched', async () => {
    const entry = noticeEntry(1)
    const plan = await compare(await openWarehouseCase(), [entry])
    expect(plan).toMatchObject({ listed: 1, added: 1, changed: 0, revived: 0, toFetch: 1 })
    expect(plan.records).toMatchObject([{ edital_id: idOf(1), updated_at: entry.edital.updated_at }])
    const [record] = plan.records
    expect(JSON.parse(record && 'document' in record ? record.document : '')).toEqual(entry.edital)
    expect(plan.work).toEqual([
      { edital_id: idOf(1), updated_at: entry.edital.updated_at, hash: null, same_version: false },
    ])
  })

  it('a notice that is as it was, with a current analysis, needs nothing', async () => {
    const entry = noticeEntry(1)
    const plan = await compare(await openCurrent(entry), [entry])
    expect(plan).toMatchObject({ listed: 1, unchanged: 1, added: 0, changed: 0, toFetch: 0 })
    expect(plan.records).toEqual([])
    expect(plan.work).toEqual([])
  })

  it.each([
    ['moved forwards', LATER],
    ['moved backwards', EARLIER],
    ['differs beyond microseconds', '2026-11-01T00:01:00.0000001Z'],
    ['is the day alone', '2026-11-01'],
  ])('an updated_at that %s is a change', async (_, updated_at) => {
    const plan = await compare(await openCurrent(noticeEntry(1)), [noticeEntry(1, { updated_at })])
    expect(plan).toMatchObject({ changed: 1, toFetch: 1 })
    expect(plan.records).toMatchObject([{ edital_id: idOf(1), updated_at }])
    expect(plan.work).toMatchObject([{ updated_at, same_version: false }])
  })

  it('an updated_at that is the same instant in another spelling is no change', async () => {
    const spellings = [
      '2026-11-01T00:01:00Z',
      '2026-11-01T00:01:00.000+00:00',
      '2026-10-31T21:01:00-03:00',
      '2026-10-31 21:01:00.000000000 -0300',
      '2026-11-01t00:01z',
      '2026-10-31T21:01',
    ]
    for (const updated_at of spellings) {
      const plan = await compare(await openCurrent(noticeEntry(1)), [noticeEntry(1, { updated_at })])
      expect(plan, updated_at).toMatchObject({ listed: 1, unchanged: 1, changed: 0, toFetch: 0 })
    }
  })

  it('a field that changed although updated_at did not is a change', async () => {
    const shown = noticeEntry(1, { status: 'discarded' })
    const plan = await compare(await openCurrent(noticeEntry(1)), [shown])
    expect(plan).toMatchObject({ changed: 1, toFetch: 1 })
    expect(plan.records).toMatchObject([{ edital_id: idOf(1) }])
  })

  it('a deleted notice that is shown again is revived', async () => {
    const entry = noticeEntry(1)
    const warehouse = await openWarehouseCase()
    await warehouse.store([entry], { deletedAt: STARTED })
    const plan = await compare(warehouse, [entry])
    expect(plan).toMatchObject({ revived: 1, added: 0, changed: 0, toFetch: 1 })
    expect(plan.records).toMatchObject([{ edital_id: idOf(1) }])
  })

  it('a stored notice that is not shown is no part of the plan', async () => {
    expect(await compare(await openCurrent(...notices(1, 2)), [noticeEntry(1)])).toMatchObject({
      listed: 1,
      unchanged: 1,
    })
  })
})

describe('which analyses are due', () => {
  it('an analysis that was never fetched is due, although its notice is stored', async () => {
    const warehouse = await openStored([noticeEntry(1)], { areFetched: false })
    const plan = await compare(warehouse, [noticeEntry(1)])
    expect(plan).toMatchObject({ added: 0, changed: 0, toFetch: 1 })
    expect(plan.records).toEqual([])
  })

  it('an analysis fetched before its notice changed is due again, also where updated_at is the same', async () => {
    const entry = noticeEntry(1)
    const warehouse = await openWarehouseCase()
    await warehouse.store([entry], { segment: 3 })
    await warehouse.storeAnalyses([entry], { segment: 2 })
    const plan = await compare(warehouse, [entry])
    expect(plan).toMatchObject({ changed: 0, toFetch: 1 })
    expect(plan.work).toMatchObject([{ same_version: false }])
  })

  it('an analysis fetched for another updated_at is due again, an older one or a newer', async () => {
    const entries = notices(1, 2)
    const warehouse = await openStored(entries, { areFetched: false })
    await warehouse.storeAnalyses(entries.slice(0, 1), { updatedAt: EARLIER })
    await warehouse.storeAnalyses(entries.slice(1), { updatedAt: LATER })
    expect(await compare(warehouse, entries)).toMatchObject({ changed: 0, toFetch: 2 })
  })

  it('an analysis received in the same segment as its notice, or in a later one, is current', async () => {
    const warehouse = await openWarehouseCase()
    const entries = notices(1, 2)
    await warehouse.store(entries, { segment: 2 })
    await warehouse.storeAnalyses(entries.slice(0, 1), { segment: 2 })
    await warehouse.storeAnalyses(entries.slice(1), { segment: 3 })
    expect(await compare(warehouse, entries)).toMatchObject({ unchanged: 2, toFetch: 0 })
  })

  it('with force every analysis is fetched, and the stored one is named beside it', async () => {
    const entry = noticeEntry(1)
    const plan = await compare(await openCurrent(entry), [entry], { force: true })
    expect(plan).toMatchObject({ changed: 0, unchanged: 0, toFetch: 1 })
    expect(plan.work).toEqual([
      {
        edital_id: idOf(1),
        updated_at: entry.edital.updated_at,
        hash: hashContent(JSON.stringify(entry.analysis)),
        same_version: true,
      },
    ])
  })

  it('a --full asks again for what was received up to its start, and not for what came after', async () => {
    const [before, after] = [noticeEntry(1), noticeEntry(2)]
    const warehouse = await openStored([before, after], { areFetched: false })
    await warehouse.storeAnalyses([before], { segment: 4 })
    await warehouse.storeAnalyses([after], { segment: 5 })
    const plan = await compare(warehouse, [before, after], { refetchSegment: 4 })
    expect(plan).toMatchObject({ unchanged: 1, toFetch: 1 })
    expect(plan.work).toMatchObject([{ edital_id: idOf(1), same_version: true }])
  })
})

describe('the age of analyses', () => {
  const entry = noticeEntry(1)
  const openMs = 24 * HOUR_MS

  it.each([
    ['is not asked for before half of its age', 12 * 60 - 1, 0],
    ['is asked for at its age at the latest', 24 * 60, 1],
    ['of a clock that was ahead by all of its age is asked for', -24 * 60, 1],
    ['of a clock that was a little ahead is not', -60, 0],
  ])('one that can grow a day old %s', async (_, minutes, toFetch) => {
    const now = new Date(minutesLater(minutes))
    const plan = await compare(await openCurrent(entry), [entry], {
      now,
      analysisMaxAge: { openMs, closedMs: null },
    })
    expect(plan).toMatchObject({ changed: 0, toFetch, unchanged: 1 - toFetch })
  })

  it('counts from when it was last fetched', async () => {
    const warehouse = await openStored([entry], { areFetched: false })
    await warehouse.storeAnalyses([entry], { fetchedAt: minutesLater(24 * 60) })
    const now = new Date(minutesLater(30 * 60))
    const options = { now, analysisMaxAge: { openMs, closedMs: null } }
    expect(await compare(warehouse, [entry], options)).toMatchObject({ unchanged: 1 })
  })

  it('has a bound of its own for closed notices', async () => {
    const closed = noticeEntry(2, { status: 'discarded' })
    const now = new Date(minutesLater(48 * 60))
    const warehouse = await openCurrent(entry, closed)
    const dueBy = async (analysisMaxAge: DetectOptions['analysisMaxAge']) =>
      (await compare(warehouse, [entry, closed], { now, analysisMaxAge })).work.map(work => work.edital_id)
    expect(await dueBy({ openMs, closedMs: null })).toEqual([idOf(1)])
    expect(await dueBy({ openMs: null, closedMs: openMs })).toEqual([idOf(2)])
    expect(await dueBy({ openMs: null, closedMs: null })).toEqual([])
  })

  it('is spread, so that what was fetched together is not due together', async () => {
    const entries = notices(1, 40)
    const now = new Date(minutesLater(18 * 60))
    const options = { now, analysisMaxAge: { openMs, closedMs: null } }
    const { toFetch } = await compare(await openCurrent(...entries), entries, options)
    expect(toFetch).toBeGreaterThan(5)
    expect(toFetch).toBeLessThan(35)
  })
})

describe('phases without analyses', () => {
  const entry = noticeEntry(1, { status: 'screening' })

  it('a new notice of another phase is logged, and its analysis deferred', async () => {
    const plan = await compare(await openWarehouseCase(), [entry], { analysisStatuses: ['ready', 'pricing'] })
    expect(plan).toMatchObject({ added: 1, deferred: 1, toFetch: 0 })
    expect(plan.records).toHaveLength(1)
  })

  it('a notice of one of the phases is fetched', async () => {
    const options = { analysisStatuses: ['ready', 'screening'] }
    expect(await compare(await openWarehouseCase(), [entry], options)).toMatchObject({
      deferred: 0,
      toFetch: 1,
    })
  })

  it('no list of phases excludes none, also not one that the contract does not know', async () => {
    const shown = noticeEntry(1, { status: 'negotiation' })
    expect(await compare(await openWarehouseCase(), [shown])).toMatchObject({ deferred: 0, toFetch: 1 })
  })

  it('a current analysis of an excluded phase counts as unchanged', async () => {
    const plan = await compare(await openCurrent(entry), [entry], { analysisStatuses: ['ready'] })
    expect(plan).toMatchObject({ unchanged: 1, deferred: 0 })
  })

  it('with force they are fetched too', async () => {
    const options = { analysisStatuses: ['ready'], force: true }
    expect(await compare(await openCurrent(entry), [entry], options)).toMatchObject({
      deferred: 0,
      toFetch: 1,
    })
  })
})

describe('an analysis that was set aside', () => {
  const entry = noticeEntry(1)

  const record = { id: idOf(1), kind: 'analysis', updatedAt: entry.edital.updated_at } as const

  async function openSetAside(): Promise<WarehouseCase> {
    const warehouse = await openStored([entry], { areFetched: false })
    await warehouse.setAside({ ...record, segment: 2 })
    return warehouse
  }

  it.each([
    ['waits before its next attempt', 14, { deferred: 1, toFetch: 0 }],
    ['is due at its next attempt', 15, { deferred: 0, toFetch: 1 }],
    ['is due where the clock was ahead when it was set aside', -1, { deferred: 0, toFetch: 1 }],
  ])('%s', async (_, minutes, expected) => {
    const now = new Date(minutesLater(minutes))
    expect(await compare(await openSetAside(), [entry], { now })).toMatchObject(expected)
  })

  it('is due at once when its notice has another updated_at', async () => {
    const now = new Date(minutesLater(1))
    const plan = await compare(await openSetAside(), [noticeEntry(1, { updated_at: LATER })], { now })
    expect(plan).toMatchObject({ changed: 1, deferred: 0, toFetch: 1 })
  })

  it('is due at once for a --full that started after it, and for force', async () => {
    const warehouse = await openSetAside()
    const now = new Date(minutesLater(1))
    expect(await compare(warehouse, [entry], { now, refetchSegment: 2 })).toMatchObject({ toFetch: 1 })
    expect(await compare(warehouse, [entry], { now, refetchSegment: 1 })).toMatchObject({ deferred: 1 })
    expect(await compare(warehouse, [entry], { now, force: true })).toMatchObject({ toFetch: 1 })
  })

  it('is asked for again although the earlier one is current', async () => {
    const warehouse = await openCurrent(entry)
    await warehouse.setAside(record)
    expect(await compare(warehouse, [entry])).toMatchObject({ unchanged: 0, toFetch: 1 })
  })

  it('no longer waits once a usable one came', async () => {
    const warehouse = await openCurrent(entry)
    await warehouse.setAside({ ...record, resolvedAt: STARTED })
    const now = new Date(minutesLater(1))
    expect(await compare(warehouse, [entry], { now })).toMatchObject({ unchanged: 1, deferred: 0 })
  })
})

describe('a listed record that cannot be used', () => {
  const raw = '{"id":"n00001"}'
  const record = unusable(idOf(1), raw)
  const setAside = { id: idOf(1), kind: 'notice', hash: hashContent(raw) } as const

  it('is set aside with its reason and its bytes', async () => {
    const plan = await compare(await openWarehouseCase(), [record])
    expect(plan).toMatchObject({ listed: 1, rejected: 1, added: 0, toFetch: 0 })
    expect(plan.records).toEqual([
      {
        edital_id: idOf(1),
        raw: Buffer.from(raw).toString('base64'),
        hash: hashContent(raw),
        excerpt: raw,
        reason: 'a required field is missing',
        path: 'status',
      },
    ])
  })

  it('is not logged again while it waits for its next attempt', async () => {
    const warehouse = await openWarehouseCase()
    await warehouse.setAside(setAside)
    const plan = await compare(warehouse, [record], { now: new Date(minutesLater(14)) })
    expect(plan).toMatchObject({ deferred: 1, rejected: 0 })
    expect(plan.records).toEqual([])
  })

  it('is logged again at its next attempt, and at once when it changed', async () => {
    const warehouse = await openWarehouseCase()
    await warehouse.setAside(setAside)
    const now = new Date(minutesLater(15))
    expect(await compare(warehouse, [record], { now })).toMatchObject({ rejected: 1, deferred: 0 })
    const other = unusable(idOf(1), '{"id":"n00001","status":1}')
    expect(await compare(warehouse, [other], { now: new Date(minutesLater(1)) })).toMatchObject({
      rejected: 1,
    })
  })

  it('without an id is recognised by its bytes', async () => {
    const warehouse = await openWarehouseCase()
    await warehouse.setAside({ ...setAside, id: null })
    const now = new Date(minutesLater(1))
    expect(await compare(warehouse, [unusable(null, raw)], { now })).toMatchObject({
      deferred: 1,
      rejected: 0,
    })
    expect(await compare(warehouse, [unusable(null, '{}')], { now })).toMatchObject({
      deferred: 0,
      rejected: 1,
    })
  })

  it('does not disturb the notices beside it', async () => {
    const plan = await compare(await openCurrent(noticeEntry(2)), [record, noticeEntry(2), noticeEntry(3)])
    expect(plan).toMatchObject({ listed: 3, rejected: 1, unchanged: 1, added: 1, toFetch: 1 })
  })

  it('counts as a change when it can be used again, so that what was set aside is closed', async () => {
    const warehouse = await openCurrent(noticeEntry(1))
    await warehouse.setAside(setAside)
    const plan = await compare(warehouse, [noticeEntry(1)])
    expect(plan).toMatchObject({ changed: 1 })
    expect(plan.records).toMatchObject([{ edital_id: idOf(1), document: expect.any(String) }])
  })

  it('gives way to a usable one of the same id in the same list', async () => {
    expect(await compare(await openWarehouseCase(), [noticeEntry(1), record])).toMatchObject({
      listed: 1,
      added: 1,
      rejected: 0,
    })
  })
})

describe('the order of fetching', () => {
  const MONTHS = Array.from({ length: 20 }, (_, index) =>
    new Date(Date.UTC(2025, index, 1)).toISOString().slice(0, 7),
  )
  const entries = MONTHS.flatMap((month, index) =>
    [1, 2, 3, 4, 5, 6].map(day => noticeEntry(index * 6 + day, { created_at: `${month}-0${day}T12:00:00Z` })),
  )
  const createdAt = new Map(entries.map(({ edital }) => [edital.id, String(edital.created_at)]))
  /** The months in the order in which they are fetched, each with its notices in theirs. */
  const monthsAt = async (now: Date) => {
    const { work } = await compare(await openWarehouseCase(), entries, { now })
    const months: [string, string[]][] = []
    for (const { edital_id } of work) {
      const month = createdAt.get(edital_id)?.slice(0, 7) ?? ''
      if (months.at(-1)?.[0] !== month) months.push([month, []])
      months.at(-1)?.[1].push(edital_id)
    }
    return months
  }

  it('is month by month, so that the rows of a month arrive together', async () => {
    const months = await monthsAt(new Date(LATER))
    expect(months.map(([month]) => month).sort()).toEqual(MONTHS)
    expect(months.flatMap(([, ids]) => ids).sort()).toEqual([...createdAt.keys()].sort())
    expect(await monthsAt(new Date(LATER))).toEqual(months)
  })

  it('is newest first in each of at most eight strides', async () => {
    const months = (await monthsAt(new Date(LATER))).map(([month]) => month)
    const begun = months.filter((month, index) => month > (months[index - 1] ?? ''))
    expect(begun.length).toBeGreaterThan(1)
    expect(begun.length).toBeLessThanOrEqual(8)
  })

  it('differs in another run, also within a month, so that a few that always fail are not adjacent forever', async () => {
    const [first, second] = [await monthsAt(new Date(LATER)), await monthsAt(new Date(minutesLater(1)))]
    expect(second.map(([month]) => month)).not.toEqual(first.map(([month]) => month))
    const other = new Map(second)
    for (const [month, ids] of first) {
      expect([...(other.get(month) ?? [])].sort()).toEqual([...ids].sort())
      expect(ids).not.toEqual([...ids].sort().reverse())
    }
    expect(first.filter(([month, ids]) => `${other.get(month)}` === `${ids}`).length).toBeLessThan(3)
  })
})
