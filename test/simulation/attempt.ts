import { existsSync } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { CompanyPaths } from '#src/core/company/company.ts'
import type { RunReport } from '#src/core/company/run_report.ts'
import { observeSteps } from '#src/lib/durable.ts'
import { EXIT, explain } from '#src/lib/errors.ts'
import { assertHolds, Violation } from './assertions.ts'
import { beginRun } from './company.ts'
import { type CrashPoint, type Watch, watch } from './crash_point.ts'
import type { NetworkFaults } from './network_faults.ts'
import { type Operation, perform } from './operations.ts'
import * as oracle from './oracle.ts'
import { count, type Play } from './play.ts'
import { checkStore, watchStore } from './remote/attempt.ts'
import type { StoreFaults } from './remote/store.ts'
import { checkDurableFirst, checkImmutable, checkLatest, latestOf } from './snapshots.ts'
import { readStored, type Stored } from './stored.ts'

export type Attempt = {
  readonly operation: Operation
  readonly networkFaults: NetworkFaults
  readonly crashPoint: CrashPoint | null
  readonly trusted: boolean
  /** Of the object store. */
  readonly storeFaults?: StoreFaults
}

/** Makes one run of the real program and lets the oracle check the result. */
export async function attempt(
  play: Play,
  { operation, networkFaults, crashPoint, trusted, storeFaults = 'none' }: Attempt,
): Promise<RunReport | null> {
  const { sandbox, company, paths, kept } = play
  play.runs += 1
  count(play, `operation: ${operation}`)
  beginRun(company.ledger, play.settled)
  const staying = latestOf(paths)
  sandbox.requests.reset()
  sandbox.faults.plan = [...networkFaults.plan]
  const controller = new AbortController()
  const watched = watch({
    crashPoint,
    disk: play.disk,
    paths,
    random: play.random,
    interrupt: () => controller.abort(),
    check: () => checkLatest(paths, kept !== null),
  })
  watchStore(play, watched, storeFaults)
  play.log(describeAttempt(play, { operation, networkFaults, crashPoint, trusted, storeFaults }))
  const { report, error } = await inTime(
    perform(play, operation, { signal: controller.signal, trusted }),
    operation,
  )
  observeSteps(null)
  play.log(
    `    ${watched.triggered ? `crash point reached; ` : ''}${error ? String(error) : JSON.stringify(report)}`,
  )
  countSteps(play, watched, crashPoint)
  if (watched.wrong) throw watched.wrong
  if (watched.copy) await fallBack(paths, watched.copy)
  if (error) checkError(error, operation, watched.triggered ? crashPoint : null)
  play.powerFailed ||= watched.copy !== null && crashPoint?.kind === 'power fails'
  checkImmutable(paths, play.seen, play.powerFailed)
  await checkStore(play, { isCalm: storeFaults === 'none' && !watched.triggered && !error })
  for (const name of watched.copy ? [] : staying)
    assertHolds(
      existsSync(join(paths.lake, 'snapshots', name)),
      () => `I5: snapshot ${name} was removed too early`,
    )
  if (existsSync(paths.raw)) await checkDurableFirst(paths, kept !== null)
  if (error || watched.copy) {
    play.settled = false
    return null
  }
  const stored = await readStored(paths)
  oracle.checkJustified(stored, company.ledger)
  oracle.checkKept(kept, stored)
  const { settled } = play
  oracle.checkDeleted(kept, stored, company.ledger, { ...networkFaults, trusted, settled })
  if (report) checkRun(play, { operation, report, stored, networkFaults })
  play.kept = stored
  play.settled = true
  return report
}

function describeAttempt(
  { runs, clock, company }: Play,
  { operation, networkFaults, crashPoint, storeFaults }: Attempt,
): string {
  const faults = networkFaults.plan.map(({ fault, kinds }) => `${fault} ${kinds ?? ''}`)
  const what = crashPoint
    ? `${crashPoint.kind} ${crashPoint.when} ${crashPoint.step} (${crashPoint.nth})`
    : 'no crash'
  return `${runs}. ${clock.now.toISOString()} ${company.world.size} notices: ${operation}; ${what}; ${faults.join(', ') || 'no network faults'}; store: ${storeFaults}`
}

type Finished = {
  readonly operation: Operation
  readonly report: RunReport
  readonly stored: Stored
  readonly networkFaults: NetworkFaults
}

function checkRun(play: Play, { operation, report, stored, networkFaults }: Finished): void {
  const { sandbox, company, environment, kept } = play
  const { total: requests, peakConcurrent } = sandbox.requests
  count(play, `run: ${report.status}`)
  oracle.checkReport(
    report,
    { requests, peakConcurrent },
    { concurrency: Number(environment.API_CONCURRENCY), retries: Number(environment.API_RETRIES) },
  )
  if (operation === 'other key') oracle.checkUntouched(kept, stored, report)
  if (report.status === 'interrupted' || report.status === 'failed') return
  assertHolds(
    report.requests === requests,
    () => `the report counts ${report.requests} requests, the server ${requests}`,
  )
  if (operation === 'replay') return
  oracle.checkNothingPending(stored, report)
  if (operation === 'restart') oracle.checkRefetched(stored, company.ledger, report)
  const isWhole = !networkFaults.losesAnswers && report.mode !== 'filtered'
  if (isWhole) oracle.checkFresh(stored, company.ledger)
  // Documents sent broken or twice have no single outcome to count.
  if (isWhole && play.settled && company.alterations === 0 && report.status === 'ok')
    oracle.checkCounts(kept, stored, company.ledger, report)
}

/** A run may throw only if something was injected, and then only the matching error. */
function checkError(error: unknown, operation: Operation, crashPoint: CrashPoint | null): void {
  const text = explained(error)
  const isItsOwn =
    crashPoint?.kind === 'killed' ||
    crashPoint?.kind === 'power fails' ||
    (crashPoint?.kind === 'interrupted' && explain(error).exitCode === EXIT.interrupted) ||
    (crashPoint?.kind.startsWith('disk') && /ENOSPC|EIO|disk is full/.test(text))
  assertHolds(isItsOwn === true, () => `${operation} ended with: ${text}`)
}

/** The message that an operator would see, and the stack. */
function explained(error: unknown): string {
  return `${explain(error).message} ${error instanceof Error ? error.stack : ''}`
}

/** The process died: the next one finds the state that it left. */
async function fallBack({ root }: CompanyPaths, copy: string): Promise<void> {
  await rm(root, { recursive: true, force: true, maxRetries: 5 })
  await rename(copy, root)
}

function countSteps(play: Play, { steps, triggered }: Watch, crashPoint: CrashPoint | null): void {
  if (triggered && crashPoint)
    count(play, `crash point: ${crashPoint.kind} ${crashPoint.when} ${crashPoint.step}`)
  for (const [step, times] of steps) count(play, `step: ${step}`, times)
}

/** A simulated run never waits long in real time, so one that takes longer hangs. */
const MAX_RUN_MS = 60_000

export type Ended = { readonly report: RunReport | null; readonly error: unknown }

/** A run that never ends is a violation, too. */
export async function inTime(running: Promise<RunReport | null>, operation: string): Promise<Ended> {
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(
    () => late.reject(new Violation(`${operation} did not end within ${MAX_RUN_MS} ms`)),
    MAX_RUN_MS,
  )
  try {
    return await Promise.race([
      running.then(
        report => ({ report, error: null }),
        (error: unknown) => ({ report: null, error }),
      ),
      late.promise,
    ])
  } finally {
    clearTimeout(timer)
  }
}
