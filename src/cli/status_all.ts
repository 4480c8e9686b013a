import { readCompanies } from '#config/companies.ts'
import { type Environment, readSettings } from '#config/settings.ts'
import { counted } from '#src/platform/count.ts'
import { companyPaths } from '#src/store/company.ts'
import { describeFailure, readFailure } from '#src/store/failure.ts'
import { readState } from '#src/store/state.ts'
import { renderTable } from './table.ts'

/** The state of a company in one line; what `status --all --json` prints for each. */
type Standing = {
  /** Null for names in the companies' file that are not valid slugs. */
  readonly company: string | null
  /** The status of the last run; also failed if it could not begin or died; null if there was none yet. */
  readonly status: string | null
  readonly last_good_at: string | null
  /** The problem with its entry in the companies' file, or with its last run. */
  readonly problem: string | null
}

/** Returns the state of all configured companies, those with problems first. Reads no snapshot: a thousand take a second. */
export async function readStandings(environment: Environment): Promise<Standing[]> {
  const { environments, broken, places, problem } = await readCompanies(environment)
  const all = [...environments.values(), ...places.values()].map(own => readSettings(own))
  const standings = await Promise.all(
    all.map(async ({ dataDir, company }): Promise<Standing> => {
      const paths = companyPaths(dataDir, company)
      const [state, failure] = [await readState(paths), await readFailure(paths)]
      const failed = failure && `The last run ${describeFailure(failure)}`
      return {
        company,
        status: failure ? 'failed' : (state?.last_run.status ?? null),
        last_good_at: state?.last_good_at ?? null,
        problem: broken.get(company) ?? failed ?? state?.last_run.error ?? null,
      }
    }),
  )
  standings.sort((a, b) => rank(a) - rank(b) || ((a.company ?? '') < (b.company ?? '') ? -1 : 1))
  if (problem === null) return standings
  return [{ company: null, status: null, last_good_at: null, problem }, ...standings]
}

/** Describes the companies for people: the problems in full, then all companies in one table. */
export function describeStandings(standings: readonly Standing[]): string {
  const companies = standings.filter(({ company }) => company !== null)
  const troubled = companies.filter(isTroubled)
  const refused = standings.flatMap(({ company, problem }) => (company === null ? [problem] : []))
  const reasons = troubled.map(({ company, status, problem }) => `${company}: ${problem ?? status}`)
  const rows = companies.map(({ company, status, last_good_at }) => ({
    company,
    'last run': status ?? 'none',
    'last good': last_good_at ?? 'never',
  }))
  const summary = `${counted(companies.length, 'company', 'companies')}, ${troubled.length} with problems.\n`
  const table = rows.length > 0 ? renderTable(['company', 'last run', 'last good'], rows) : ''
  return `${summary}${[...refused, ...reasons].map(reason => `  ${reason}\n`).join('')}${table}`
}

/** Returns whether a company has a problem. Waiting for the first run is none; if it takes long, there is an alert. */
function isTroubled({ status, problem }: Standing): boolean {
  return problem !== null || (status !== null && status !== 'ok')
}

function rank(standing: Standing): number {
  if (isTroubled(standing)) return 0
  return standing.last_good_at === null ? 1 : 2
}
