import { Command } from 'commander'
import { environmentOf } from '#config/companies.ts'
import { type Environment, readSettings } from '#config/settings.ts'
import { type CompanyPaths, companyPaths } from '#src/company.ts'
import { openSnapshot } from '#src/lake/read.ts'
import { type Holder, readHolder } from '#src/lock.ts'
import type { RunReport } from '#src/report.ts'
import { readState } from '#src/state.ts'
import type { Database, Row } from '#src/warehouse/database.ts'
import { renderTable } from './table.ts'

type Status = {
  readonly company: string
  readonly held_by: Holder | null
  readonly last_run: RunReport | null
  /** When the last run ended that went through everything listed. */
  readonly last_good_at: string | null
  readonly snapshot: { readonly directory: string; readonly created_at: string }
  readonly notices: readonly Row[]
  readonly quarantine: readonly Row[]
  readonly drift: readonly Row[]
}

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

/** Reads the latest snapshot and the last run's report; never the warehouse, which a sync may hold. */
async function readStatus(paths: CompanyPaths): Promise<Status> {
  const { db, manifest } = await openSnapshot(paths.lake)
  const state = await readState(paths)
  try {
    return {
      company: paths.company,
      held_by: await readHolder(paths.lock),
      last_run: state?.last_run ?? null,
      last_good_at: state?.last_good_at ?? null,
      snapshot: { directory: manifest.directory, created_at: manifest.created_at },
      notices: await noticesByStatus(db),
      quarantine: await db.rows(
        `SELECT kind, edital_id, reason, path, attempts, next_attempt_at FROM quarantine
         WHERE resolved_at IS NULL ORDER BY observed_at DESC`,
      ),
      drift: await db.rows(
        'SELECT path, kind, sample, count, last_seen_at FROM schema_drift ORDER BY last_seen_at DESC',
      ),
    }
  } finally {
    db.close()
  }
}

async function noticesByStatus(db: Database): Promise<Row[]> {
  return await db.rows(`SELECT coalesce(status, 'all') AS status, count(*) AS notices,
      count(*) FILTER (analysis_state = 'current') AS current, count(*) FILTER (analysis_state = 'pending') AS pending,
      count(*) FILTER (analysis_state = 'quarantined') AS quarantined, count(*) FILTER (analysis_state = 'excluded') AS excluded
    FROM editais WHERE deleted_at IS NULL GROUP BY GROUPING SETS ((status), ()) ORDER BY grouping(status), status`)
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
