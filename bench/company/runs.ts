import { readdir } from 'node:fs/promises'
import type { RunReport } from '#src/core/company/run_report.ts'
import { snapshotsDirectory } from '#src/core/lake/manifest.ts'
import type { Costed } from '../processes/costs.ts'
import type { Api } from './api.ts'
import type { Counters } from './api_process.ts'
import { type Place, pathsOf, runAt } from './place.ts'

/** The share of the notices that a run with changes finds changed. */
export const CHANGED_SHARE = 0.005
/** The concurrent requests that runs are measured with. */
export const AT_ONCE = { API_CONCURRENCY: '16' }

/** One run of the sync: its cost and report, and the requests that the API received. */
export type SyncRun = Costed & {
  readonly report: RunReport
  readonly asked: Counters
  readonly snapshotsWritten: number
}

/** @throws Error if the run did not load exactly `loaded` analyses, or counted other requests than the API. */
export async function syncOnce(
  api: Api,
  place: Place,
  { loaded, full = false }: { readonly loaded: number; readonly full?: boolean },
  onStart?: (pid: number) => void,
): Promise<SyncRun> {
  const snapshotsBefore = await countSnapshots(place)
  await api.counters()
  const costed = await runAt(place, 'sync', [...(full ? ['--full'] : []), '--json'], onStart)
  const report = JSON.parse(costed.stdout) as RunReport
  const asked = await api.counters()
  const sent = asked.list.requests + asked.notice.requests + asked.analysis.requests
  if (report.status !== 'ok' || report.loaded !== loaded || report.requests !== sent)
    throw new Error(
      `Unexpected run: expected ${loaded} loaded analyses; the API received ${sent} requests: ${costed.stdout}`,
    )
  return { ...costed, report, asked, snapshotsWritten: (await countSnapshots(place)) - snapshotsBefore }
}

/** Changes some notices, and runs the sync. */
export async function syncChanged(api: Api, place: Place): Promise<SyncRun> {
  return await syncOnce(api, place, { loaded: await api.change(CHANGED_SHARE) })
}

async function countSnapshots(place: Place): Promise<number> {
  return (await readdir(snapshotsDirectory(pathsOf(place).lake)).catch(() => [])).length
}
