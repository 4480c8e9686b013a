import { basename, dirname } from 'node:path'
import { companyPaths } from '#src/core/company/company.ts'
import { readFailure } from '#src/core/company/run_report.ts'
import { readState } from '#src/core/company/state.ts'
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

/** Older than this, under any usual schedule, several readings were missed. */
const OLD_MS = 24 * 3_600_000

/** Returns the state of a company's data at this moment: of the last run and look, not only of what was published. */
export async function readDataState(
  lake: string,
  snapshot: Pick<ServedSnapshot, 'asOf' | 'timeZone'>,
  { behind, now }: { behind: Behind | null; now: Date },
): Promise<DataState> {
  const root = dirname(lake)
  const paths = companyPaths(dirname(root), basename(root))
  const [state, failure] = [await readState(paths), await readFailure(paths)]
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
  return { read, problem: ageMs > OLD_MS ? `Faz tempo que nada é lido: ${since}.` : null, published }
}
