import { mkdtemp, readdir, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { companyPaths } from '#src/core/company/company.ts'
import type { RunResult } from '#src/core/pipeline/run.ts'
import { Database } from '#src/core/warehouse/database.ts'
import { renderLatestReport } from '#src/extras/report/page.ts'
import { countDaysFrom } from '#src/marts/open.ts'
import { readCard } from '#src/present/questions.ts'
import { generateWorld } from '#src/sandbox/generate.ts'
import { tick } from '#src/sandbox/live.ts'
import { createRandom } from '#src/sandbox/random.ts'
import { startSandbox } from '#src/sandbox/server.ts'
import { type Entry, World } from '#src/sandbox/world.ts'
import { lastDayToContest, localDay } from '#test/support/figures/calendar.ts'
import type { Cell, Row } from '#test/support/figures/card.ts'
import { CARDS } from '#test/support/figures/cards.ts'
import { cornersOf, MONTH_AHEAD, STATE } from '#test/support/figures/corners.ts'
import { type History, historyOf, type Reading } from '#test/support/figures/history.ts'
import { inState, pictureAt } from '#test/support/figures/picture.ts'
import { funnelDrawing, portionDrawings, type RunItself, reportOf } from '#test/support/figures/report.ts'
import { type Bars, buyerBars, demandBars, severityBars } from '#test/support/figures/report_lists.ts'
import { weeksDrawing } from '#test/support/figures/report_opening.ts'
import { syncHere } from '#test/support/here.ts'
import { settingsFor } from '#test/support/project.ts'
import { barsOf, figuresOf, partsOf, sharesOf, writtenIn } from '#test/support/report_page.ts'
import { KEY } from '#test/support/synced.ts'

const NOW = new Date()
const HOUR_MS = 3_600_000
/** The last two are further apart than snapshots whose only news is a run. */
const HOURS_AGO = [144, 60, 2, 0.4]
/** The moment 7 days and an hour after a run. */
const weekAfter = (run: number) => new Date(NOW.getTime() + (7 * 24 + 1 - (HOURS_AGO[run] ?? 0)) * HOUR_MS)
/** Noon on the last day to contest a session, which is never on a weekend, whatever day it is today. */
const LATER = lastDayToContest(localDay(NOW).add({ days: MONTH_AHEAD })).toZonedDateTime({
  timeZone: 'America/Sao_Paulo',
  plainTime: '12:00',
})
const CARD_FILES = await readdir(join(import.meta.dirname, '../../config/metabase/cards'))
const KEYS = CARD_FILES.map(file => file.replace(/\.sql$/, ''))

let dataDir: string
/** What the API served, and what each run read of it. */
let history: History
let run: RunItself
/** Open as Metabase's driver opens it. */
let catalog: Database

beforeAll(async () => {
  const world = new World()
  const sandbox = await startSandbox({ companies: [{ slug: 'acme', key: KEY, world }] })
  dataDir = await realpath(await mkdtemp(join(tmpdir(), 'editais-sync-test-')))
  // Each run reads every analysis, even silent changes: what is stored is what the API serves.
  const environment = { ...settingsFor({ url: sandbox.url, key: KEY, dataDir }), ANALYSIS_MAX_AGE: '1h,1h' }
  const { times, tell } = storyUntil(NOW)
  const without = { ANALYSIS_STATUSES: ANALYSED.join() }
  const readings: Reading[] = []
  let last: RunResult | undefined
  for (const [index, at] of times.entries()) {
    const isLast = index === times.length - 1
    if (isLast) sandbox.revoke(KEY)
    else tell(world, index)
    readings.push({ at, served: isLast ? null : entriesOf(world) })
    last = await syncHere({ ...environment, ...(isLast && without) }, {}, { now: () => at })
  }
  await sandbox.close()
  history = historyOf(readings, ANALYSED)
  run = { snapshot: last?.published.manifest.snapshot ?? '', error: last?.report.error ?? '' }
  catalog = await Database.open(join(last?.published.directory ?? '', 'catalog.duckdb'), {
    readOnly: true,
    threads: 1,
  })
  await catalog.run(`SET old_implicit_casting = true; SET TimeZone = 'America/Sao_Paulo'`)
})

afterAll(async () => {
  catalog.close()
  await rm(dataDir, { recursive: true, force: true })
})

describe('every figure on a card matches the documents', () => {
  beforeAll(() => countDaysFrom(catalog, NOW))

  it('with an expectation for each card', () => {
    expect(Object.keys(CARDS).sort()).toEqual(KEYS.toSorted())
  })

  it.each(KEYS)('%s', async key => {
    const { sql } = await readCard(key)
    const picture = pictureAt(history, NOW)
    const all = await catalog.rows<Row>(sql.replaceAll(/\[\[.*?\]\]/gs, ''))
    expectRows(all, CARDS[key]?.(picture))
    if (!sql.includes('{{uf}}')) return
    const inOne = sql.replaceAll(/\[\[(.*?)\]\]/gs, '$1').replaceAll('{{uf}}', '$uf')
    const some = await catalog.rows<Row>(inOne, { uf: STATE })
    expectRows(some, CARDS[key]?.(inState(picture, STATE)))
    expect(some).not.toEqual(all)
  })
})

function expectRows(rows: readonly Row[], expected: readonly Row[] = []): void {
  // An empty expectation would check nothing.
  expect(expected.length).toBeGreaterThan(0)
  expect(rows).toEqual(expected.map((row, index) => settled(row, rows[index])))
}

/** The expected row, with the actual number wherever it is close enough. */
function settled(expected: Row, actual: Row | undefined): Row {
  return Object.fromEntries(
    Object.entries(expected).map(([name, cell]) => [
      name,
      isClose(cell, actual?.[name]) ? actual?.[name] : cell,
    ]),
  ) as Row
}

function isClose(expected: Cell, actual: unknown): boolean {
  if (typeof actual !== 'number' || typeof expected !== 'number') return false
  // The last digit of a sum depends on its order.
  return Math.abs(actual - expected) <= 1e-12 * Math.abs(expected)
}

it.each([
  ['at once', NOW],
  ['on the last day of a deadline', new Date(LATER.epochMilliseconds)],
  // When a notice was gone that returned, and when the last news had been read.
  ['a week after its second run', weekAfter(1)],
  ['a week after its third run', weekAfter(2)],
])('every figure in the report, made %s, matches the documents, also in its drawings', async (_, now) => {
  const parts = partsOf(await renderLatestReport(companyPaths(dataDir, 'acme').lake, { now, pagesUrl: null }))
  const picture = pictureAt(history, now)
  const shown = Object.entries(parts).map(([part, html]) => [part, figuresOf(html)])
  expect(shown).toEqual(Object.entries(reportOf(picture, run)))
  const { semanas = '', funil = '', valor = '', requisitos = '', alertas = '', orgaos = '' } = parts
  expect(writtenIn(semanas)).toEqual([weeksDrawing(picture)])
  expect(writtenIn(funil)).toEqual([funnelDrawing(picture)])
  expect(writtenIn(valor)).toEqual(portionDrawings(picture))
  expectBars(barsOf(requisitos), demandBars(picture))
  expectBars(barsOf(alertas), severityBars(picture))
  expect(sharesOf(orgaos)).toEqual(buyerBars(picture))
})

/** Lengths are drawn to a tenth of a pixel. */
function expectBars(drawn: Bars, expected: Bars): void {
  expect(drawn).toEqual(
    Object.fromEntries(
      Object.entries(expected).map(([colour, lengths]) => [
        colour,
        lengths.map(length => expect.closeTo(length, 3)),
      ]),
    ),
  )
}

/** What the API serves to each run, except the last run, which gets nothing. */
type Story = {
  /** The times of the runs. */
  readonly times: readonly Date[]
  /** Sets the world to what the run with this index must read. */
  readonly tell: (world: World, run: number) => void
}

/** The phases that the last run reads analyses of: unread analyses of other phases are left out from then on. */
const ANALYSED = ['screening', 'analysis']
const NOTICES = 200
const TICKS_BETWEEN_RUNS = 60

/**
 * Generated notices that change from run to run, and handmade ones among them. The first run is when they are
 * generated, the last one just before `now`.
 */
function storyUntil(now: Date): Story {
  const times = HOURS_AGO.map(hours => new Date(now.getTime() - hours * HOUR_MS))
  const crowd = generateWorld({ seed: 11, company: 'acme', notices: NOTICES, start: times[0] as Date })
  const random = createRandom('figures')

  function live(from: Date, to: Date): void {
    const step = (to.getTime() - from.getTime()) / (TICKS_BETWEEN_RUNS + 1)
    for (let turn = 1; turn <= TICKS_BETWEEN_RUNS; turn += 1) {
      tick(crowd, random, new Date(from.getTime() + turn * step))
    }
  }

  return {
    times,
    tell(world, run) {
      const [from, to] = [times[run - 1], times[run]]
      if (from && to) live(from, to)
      show(world, [...entriesOf(crowd), ...cornersOf(run, now)])
    },
  }
}

function entriesOf(world: World): Entry[] {
  return world.ids().flatMap(id => world.entry(id) ?? [])
}

/** Handmade notices must not change by ticks, so they are shown with the generated ones but are not in their world. */
function show(world: World, entries: readonly Entry[]): void {
  const shown = new Set(entries.map(({ edital }) => edital.id))
  for (const id of world.ids()) if (!shown.has(id)) world.remove(id)
  for (const entry of entries) world.put(entry)
}
