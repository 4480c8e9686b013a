import { Command } from 'commander'
import { environmentOf } from '#config/companies.ts'
import { type Environment, readSettings } from '#config/settings.ts'
import { companyPaths } from '#src/company.ts'
import { readStatus, type Status } from '#src/status.ts'
import type { Row } from '#src/warehouse/database.ts'
import { renderTable } from './table.ts'

export function statusCommand(environment: Environment): Command {
  return new Command('status')
    .description('How the company stands: last run, notices by phase, quarantine, drift, snapshot.')
    .option('--company <slug>', 'company to tell about, instead of COMPANY')
    .option('--json', 'print one JSON object')
    .action(async (options: { company?: string; json?: true }) => {
      const own = await environmentOf(environment, options.company)
      const settings = readSettings(own)
      const status = await readStatus(companyPaths(settings.dataDir, settings.company))
      process.stdout.write(options.json ? `${JSON.stringify(status)}\n` : describe(status))
    })
}

const SHOWN = 10

function describe(status: Status): string {
  const { last_run: run, held_by: holder } = status
  const lines = [
    `Company   ${status.company}${holder ? `, held by ${holder.what} (process ${holder.pid} on ${holder.host})` : ''}`,
    run
      ? `Last run  ${run.status}, ${run.mode}, ended ${run.finished_at}${run.error ? `\n          ${run.error}` : ''}`
      : 'Last run  unknown',
    `Last good ${status.last_good_at ?? 'never'}`,
    `Snapshot  ${status.snapshot.directory}`,
    ...describeMetabase(status),
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
    `Metabase  reads ${reads.length > 0 ? what : 'nothing that is known'}`,
    ...(error ? [`          last tried at ${tried_at}: ${error}`] : []),
  ]
}

function section(title: string, rows: readonly Row[]): string {
  const [first] = rows
  if (!first) return `${title}: none\n`
  const more = rows.length > SHOWN ? `, the latest ${SHOWN}` : ''
  return `\n${title}: ${rows.length}${more}\n${renderTable(Object.keys(first), rows.slice(0, SHOWN))}`
}
