import { describe, expect, it } from 'vitest'
import { readSettings } from '#config/settings.ts'
import type { Answer, Api } from '#src/core/api/client.ts'
import { companyPaths } from '#src/core/company/company.ts'
import { detectLeft, readRecords, readWork } from '#src/core/pipeline/detect.ts'
import { KnownList, markDeferred } from '#src/core/pipeline/list_index.ts'
import { NEXT } from '#src/core/pipeline/run.ts'
import { type Survey, survey } from '#src/core/pipeline/survey.ts'
import { RequestError } from '#src/lib/errors.ts'
import { hashOf } from '#src/lib/hash.ts'
import { createRandom, type Random } from '#src/sandbox/random.ts'
import { ABSENT, bodyOf } from '#test/support/hand_made_api.ts'
import { noticeEntry } from '#test/support/notices.ts'
import { temporaryDirectory } from '#test/support/project.ts'
import { minutesLater, openWarehouseCase, TIMEZONE, type WarehouseCase } from '#test/support/warehouse.ts'

type Shown = Readonly<Record<string, unknown>>
type World = {
  /** In the order of its pages. */
  readonly list: readonly Shown[]
  /** Notices that it does not show although they exist. */
  readonly hidden: readonly Shown[]
  readonly page: number
  /** The list from this request for a page on; absent if it stays as it is. */
  readonly later?: { readonly asked: number; readonly list: readonly Shown[] } | undefined
}

const REFETCH = { segment: null, anew: false }
const EXCLUDED = 'discarded'
const NOW = minutesLater(5)
const SEEDS = Array.from({ length: 12 }, (_, index) => index + 1)

/** A record without a status that the API can have sent: it is set aside. */
const BROKEN = { created_at: 'sexta-feira' }

describe('a run that knows what the last one saw', () => {
  it.each(SEEDS)('plans what it would plan without that: seed %i', async seed => {
    const random = createRandom(seed)
    const warehouse = await openWarehouseCase()
    const before = await storeWorld(warehouse, random)
    const known = await knownOf(warehouse, before)
    const now = {
      ...change(before, random),
      later: random.chance(0.5) ? laterOf(before, random) : undefined,
    }
    const [fast, whole] = [await planOf(warehouse, now, known), await planOf(warehouse, now, null)]
    expect(fast).toEqual(whole)
    expect(known.pages.length).toBeGreaterThan(0)
  })

  it('compares only what differs', async () => {
    const warehouse = await openWarehouseCase()
    const before = await storeWorld(warehouse, createRandom(1))
    const known = await knownOf(warehouse, before)
    const changed = before.list.map((notice, index) =>
      index === 3 ? { ...notice, objeto: 'Outro' } : notice,
    )
    const { plan } = await planOf(warehouse, { ...before, list: changed }, known)
    const { compared } = await warehouse.db.row<{ compared: number }>(
      'SELECT count(*) AS compared FROM listed',
    )
    expect({ listed: plan.listed, compared }).toEqual({ listed: before.list.length, compared: 1 })
  })
})

/** Stores a list of which everything is current, waits or is excluded: then a run leaves an index. */
async function storeWorld(warehouse: WarehouseCase, random: Random): Promise<World> {
  const entries = Array.from({ length: random.int(4, 40) }, (_, index) =>
    noticeEntry(index + 1, {
      status: random.chance(0.2) ? EXCLUDED : 'analysis',
      ...(random.chance(0.1) ? { novo: index } : {}),
    }),
  )
  await warehouse.store(entries)
  const [waiting, analysed] = [entries.slice(0, 2), entries.slice(2)]
  await warehouse.storeAnalyses(analysed.filter(({ edital }) => edital.status !== EXCLUDED))
  for (const { edital } of waiting)
    await warehouse.setAside({ id: edital.id, kind: 'analysis', updatedAt: edital.updated_at })
  const list: Shown[] = entries.map(({ edital }) => edital)
  if (random.chance(0.7)) {
    const broken = { ...noticeEntry(99).edital, ...BROKEN }
    const unnamed = { ...broken, id: undefined }
    for (const record of [broken, unnamed]) {
      await warehouse.setAside({ id: record.id ?? null, kind: 'notice', hash: hashOf(bytesOf(record)) })
      list.push(record)
    }
  }
  return { list: random.sample(list, list.length), hidden: [], page: random.int(2, 12) }
}

/** Changes the list as an API may do between two runs. */
function change({ list, page }: World, random: Random): World {
  const hidden: Shown[] = []
  const next = list.flatMap((notice): Shown[] => {
    const kind = random.weighted([
      ['same', 12],
      ['gone', 1],
      ['hidden', 0.3],
      ['changed', 1],
      ['updated', 1],
      ['unknown', 1],
      ['phase', 1],
      ['respelled', 1],
      ['broken', 0.5],
    ] as const)
    if (kind === 'gone') return []
    if (kind === 'hidden') hidden.push(notice)
    if (kind === 'hidden') return []
    if (kind === 'changed') return [{ ...notice, objeto: `Outro ${random.int(1, 9)}` }]
    if (kind === 'updated') return [{ ...notice, updated_at: minutesLater(4) }]
    if (kind === 'unknown') return [{ ...notice, novidade: random.int(1, 9) }]
    if (kind === 'phase') return [{ ...notice, status: random.pick([EXCLUDED, 'pricing', 'analysis']) }]
    if (kind === 'respelled') return [{ ...notice, updated_at: respelled(String(notice.updated_at)) }]
    if (kind === 'broken') return [{ ...notice, ...BROKEN }]
    return [notice]
  })
  for (let added = random.int(0, 3); added > 0; added -= 1) next.unshift(noticeEntry(200 + added).edital)
  return { list: random.chance(0.3) ? random.sample(next, next.length) : next, hidden, page }
}

/** The list goes back to what it was, or changes once more, while it is read. */
function laterOf(before: World, random: Random): World['later'] {
  const { list } = random.chance(0.5) ? before : change(before, random)
  return { asked: random.int(2, 4), list }
}

function respelled(time: string): string {
  return time.replace('Z', '+00:00')
}

function bytesOf(record: Shown): Buffer {
  return Buffer.from(JSON.stringify(record))
}

/** What the run that stored the world would leave. */
async function knownOf(warehouse: WarehouseCase, world: World): Promise<KnownList> {
  const { pages } = await surveyOf(warehouse, world, null)
  const left = await leftIn(warehouse)
  expect(left.toDo).toBe(0)
  return new KnownList({
    pages: markDeferred(pages ?? [], left.deferred),
    due_at: left.dueAt?.toISOString() ?? null,
  })
}

async function leftIn({ db }: WarehouseCase) {
  const { analysisStatuses, analysisMaxAge } = settings()
  const options = { analysisStatuses, analysisMaxAge, refetchSegment: null, force: false }
  return await detectLeft({ db, now: new Date(NOW), ...options })
}

function settings() {
  return readSettings({
    COMPANY: 'acme',
    SOURCE_TIMEZONE: TIMEZONE,
    ANALYSIS_STATUSES: 'analysis,pricing',
    DATA_DIR: '/nowhere',
  })
}

async function surveyOf(warehouse: WarehouseCase, world: World, known: KnownList | null): Promise<Survey> {
  const temporary = await temporaryDirectory()
  const context = {
    paths: { ...companyPaths(temporary, 'acme'), temporary },
    settings: settings(),
    now: () => new Date(NOW),
    signal: new AbortController().signal,
    onProgress: () => {},
    api: apiOf(world),
  }
  return await survey(NEXT, REFETCH, context, warehouse, known)
}

/** All that a run does with a plan, in an order that no comparison changes. */
async function planOf(warehouse: WarehouseCase, world: World, known: KnownList | null) {
  const { plan, listedPath, missing, unlisted, scanned } = await surveyOf(warehouse, world, known)
  const { records: _, workPath: __, ...counts } = plan
  const [records, work] = [
    await Array.fromAsync(readRecords(plan, listedPath)),
    await Array.fromAsync(readWork(plan)),
  ]
  const { deferred, dueAt: ___, ...left } = await leftIn(warehouse)
  return {
    plan: counts,
    records: sorted(records),
    work: sorted(work),
    missing: { ...missing, gone: [...missing.gone].sort(), unverified: sorted(missing.unverified) },
    unlisted: sorted(unlisted),
    complete: scanned.complete,
    left: { ...left, deferred: [...deferred].sort() },
  }
}

function sorted<T>(values: readonly T[]): T[] {
  return [...values].sort((a, b) => JSON.stringify(a).localeCompare(JSON.stringify(b)))
}

/** Some notices that the list lost answer as if they were there, and one with an error. */
function apiOf({ list: first, hidden, page, later }: World): Api {
  let [list, asked] = [first, 0]
  const answer = (id: string): Answer => {
    if (id.endsWith('7')) throw new RequestError('the API answered 500')
    const found = [...list, ...hidden].find(notice => notice.id === id)
    return found ? bodyOf(found) : ABSENT
  }
  return {
    concurrency: 1,
    notice: async (id: string) => answer(id),
    list: async ({ limit, offset }: { limit: number; offset: number }) => {
      asked += 1
      if (later?.asked === asked) list = later.list
      const editais = list.slice(offset, offset + Math.min(limit, page))
      return Buffer.from(
        JSON.stringify({ editais, count: editais.length, total: list.length, limit, offset }),
      )
    },
  } as unknown as Api
}
