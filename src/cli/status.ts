import { Command } from 'commander'
import { loadCompanyEnvironment, readCompanies } from '#config/companies.ts'
import { type Environment, readSettings } from '#config/settings.ts'
import { makePrintableLines } from '#schema/text_key.ts'
import { companyPaths } from '#src/core/company/company.ts'
import { describeFailure, readFailure } from '#src/core/company/run_report.ts'
import { readState } from '#src/core/company/state.ts'
import type { Row } from '#src/core/warehouse/database.ts'
import { pluralize } from '#src/lib/count.ts'
import { EXIT, FatalError } from '#src/lib/errors.ts'
import { describeHolder } from '#src/lib/lock.ts'
import { describeReaders, readStatus, type StatusWithReaders } from '#src/operate/status.ts'
import { renderTable } from '#src/present/terminal/table.ts'

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
  const { environments, broken, places, problem, warnings } = await readCompanies(environment)
  for (const warning of warnings) process.stderr.write(`${warning}\n`)
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
  const summary = `${pluralize(companies.length, 'company', 'companies')}, ${troubled.length} with problems.\n`
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

export function createStatusCommand(environment: Environment): Command {
  return new Command('status')
    .description('Show the state of a company: last run, notices by phase, quarantine, drift, snapshot.')
    .option('--company <slug>', 'company to show, instead of COMPANY')
    .option('--all', 'all configured companies, those with problems first')
    .option('--json', 'print one JSON object; with --all, an array of them')
    .action(async (options: { company?: string; all?: true; json?: true }) => {
      if (options.all) return await showAll(environment, options)
      const own = await loadCompanyEnvironment(environment, options.company)
      const settings = readSettings(own)
      const status = await readStatus(companyPaths(settings.dataDir, settings.company))
      process.stdout.write(
        options.json ? `${JSON.stringify(status)}\n` : makePrintableLines(describe(status)),
      )
    })
}

async function showAll(
  environment: Environment,
  { company, json }: { company?: string; json?: true },
): Promise<void> {
  if (company !== undefined) throw new FatalError('Use --all or --company, not both.', EXIT.usage)
  const standings = await readStandings(environment)
  process.stdout.write(
    json ? `${JSON.stringify(standings)}\n` : makePrintableLines(describeStandings(standings)),
  )
}

const SHOWN = 10

function describe(status: StatusWithReaders): string {
  const { last_run: run, last_failure: failure, held_by: holder } = status
  const lines = [
    `Company   ${status.company}${holder ? `, held by ${describeHolder(holder)}` : ''}`,
    run
      ? `Last run  ${run.status}, ${run.mode}, ended ${run.finished_at}${run.error ? `\n          ${run.error}` : ''}`
      : 'Last run  unknown',
    ...(failure ? [`Since     ${describeFailure(failure)}`] : []),
    ...(status.looked_at ? [`Last look nothing new at ${status.looked_at}`] : []),
    `Last good ${status.last_good_at ?? 'never'}`,
    `Snapshot  ${status.snapshot.directory}`,
    ...describeReaders(status),
    '',
    renderTable(['status', 'notices', 'current', 'pending', 'quarantined', 'excluded'], status.notices),
  ]
  return `${lines.join('\n')}${section('Quarantine', status.quarantine)}${section('Drift from the contract', status.drift)}`
}

function section(title: string, rows: readonly Row[]): string {
  const [first] = rows
  if (!first) return `${title}: none\n`
  const more = rows.length > SHOWN ? `, the latest ${SHOWN}` : ''
  return `\n${title}: ${rows.length}${more}\n${renderTable(Object.keys(first), rows.slice(0, SHOWN))}`
}
