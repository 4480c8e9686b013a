import { type Cause, EXIT, type ExitCode } from '#src/platform/errors.ts'

export type RunMode = 'full' | 'incremental' | 'filtered' | 'replay'
export type RunStatus = 'ok' | 'partial' | 'failed' | 'interrupted'

/** What a run did: a row of `sync_runs`, and what `--json` prints. */
export type RunReport = {
  readonly run_id: string
  readonly mode: RunMode
  status: RunStatus
  readonly started_at: string
  finished_at: string | null
  listed: number
  added: number
  changed: number
  unchanged: number
  loaded: number
  deferred: number
  gone: number
  quarantined: number
  failed: number
  not_attempted: number
  tombstoned: number
  revived: number
  silent_changes: number
  requests: number
  bytes_fetched: number
  scan_passes: number
  scan_complete: boolean | null
  error: string | null
}

export function newReport(runId: string, mode: RunMode, startedAt: Date): RunReport {
  return {
    run_id: runId,
    mode,
    status: 'ok',
    started_at: startedAt.toISOString(),
    finished_at: null,
    listed: 0,
    added: 0,
    changed: 0,
    unchanged: 0,
    loaded: 0,
    deferred: 0,
    gone: 0,
    quarantined: 0,
    failed: 0,
    not_attempted: 0,
    tombstoned: 0,
    revived: 0,
    silent_changes: 0,
    requests: 0,
    bytes_fetched: 0,
    scan_passes: 0,
    scan_complete: null,
    error: null,
  }
}

/** Invariant I1: every listed notice has exactly one outcome. */
export function assertConserved(report: RunReport): void {
  const { unchanged, loaded, deferred, gone, quarantined, failed, not_attempted } = report
  const all = [unchanged, loaded, deferred, gone, quarantined, failed, not_attempted]
  const outcomes = all.reduce((sum, count) => sum + count, 0)
  if (outcomes !== report.listed || all.some(count => count < 0)) {
    throw new Error(`${report.listed} notices listed, but ${outcomes} outcomes: ${JSON.stringify(report)}`)
  }
}

const SEVERITY: readonly RunStatus[] = ['ok', 'partial', 'interrupted', 'failed']

/** Records a problem: keeps the worst status and every reason. */
export function worsen(report: RunReport, status: RunStatus, reason: string): void {
  if (SEVERITY.indexOf(status) > SEVERITY.indexOf(report.status)) report.status = status
  report.error = report.error ? `${report.error} ${reason}` : reason
}

export function statusOfExit(exitCode: ExitCode): RunStatus {
  if (exitCode === EXIT.interrupted) return 'interrupted'
  return exitCode === EXIT.partial ? 'partial' : 'failed'
}

export function exitOf({ status }: RunReport, causes: ReadonlySet<Cause>): ExitCode {
  return causes.has('wrong_settings') ? EXIT.usage : EXIT[status]
}
