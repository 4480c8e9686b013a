import { describe, expect, it } from 'vitest'
import { type CompareOptions, detectLeft } from '#src/core/pipeline/detect.ts'
import type { Entry } from '#src/sandbox/world.ts'
import { idOf, noticeEntry, notices } from '#test/support/notices.ts'
import { minutesLater, openStored, STARTED, type WarehouseCase } from '#test/support/warehouse.ts'

const HOUR_MS = 3_600_000
const OFF = { openMs: null, closedMs: null }

/** What is left to do, an hour after the first run, if the list shows these notices. */
async function left(
  warehouse: WarehouseCase,
  shown: readonly Entry[],
  options: Partial<CompareOptions> = {},
) {
  await warehouse.list(...shown)
  return await detectLeft({
    db: warehouse.db,
    now: new Date(minutesLater(60)),
    analysisStatuses: [],
    refetchSegment: null,
    analysisMaxAge: OFF,
    force: false,
    ...options,
  })
}

const openCurrent = (...entries: readonly Entry[]) => openStored(entries)

describe('what is left to do after a run', () => {
  const all = notices(1, 3)

  it('is nothing if everything is current, and never by itself', async () => {
    expect(await left(await openCurrent(...all), all)).toEqual({
      listed: 3,
      deferred: 0,
      toDo: 0,
      dueAt: null,
    })
  })

  it('is what a run would log or fetch', async () => {
    const warehouse = await openCurrent(...all)
    const changed = noticeEntry(2, { objeto: 'Outro' })
    expect(await left(warehouse, [all[0] as Entry, changed, noticeEntry(4)])).toMatchObject({ toDo: 2 })
    const pending = await openStored(all, { areFetched: false })
    expect(await left(pending, all)).toMatchObject({ toDo: 3 })
    expect(await left(pending, all, { analysisStatuses: ['pricing'] })).toEqual({
      listed: 3,
      deferred: 3,
      toDo: 0,
      dueAt: null,
    })
    expect(await left(await openCurrent(...all), all, { refetchSegment: 1 })).toMatchObject({ toDo: 3 })
  })

  it('grows by itself when the first analysis is old: each has its own share of the maximum', async () => {
    const warehouse = await openCurrent(...all)
    const analysisMaxAge = { openMs: 10 * HOUR_MS, closedMs: 100 * HOUR_MS }
    const { toDo, dueAt } = await left(warehouse, all, { analysisMaxAge })
    const afterMs = (dueAt?.getTime() ?? 0) - Date.parse(STARTED)
    expect({ toDo, isBetween: afterMs >= 5 * HOUR_MS && afterMs < 10 * HOUR_MS }).toEqual({
      toDo: 0,
      isBetween: true,
    })
    // Exactly then, a run has something to do.
    const at = (ms: number) => ({ analysisMaxAge, now: new Date((dueAt?.getTime() ?? 0) + ms) })
    expect(await left(warehouse, all, at(-1))).toMatchObject({ toDo: 0 })
    expect(await left(warehouse, all, at(0))).toMatchObject({ toDo: 1 })
    // An excluded analysis is never due.
    expect(await left(warehouse, all, { analysisMaxAge, analysisStatuses: ['pricing'] })).toMatchObject({
      toDo: 0,
      dueAt: null,
    })
  })

  it('waits for the next attempt of what was set aside', async () => {
    const warehouse = await openStored(all, { areFetched: false })
    await warehouse.storeAnalyses(all.slice(1))
    const [first] = all as [Entry]
    await warehouse.setAside({ id: idOf(1), kind: 'analysis', updatedAt: first.edital.updated_at })
    const soon = { now: new Date(minutesLater(14)) }
    const dueAt = new Date(minutesLater(15))
    expect(await left(warehouse, all, soon)).toEqual({ listed: 3, deferred: 1, toDo: 0, dueAt })
    expect(await left(warehouse, all, { now: dueAt })).toMatchObject({ toDo: 1 })
  })
})
