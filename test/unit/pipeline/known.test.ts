import { describe, expect, it } from 'vitest'
import { readSettings } from '#config/settings.ts'
import type { Answer, Api } from '#src/core/api/client.ts'
import { companyPaths } from '#src/core/company/company.ts'
import { detectLeft, readRecords, readWork } from '#src/core/pipeline/detect.ts'
import { KnownList } from '#src/core/pipeline/list_index.ts'
import { NEXT } from '#src/core/pipeline/run.ts'
import { type Survey, survey } from '#src/core/pipeline/survey.ts'
import { RequestError } from '#src/lib/errors.ts'
import { hashContent } from '#src/lib/hash.ts'
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
/** Then what waited is due, and so are old analyses. */
const MUCH_LATER = minutesLater(60 * 24 * 40)
/** More at night: `SEEDS` says how many. */
const SEEDS = Array.from({ length: Number(process.env.SEEDS ?? 2) }, (_, index) => index + 1)

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
    const at = random.chance(0.5) ? NOW : MUCH_LATER
    const whole = await planOf(warehouse, now, { at, known: null })
    expect(await planOf(warehouse, now, { at, known })).toEqual(whole)
    expect(known.pages.length).toBeGreaterThan(0)
  })

  it('reads only what differs', async () => {
    const warehouse = await openWarehouseCase()
    const before = await storeWorld(warehouse, createRandom(1))
    const known = await knownOf(warehouse, before)
    const place = before.list.findIndex(isSound)
    const changed = before.list.map((notice, index) =>
      index === place ? { ...notice, objeto: 'Outro' } : notice,
    )
    const { plan, records } = await planOf(warehouse, { ...before, list: changed }, { at: NOW, known })
    const { kept } = await warehouse.db.row<{ kept: number }>('SELECT count(*) AS kept FROM known')
    const sound = new Set(before.list.filter(isSound).map(({ id }) => id)).size
    expect({ changed: plan.changed, kept }).toEqual({ changed: 1, kept: sound - 1 })
    expect(records).toMatchObject([{ edital_id: changed[place]?.id }])
  })

  it('reads the whole list if something stored is not what the last run saw', async () => {
    const warehouse = await openWarehouseCase()
    const before = await storeWorld(warehouse, createRandom(2))
    const known = await knownOf(warehouse, before)
    const id = before.list.find(isSound)?.id as string
    await warehouse.db.run('DELETE FROM editais WHERE edital_id = $id', { id })
    expect((await planOf(warehouse, before, { at: NOW, known })).plan.added).toBe(1)
  })
})

function isSound({ created_at }: Shown): boolean {
  return created_at !== BROKEN.created_at
}

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
      await warehouse.setAside({ id: record.id ?? null, kind: 'notice', hash: hashContent(bytesOf(record)) })
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
      ['mended', 0.5],
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
    if (kind === 'mended') return [{ ...notice, created_at: noticeEntry(98).edital.created_at }]
    return [notice]
  })
  for (let added = random.int(0, 3); added > 0; added -= 1) next.unshift(noticeEntry(200 + added).edital)
  // A faulty list shows a notice twice, not always in the same way.
  if (next.length > 0 && random.chance(0.3)) next.push(random.pick([...next, ...list]))
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
  const { scanned } = await surveyOf(warehouse, world, { at: NOW, known: null })
  expect((await leftIn(warehouse, NOW)).toDo).toBe(0)
  return new KnownList({ pages: scanned.pages ?? [], compared_at: NOW })
}

/** When a run is, and what it knows. */
type Run = { readonly at: string; readonly known: KnownList | null }

async function leftIn({ db }: WarehouseCase, at: string) {
  const { analysisStatuses, analysisMaxAge } = settings()
  const options = { analysisStatuses, analysisMaxAge, refetchSegment: null, force: false }
  return await detectLeft({ db, now: new Date(at), ...options })
}

function settings() {
  return readSettings({
    COMPANY: 'acme',
    SOURCE_TIMEZONE: TIMEZONE,
    ANALYSIS_STATUSES: 'analysis,pricing',
    DATA_DIR: '/nowhere',
  })
}

async function surveyOf(warehouse: WarehouseCase, world: World, { at, known }: Run): Promise<Survey> {
  const temporary = await temporaryDirectory()
  const context = {
    paths: { ...companyPaths(temporary, 'acme'), temporary },
    settings: settings(),
    now: () => new Date(at),
    signal: new AbortController().signal,
    onProgress: () => {},
    api: apiOf(world),
  }
  return await survey(NEXT, REFETCH, context, warehouse, known)
}

/** All that a run does with a plan, in an order that no comparison changes. */
async function planOf(warehouse: WarehouseCase, world: World, run: Run) {
  const { plan, listedPath, missing, unlisted, scanned } = await surveyOf(warehouse, world, run)
  const { records: _, workPath: __, ...counts } = plan
  const [records, work] = [
    await Array.fromAsync(readRecords(plan, listedPath)),
    await Array.fromAsync(readWork(plan)),
  ]
  return {
    plan: counts,
    records: sorted(records),
    // A stored time may be spelled differently.
    work: sorted(work.map(each => ({ ...each, updated_at: new Date(each.updated_at).toISOString() }))),
    missing: { ...missing, gone: [...missing.gone].sort(), unverified: sorted(missing.unverified) },
    unlisted: sorted(unlisted),
    complete: scanned.complete,
    left: await leftIn(warehouse, run.at),
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
