import { readFile, rename, rm } from 'node:fs/promises'
import { z } from 'zod'
import { OUTCOMES, RUN_COUNTERS, type RunCounter } from '#schema/sync_runs.ts'
import { formatCount, pluralize } from '#src/lib/count.ts'
import { writeNew } from '#src/lib/durable.ts'
import { type Cause, EXIT, type ExitCode } from '#src/lib/errors.ts'
import type { CompanyPaths } from './company.ts'

export type RunMode = 'full' | 'incremental' | 'filtered' | 'replay'
type RunStatus = 'ok' | 'partial' | 'failed' | 'interrupted'

/** The report of a run: a row of `sync_runs`, and the output of `--json`. */
export type RunReport = {
  readonly run_id: string
  readonly mode: RunMode
  readonly status: RunStatus
  readonly started_at: string
  readonly finished_at: string | null
  readonly scan_complete: boolean | null
  readonly error: string | null
} & Readonly<Record<RunCounter, number>>

export function createReport(runId: string, mode: RunMode, startedAt: Date): RunReport {
  return {
    run_id: runId,
    mode,
    status: 'ok',
    started_at: startedAt.toISOString(),
    finished_at: null,
    ...(Object.fromEntries(Object.keys(RUN_COUNTERS).map(name => [name, 0])) as Record<RunCounter, number>),
    scan_complete: null,
    error: null,
  }
}

/** Returns how long the run has taken so far; 0 if the clock was set back. */
export function measureSecondsSince({ started_at }: RunReport, { now }: { now: () => Date }): number {
  return Math.max(0, now().getTime() - Date.parse(started_at)) / 1000
}

/** Throws unless every listed notice has exactly one outcome (invariant I1). */
export function assertConserved(report: RunReport): void {
  const all = OUTCOMES.map(outcome => report[outcome])
  const outcomes = all.reduce((sum, count) => sum + count, 0)
  if (outcomes !== report.listed || all.some(count => count < 0)) {
    throw new Error(
      `${pluralize(report.listed, 'notice')} listed, but ${pluralize(outcomes, 'outcome')}: ${JSON.stringify(report)}`,
    )
  }
}

const SEVERITY: readonly RunStatus[] = ['ok', 'partial', 'interrupted', 'failed']

/** A reason why a run was not simply good, for its status and its user. */
export type Shortcoming = {
  readonly status: RunStatus
  readonly reason: string
  readonly cause?: Cause | null
}

export type Reported = { readonly report: RunReport; readonly causes: ReadonlySet<Cause> }

/** Returns the report with the worst status among the findings, every reason, and their causes. */
export function withFindings(report: RunReport, findings: readonly Shortcoming[]): Reported {
  const statuses = [report.status, ...findings.map(({ status }) => status)]
  const worst = Math.max(...statuses.map(status => SEVERITY.indexOf(status)))
  const error = findings.map(({ reason }) => reason).join(' ')
  return {
    report: { ...report, status: SEVERITY[worst] as RunStatus, error: error === '' ? null : error },
    causes: new Set(findings.flatMap(({ cause }) => cause ?? [])),
  }
}

export function convertExitToStatus(exitCode: ExitCode): RunStatus {
  if (exitCode === EXIT.interrupted) return 'interrupted'
  return exitCode === EXIT.partial ? 'partial' : 'failed'
}

export function chooseExitCode({ status }: RunReport, causes: ReadonlySet<Cause>): ExitCode {
  return causes.has('wrong_settings') ? EXIT.usage : EXIT[status]
}

const failure = z.object({ at: z.string(), since: z.string(), times: z.number(), reason: z.string() })

/**
 * Runs that left no report because they could not start, died or hung, since the last run that finished or loaded
 * something. Stored beside that run's state, for `status` and metrics. Times are ISO.
 */
export type Failure = {
  readonly at: string
  /** When the first of these runs failed. */
  readonly since: string
  readonly times: number
  /** Reason of the latest failure. */
  readonly reason: string
}

/** Returns null if the last run finished, or if the file is invalid. */
export async function readFailure({ failure: path }: Pick<CompanyPaths, 'failure'>): Promise<Failure | null> {
  try {
    return failure.parse(JSON.parse(await readFile(path, 'utf8')))
  } catch {
    return null
  }
}

/** Records one more failure, atomically. Throws if nothing can be written. */
export async function noteFailure(paths: CompanyPaths, reason: string, now: Date): Promise<void> {
  const before = await readFailure(paths)
  const at = now.toISOString()
  const noted: Failure = { at, since: before?.since ?? at, times: (before?.times ?? 0) + 1, reason }
  await writeNew(`${paths.failure}.part`, `${JSON.stringify(noted)}\n`)
  await rename(`${paths.failure}.part`, paths.failure)
}

/** Removes the record of a failure. Call it when a run finished, or loaded something, and left a report. */
export async function forgetFailure({ failure: path }: CompanyPaths): Promise<void> {
  await rm(path, { force: true })
}

/** Describes a failure for display: when it failed, how often, and why. */
export function describeFailure({ at, since, times, reason }: Failure): string {
  const often = times > 1 ? `, ${formatCount(times)} times since ${since}` : ''
  return `failed at ${at}${often}: ${reason}`
}
