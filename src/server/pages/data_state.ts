import { basename, dirname } from 'node:path'
import { companyPaths } from '#src/core/company/company.ts'
import { type Failure, readFailure } from '#src/core/company/run_report.ts'
import { type KnownState, readState } from '#src/core/company/state.ts'
import { formatAge, formatMoment } from '#src/present/text/format.ts'
import { ageOf, type Behind } from '#src/server/behind.ts'
import type { ServedSnapshot } from '#src/server/snapshot.ts'

/** The state of a company's data, which is on top of every page. */
export type DataState = {
  /** When the whole list was read last; null if this host does not know. */
  readonly read: string | null
  /** Why the data may not be those of the service; null if they are. */
  readonly problem: string | null
  /** When the snapshot was published. */
  readonly published: string
}

/** How the last run of a company ended, and the later ones without a report. */
export type LastRun = { readonly state: KnownState | null; readonly failure: Failure | null }

/** Older than this, under any usual schedule, several readings were missed. */
const OLD_MS = 24 * 3_600_000

/** Returns what this disk knows of the last run. @param lake the company's directory of snapshots. */
export async function lastRunHere(lake: string): Promise<LastRun> {
  const root = dirname(lake)
  const paths = companyPaths(dirname(root), basename(root))
  return { state: await readState(paths), failure: await readFailure(paths) }
}

/** Describes a company's data at this moment: after the last run and look, not only what was published. */
export function describeData(
  { state, failure }: LastRun,
  snapshot: Pick<ServedSnapshot, 'asOf' | 'timeZone'>,
  { behind, now }: { behind: Behind | null; now: Date },
): DataState {
  const published = ageOf(snapshot, behind)
  if (state === null) return { read: null, problem: null, published }
  const at = state.last_good_at
  if (at === null)
    return {
      read: null,
      problem: 'Ainda não houve uma leitura completa: podem faltar editais e análises.',
      published,
    }
  const ageMs = now.getTime() - Date.parse(at)
  const read = `Última leitura completa há ${formatAge(ageMs)}`
  const since = `os dados são de ${formatMoment(at, snapshot.timeZone)}`
  if (failure !== null || state.last_run.status === 'failed')
    return { read, problem: `A última execução falhou: ${since}.`, published }
  const isOld = ageMs > OLD_MS
  return { read, problem: isOld ? `Não há leitura completa há mais de 24 horas: ${since}.` : null, published }
}
