import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Costed } from './cost.ts'
import {
  type LoadFloor,
  measureCompression,
  measureLoad,
  measureRequests,
  type Requests,
  runMirrorScript,
  type ScriptRun,
} from './floors.ts'
import type { Server } from './processes.ts'
import { expectSameRows } from './same_rows.ts'
import type { Spent } from './stopwatch.ts'
import { type FullRun, type Place, runStatus, type SyncRun, syncFull, syncOnce } from './sync_run.ts'

export const CHANGED_SHARE = 0.005
/** The company of a first try. */
export const FIRST_NOTICES = 30

/** One round of all measurements of one company, made one after another. */
export type Measured = {
  readonly full: FullRun
  readonly scriptFull: ScriptRun
  readonly requests: Requests
  readonly load: LoadFloor
  readonly compression: Spent
  readonly unchanged: SyncRun
  readonly scriptUnchanged: ScriptRun
  readonly status: Costed
  readonly changed: SyncRun
  readonly scriptChanged: ScriptRun
  readonly first: SyncRun
  readonly scriptFirst: ScriptRun
}

/** A company's API, as the sync and the script read it. */
export type Company = { readonly server: Server; readonly apiKey: string; readonly notices: number }

export type MeasureOptions = {
  readonly company: Company
  /** A small one, for the first sync. */
  readonly small: Company
  readonly concurrency: number
  /** An empty directory for everything that is written. */
  readonly directory: string
  readonly onStep: (step: string) => void
}

/**
 * One round: each run of the sync is followed by the same run of the script, so that both see the machine alike.
 * @throws Error if a run did not do the expected work, or the script's rows are not those of the sync.
 */
export async function measure(options: MeasureOptions): Promise<Measured> {
  const { company, onStep } = options
  const { server, notices } = company
  const ours = await placeFor(options, company, 'sync')
  const script = await placeFor(options, company, 'script')
  onStep('full sync')
  const full = await syncFull(ours, notices)
  onStep('script')
  const scriptFull = await runMirrorScript(script, { loaded: notices })
  await expectSameRows(ours, script)
  onStep('floors')
  const requests = await measureRequests(ours, full)
  const load = await measureLoad(script)
  const compression = await measureCompression(script)
  onStep('nothing changed')
  const unchanged = await syncOnce(ours, [], { loaded: 0 })
  const scriptUnchanged = await runMirrorScript(script, { loaded: 0 })
  const status = await runStatus(ours)
  onStep('some changed')
  const count = await server.change(CHANGED_SHARE)
  const changed = await syncOnce(ours, [], { loaded: count })
  const scriptChanged = await runMirrorScript(script, { loaded: count })
  await expectSameRows(ours, script)
  onStep('first sync')
  const { first, scriptFirst } = await measureFirst(options)
  return {
    full,
    scriptFull,
    requests,
    load,
    compression,
    unchanged,
    scriptUnchanged,
    status,
    changed,
    scriptChanged,
    first,
    scriptFirst,
  }
}

/** The first run of a small company: mostly the cost of starting. */
export async function measureFirst(
  options: Pick<MeasureOptions, 'small' | 'concurrency' | 'directory'>,
): Promise<Pick<Measured, 'first' | 'scriptFirst'>> {
  const { small } = options
  const ours = await placeFor(options, small, 'first-sync')
  const script = await placeFor(options, small, 'first-script')
  const first = await syncOnce(ours, ['--full'], { loaded: small.notices })
  const scriptFirst = await runMirrorScript(script, { loaded: small.notices })
  await expectSameRows(ours, script)
  return { first, scriptFirst }
}

async function placeFor(
  { concurrency, directory }: Pick<MeasureOptions, 'concurrency' | 'directory'>,
  { server, apiKey }: Company,
  name: string,
): Promise<Place> {
  const own = join(directory, name)
  await mkdir(own)
  return { server, apiKey, concurrency, directory: own }
}
