import { join } from 'node:path'
import { readState } from '#src/core/company/state.ts'
import { latestLink, readManifest } from '#src/core/lake/manifest.ts'
import { openSnapshot } from '#src/core/lake/read.ts'
import { type Api, type Company, companyOf, startApi } from '../company/api.ts'
import type { Mark } from '../company/api_process.ts'
import { expectTables, type Place, pathsOf, placeOfAll } from '../company/place.ts'
import { type Figure, figure, most, sum } from '../frame/figures.ts'
import type { Bench } from '../frame/situation.ts'
import { startWorker, type Worker } from '../processes/worker.ts'

const analyses = (share: number) => (notices: number) => ({
  kind: 'analysis' as const,
  requests: Math.max(1, Math.floor(share * notices)),
})

/** When the worker is stopped: at these requests, for this number of notices. */
const MARKS = {
  scan: { label: 'in the list', mark: notices => ({ kind: 'list', requests: Math.ceil(notices / 200 / 2) }) },
  early: { label: 'at 2 % of the analyses', mark: analyses(0.02) },
  third: { label: 'at 30 %', mark: analyses(0.3) },
  middle: { label: 'at 60 %', mark: analyses(0.6) },
  late: { label: 'at 95 %', mark: analyses(0.95) },
  last: { label: 'at the last analysis', mark: analyses(1) },
} as const satisfies Readonly<Record<string, { label: string; mark: (notices: number) => Mark }>>
export type Moment = keyof typeof MARKS
export const MOMENTS = Object.keys(MARKS) as Moment[]

/** A worker that is stopped during a backfill, and its successor. */
type Stop = {
  /** From SIGTERM to the exit. */
  readonly seconds: number
  readonly leftBehind: number
  /** Analyses loaded and published before the exit. */
  readonly committed: number
  /** Those of them that the next run requested again. */
  readonly repeated: number
}

type Backfill = { readonly notices: number; readonly moments: readonly Moment[]; readonly seed: string }

/** Stops a worker at each of these moments of its first run. */
export async function measureStops(bench: Bench, backfill: Backfill, redisUrl: string): Promise<Figure[]> {
  bench.step('generating the company of the backfill')
  const company = companyOf(backfill)
  const api = await startApi([company])
  const stops: Stop[] = []
  const figures: Figure[] = []
  for (const moment of backfill.moments) {
    const { label } = MARKS[moment]
    bench.step(`stopped ${label}`)
    const settings = { API_BASE_URL: api.url, REDIS_URL: redisUrl, REDIS_PREFIX: `stop-${moment}` }
    const place = await placeOfAll(join(bench.directory, `stop-${moment}`), [company], settings)
    const stop = await measureStop(moment, { api, company, place })
    stops.push(stop)
    const name = `SIGTERM to exit, backfill ${label}, s`
    figures.push(
      figure(`stop_${moment}_seconds`, name, 2, stop.seconds, most(10)),
      figure(`stop_${moment}_committed`, '  committed', 0, stop.committed),
    )
  }
  await api.close()
  const [left, again] = [sum(stops.map(s => s.leftBehind)), sum(stops.map(s => s.repeated))]
  return [
    ...figures,
    figure('stop_left_behind', 'stopped in a backfill: processes left behind', 0, left, most(0)),
    figure('stop_repeated', 'stopped in a backfill: committed analyses requested again', 0, again, most(0)),
  ]
}

type Around = { readonly api: Api; readonly company: Company; readonly place: Place }

/** @throws Error if anything else happened, or the data finally differs from the API. */
async function measureStop(moment: Moment, { api, company, place }: Around): Promise<Stop> {
  await api.counters()
  const worker = await startWorker(place)
  await api.reached(MARKS[moment].mark(company.notices))
  const { seconds, runs, leftBehind } = await worker.stop()
  if (runs !== 1) throw new Error(`${runs} runs instead of 1 were in progress ${MARKS[moment].label}`)
  const committed = await committedIds(place, company)
  await api.counters()
  const next = await startWorker(place)
  await untilWhole(next, place, company)
  const { analysed } = await api.counters()
  await next.stop()
  await expectTables(place, [company], api)
  const repeated = analysed.filter(id => committed.has(id)).length
  return { seconds, leftBehind, committed: committed.size, repeated }
}

/** Ids of the analyses in the latest snapshot. They must be as many as the run reported as loaded. */
async function committedIds(place: Place, { slug }: Company): Promise<ReadonlySet<string>> {
  const paths = pathsOf(place, slug)
  const loaded = (await readState(paths))?.last_run.loaded ?? 0
  const published = (await readManifest(latestLink(paths.lake)))?.tables.analyses?.rows ?? 0
  if (loaded !== published) throw new Error(`${loaded} analyses were loaded, but ${published} published`)
  if (published === 0) return new Set()
  const { db } = await openSnapshot(paths.lake)
  const rows = await db.rows<{ edital_id: string }>('SELECT edital_id FROM analyses')
  db.close()
  return new Set(rows.map(({ edital_id }) => edital_id))
}

/** A requeued run restarts by itself. A run that had just finished leaves nothing to restart, so request one. */
async function untilWhole(worker: Worker, place: Place, { slug }: Company): Promise<void> {
  const state = await readState(pathsOf(place, slug))
  const ended = worker.next()
  if (state?.last_run.status === 'ok') await worker.requestSync(slug)
  const { status, error } = await ended
  if (status !== 'ok') throw new Error(`The next run ended with ${status}: ${error}`)
}
