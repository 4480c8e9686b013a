import { existsSync } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { observeSteps } from '#src/platform/durable.ts'
import { EXIT, explain } from '#src/platform/errors.ts'
import type { CompanyPaths } from '#src/store/company.ts'
import type { RunReport } from '#src/store/run_report.ts'
import { beginRun } from './company.ts'
import { type Deed, perform } from './deeds.ts'
import { type Fate, type Watch, watch } from './fate.ts'
import { must, Violation } from './must.ts'
import * as oracle from './oracle.ts'
import { count, type Play } from './play.ts'
import { checkDurableFirst, checkImmutable, checkLatest, latestOf } from './snapshots.ts'
import { readStored, type Stored } from './stored.ts'
import type { Weather } from './weather.ts'

/** A run sleeps for nothing in the real world, so one that takes longer hangs. */
const MAX_RUN_MS = 60_000

export type Attempt = {
  readonly deed: Deed
  readonly weather: Weather
  readonly fate: Fate | null
  readonly trusted: boolean
}

/** One run of the real program, and what the oracle says to what it left. */
export async function attempt(
  play: Play,
  { deed, weather, fate, trusted }: Attempt,
): Promise<RunReport | null> {
  const { sandbox, company, paths, kept } = play
  play.runs += 1
  count(play, `deed: ${deed}`)
  beginRun(company.ledger, play.settled)
  const staying = latestOf(paths)
  sandbox.requests.reset()
  sandbox.faults.plan = [...weather.plan]
  const controller = new AbortController()
  const watched = watch({
    ...{ fate, disk: play.disk, paths, random: play.random },
    interrupt: () => controller.abort(),
    check: () => checkLatest(paths, kept !== null),
  })
  play.tell(describeAttempt(play, { deed, weather, fate, trusted }))
  const { report, error } = await inTime(perform(play, deed, { signal: controller.signal, trusted }), deed)
  observeSteps(null)
  play.tell(`    ${watched.struck ? `struck; ` : ''}${error ? String(error) : JSON.stringify(report)}`)
  countSteps(play, watched, fate)
  if (watched.wrong) throw watched.wrong
  if (watched.copy) await fallBack(paths, watched.copy)
  if (error) checkError(error, deed, watched.struck ? fate : null)
  play.powerFailed ||= watched.copy !== null && fate?.kind === 'power fails'
  checkImmutable(paths, play.seen, play.powerFailed)
  for (const name of watched.copy ? [] : staying)
    must(existsSync(join(paths.lake, 'snapshots', name)), () => `I5: snapshot ${name} was removed too early`)
  if (existsSync(paths.raw)) await checkDurableFirst(paths, kept !== null)
  if (error || watched.copy) {
    play.settled = false
    return null
  }
  const stored = await readStored(paths)
  oracle.checkJustified(stored, company.ledger)
  oracle.checkKept(kept, stored)
  const { settled } = play
  oracle.checkDeleted(kept, stored, company.ledger, { ...weather, trusted, settled })
  if (report) checkRun(play, { deed, report, stored, weather })
  play.kept = stored
  play.settled = true
  return report
}

function describeAttempt({ runs, clock, company }: Play, { deed, weather, fate }: Attempt): string {
  const faults = weather.plan.map(({ fault, kinds }) => `${fault} ${kinds ?? ''}`)
  const what = fate ? `${fate.kind} ${fate.when} ${fate.step} (${fate.nth})` : 'nothing happens'
  return `${runs}. ${clock.now.toISOString()} ${company.world.size} notices: ${deed}; ${what}; ${faults.join(', ') || 'calm'}`
}

type Finished = {
  readonly deed: Deed
  readonly report: RunReport
  readonly stored: Stored
  readonly weather: Weather
}

function checkRun(play: Play, { deed, report, stored, weather }: Finished): void {
  const { sandbox, company, environment, kept } = play
  const { total: requests, peakConcurrent } = sandbox.requests
  count(play, `run: ${report.status}`)
  oracle.checkReport(
    report,
    { requests, peakConcurrent },
    { concurrency: Number(environment.API_CONCURRENCY), retries: Number(environment.API_RETRIES) },
  )
  if (deed === 'other key') oracle.checkUntouched(kept, stored, report)
  if (report.status === 'interrupted' || report.status === 'failed') return
  must(
    report.requests === requests,
    () => `the report says ${report.requests} requests, the server had ${requests}`,
  )
  if (deed === 'replay') return
  oracle.checkNothingPending(stored, report)
  if (deed === 'restart') oracle.checkRefetched(stored, company.ledger, report)
  const isWhole = !weather.losesAnswers && report.mode !== 'filtered'
  if (isWhole) oracle.checkFresh(stored, company.ledger)
  // What is shown broken, or twice, has no single outcome to count.
  if (isWhole && play.settled && company.alterations === 0 && report.status === 'ok')
    oracle.checkCounts(kept, stored, company.ledger, report)
}

/** A run ends with an error only where something befell it, and then with one that says so. */
function checkError(error: unknown, deed: Deed, fate: Fate | null): void {
  const said = explained(error)
  const isItsOwn =
    fate?.kind === 'killed' ||
    fate?.kind === 'power fails' ||
    (fate?.kind === 'interrupted' && explain(error).exitCode === EXIT.interrupted) ||
    (fate?.kind.startsWith('disk') && /ENOSPC|EIO|disk is full/.test(said))
  must(isItsOwn === true, () => `${deed} ended with: ${said}`)
}

type Ended = { readonly report: RunReport | null; readonly error: unknown }

/** A run that never ends is as wrong as one that lies. */
async function inTime(running: Promise<RunReport | null>, deed: Deed): Promise<Ended> {
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(
    () => late.reject(new Violation(`${deed} did not end within ${MAX_RUN_MS} ms`)),
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

/** What an operator would read. */
function explained(error: unknown): string {
  return `${explain(error).message} ${error instanceof Error ? error.stack : ''}`
}

/** The process died: what it left is what the next one finds. */
async function fallBack({ root }: CompanyPaths, copy: string): Promise<void> {
  await rm(root, { recursive: true, force: true })
  await rename(copy, root)
}

function countSteps(play: Play, { steps, struck }: Watch, fate: Fate | null): void {
  if (struck && fate) count(play, `fate: ${fate.kind} ${fate.when} ${fate.step}`)
  for (const [step, times] of steps) count(play, `step: ${step}`, times)
}
