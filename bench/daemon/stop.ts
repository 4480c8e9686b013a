import { companyPaths } from '#src/store/company.ts'
import { latestLink, readManifest } from '#src/store/lake/manifest.ts'
import { readState } from '#src/store/state.ts'
import { commandOf } from '../command.ts'
import { run, type Server } from '../processes.ts'
import type { Mark } from '../server.ts'
import { type Configured, type Place, wrongTables } from './place.ts'
import { startWorker, type Worker } from './worker.ts'

export type Moment = {
  readonly key: string
  readonly label: string
  /** The requests that the API has received by then, for this number of notices. */
  readonly mark: (notices: number) => Mark
}

const analyses = (share: number) => (notices: number) => ({
  kind: 'analysis' as const,
  requests: Math.max(1, Math.floor(share * notices)),
})

/** When the worker is stopped. */
export const MOMENTS: readonly Moment[] = [
  {
    key: 'scan',
    label: 'in the list',
    mark: notices => ({ kind: 'list', requests: Math.ceil(notices / 200 / 2) }),
  },
  { key: 'early', label: 'at 2 % of the analyses', mark: analyses(0.02) },
  { key: 'third', label: 'at 30 %', mark: analyses(0.3) },
  { key: 'middle', label: 'at 60 %', mark: analyses(0.6) },
  { key: 'late', label: 'at 95 %', mark: analyses(0.95) },
  { key: 'last', label: 'at the last analysis', mark: analyses(1) },
]

/** A worker that is stopped during a backfill, and its successor. */
export type Stop = {
  /** From SIGTERM to the exit. */
  readonly seconds: number
  readonly leftBehind: number
  /** Analyses loaded and published before the exit. */
  readonly committed: number
  /** Those of them that the next run requested again. */
  readonly repeated: number
}

/** @throws Error if anything else happened, or the data finally differs from the API. */
export async function measureStop(
  moment: Moment,
  options: { server: Server; company: Configured; place: Place },
): Promise<Stop> {
  const { server, company, place } = options
  await server.counters()
  const worker = await startWorker(place)
  await server.reached(moment.mark(company.notices))
  const { seconds, runs, leftBehind } = await worker.stop()
  if (runs !== 1) throw new Error(`${runs} runs instead of 1 were in progress ${moment.label}`)
  const committed = await committedIds(place, company)
  await server.counters()
  const next = await startWorker(place)
  await untilWhole(next, { place, company })
  const { analysed } = await server.counters()
  await next.stop()
  const wrong = await wrongTables(place, [company], server.about)
  if (wrong.length > 0) throw new Error(`Rows differ from the API: ${wrong.join(', ')}`)
  const repeated = analysed.filter(id => committed.has(id)).length
  return { seconds, leftBehind, committed: committed.size, repeated }
}

/** Ids of the analyses in the latest snapshot. They must be as many as the run reported as loaded. */
async function committedIds(place: Place, { slug }: Configured): Promise<ReadonlySet<string>> {
  const paths = companyPaths(place.dataDir, slug)
  const loaded = (await readState(paths))?.last_run.loaded ?? 0
  const published = (await readManifest(latestLink(paths.lake)))?.tables.analyses?.rows ?? 0
  if (loaded !== published) throw new Error(`${loaded} analyses were loaded, but ${published} published`)
  if (published === 0) return new Set()
  const { nodeOptions, file, args } = await commandOf('query')
  const sql = 'SELECT edital_id FROM analyses'
  const { stdout } = await run(file, [...args, '--company', slug, '--json', sql], {
    cwd: place.directory,
    env: place.env,
    nodeOptions,
  })
  return new Set((JSON.parse(stdout) as { edital_id: string }[]).map(({ edital_id }) => edital_id))
}

/** A requeued run restarts by itself. A run that had just finished leaves nothing to restart, so request one. */
async function untilWhole(worker: Worker, { place, company }: { place: Place; company: Configured }) {
  const state = await readState(companyPaths(place.dataDir, company.slug))
  const ended = worker.next()
  if (state?.last_run.status === 'ok') await worker.requestSync(company.slug)
  const { status, error } = await ended
  if (status !== 'ok') throw new Error(`The next run ended with ${status}: ${error}`)
}
