import { Command } from 'commander'
import { environmentOf } from '#config/companies.ts'
import { type Environment, readSettings } from '#config/settings.ts'
import { printableLines } from '#schema/text_key.ts'
import { readStatus, type Status } from '#src/operate/status.ts'
import { EXIT, FatalError } from '#src/platform/errors.ts'
import { companyPaths } from '#src/store/company.ts'
import { describeFailure } from '#src/store/failure.ts'
import type { Row } from '#src/store/warehouse/database.ts'
import { describeStandings, readStandings } from './status_all.ts'
import { renderTable } from './table.ts'

export function statusCommand(environment: Environment): Command {
  return new Command('status')
    .description('Show the state of a company: last run, notices by phase, quarantine, drift, snapshot.')
    .option('--company <slug>', 'company to show, instead of COMPANY')
    .option('--all', 'all configured companies, those with problems first')
    .option('--json', 'print one JSON object; with --all, an array of them')
    .action(async (options: { company?: string; all?: true; json?: true }) => {
      if (options.all) return await showAll(environment, options)
      const own = await environmentOf(environment, options.company)
      const settings = readSettings(own)
      const status = await readStatus(companyPaths(settings.dataDir, settings.company))
      process.stdout.write(options.json ? `${JSON.stringify(status)}\n` : printableLines(describe(status)))
    })
}

async function showAll(
  environment: Environment,
  { company, json }: { company?: string; json?: true },
): Promise<void> {
  if (company !== undefined) throw new FatalError('Use --all or --company, not both.', EXIT.usage)
  const standings = await readStandings(environment)
  process.stdout.write(json ? `${JSON.stringify(standings)}\n` : printableLines(describeStandings(standings)))
}

const SHOWN = 10

function describe(status: Status): string {
  const { last_run: run, last_failure: failure, held_by: holder } = status
  const lines = [
    `Company   ${status.company}${holder ? `, held by ${holder.what} (process ${holder.pid} on ${holder.host})` : ''}`,
    run
      ? `Last run  ${run.status}, ${run.mode}, ended ${run.finished_at}${run.error ? `\n          ${run.error}` : ''}`
      : 'Last run  unknown',
    ...(failure ? [`Since     ${describeFailure(failure)}`] : []),
    ...(status.looked_at ? [`Last look nothing new at ${status.looked_at}`] : []),
    `Last good ${status.last_good_at ?? 'never'}`,
    `Snapshot  ${status.snapshot.directory}`,
    ...describeMetabase(status),
    ...describeRemote(status),
    '',
    renderTable(['status', 'notices', 'current', 'pending', 'quarantined', 'excluded'], status.notices),
  ]
  return `${lines.join('\n')}${section('Quarantine', status.quarantine)}${section('Drift from the contract', status.drift)}`
}

function describeMetabase({ metabase, snapshot }: Status): string[] {
  if (!metabase) return []
  const { error, reads, tried_at } = metabase
  const what = reads.every(catalog => catalog.startsWith(snapshot.directory))
    ? 'this snapshot'
    : reads.join(' or ')
  return [
    `Metabase  reads ${reads.length > 0 ? what : 'an unknown catalog'}`,
    ...(error ? [`          last attempt ${tried_at}: ${error}`] : []),
  ]
}

function describeRemote({ remote, snapshot }: Status): string[] {
  if (!remote) return []
  const { error, snapshot: published, reading, tried_at, due_at } = remote
  const isThere = published !== null && snapshot.directory.endsWith(published)
  const what = isThere ? 'this snapshot' : published
  const isDue = due_at === null || Date.parse(due_at) <= Date.now()
  return [
    `Store     has ${what ?? 'nothing yet'}`,
    ...(isThere || isDue ? [] : [`          gets this one after ${due_at} (LAKE_PUBLISH_INTERVAL)`]),
    ...(reading ? [`          gets ${reading} since ${tried_at}`] : []),
    ...(error ? [`          last attempt ${tried_at}: ${error}`] : []),
  ]
}

function section(title: string, rows: readonly Row[]): string {
  const [first] = rows
  if (!first) return `${title}: none\n`
  const more = rows.length > SHOWN ? `, the latest ${SHOWN}` : ''
  return `\n${title}: ${rows.length}${more}\n${renderTable(Object.keys(first), rows.slice(0, SHOWN))}`
}
