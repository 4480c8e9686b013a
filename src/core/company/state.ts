import { readFile } from 'node:fs/promises'
import { move, writeNew } from '#src/lib/durable.ts'
import type { Cause } from '#src/lib/errors.ts'
import type { CompanyPaths } from './company.ts'
import type { RunReport } from './run_report.ts'

/** The state after the last run: enough for `status`, metrics and alerts, without opening a database. */
export type CompanyState = {
  readonly last_run: RunReport
  /** Why the last run was not ok, for programs. */
  readonly causes: readonly Cause[]
  /** When the last run ended that attempted everything listed; null before the first. */
  readonly last_good_at: string | null
  /** Unresolved records in quarantine, now and before the last run. */
  readonly quarantined: number
  readonly quarantined_before: number
  /** The log's name. Version 0.2.0 did not write it. */
  readonly log?: string | null
  readonly raw_log: { readonly segments: number; readonly bytes: number }
  readonly snapshot: { readonly directory: string; readonly bytes: number }
}

/** The state of a company: what its last run left, and the looks since then that found nothing new. */
export type KnownState = CompanyState & {
  /** When the last of these looks ended; it is `last_good_at` too. Null if there was none. */
  readonly looked_at: string | null
}

/** Returns null before the first run. */
export async function readState({ state, look }: CompanyPaths): Promise<KnownState | null> {
  const known = await readJson<CompanyState>(state)
  if (known === null) return null
  const last = await readJson<Look>(look)
  // A later run has read the list too, and says more.
  const looked_at = last?.run_id === known.last_run.run_id ? last.at : null
  return { ...known, looked_at, last_good_at: looked_at ?? known.last_good_at }
}

/** A look that found nothing new since a run. */
type Look = { readonly at: string; readonly run_id: string }

/** Records a look, atomically. In a file of its own, so that it never replaces the state that a run writes at the same time. */
export async function writeLook({ look: path }: CompanyPaths, look: Look): Promise<void> {
  await writeNew(`${path}.part`, `${JSON.stringify(look)}\n`)
  await move('look.rename', `${path}.part`, path)
}

async function readJson<T>(path: string): Promise<T | null> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as T
  } catch {
    return null
  }
}

/** Writes the state atomically, so that it can be read at any time. */
export async function writeState({ state: path }: CompanyPaths, state: CompanyState): Promise<void> {
  await writeNew(`${path}.part`, `${JSON.stringify(state)}\n`)
  await move('state.rename', `${path}.part`, path)
}

/** Returns whether a run was interrupted before it loaded anything. It does not show that runs finish again. */
export function broughtNothing({ status, loaded }: RunReport): boolean {
  return status === 'interrupted' && loaded === 0
}

/**
 * How far a log goes: up to this segment. Each log counts its segments from 1, so two positions have an order only if they
 * are of the same log: a salvaged log and a new one begin again. A restored backup has the name of its original, and may
 * continue in another way: a later position proves only that the log once had more.
 */
export class LogPosition {
  readonly #log: string
  readonly #segment: number

  private constructor(log: string, segment: number) {
    this.#log = log
    this.#segment = segment
  }

  /**
   * Returns the position in a log; null if the log's name is not known: version 0.2.0 did not write it.
   * @param log its name (`meta.log`).
   */
  static of(log: string | null | undefined, segment: number): LogPosition | null {
    return log ? new LogPosition(log, segment) : null
  }

  /** Returns whether this one is before or after another; null if they are of two logs. */
  compare(other: LogPosition): 'before' | 'same' | 'after' | null {
    if (this.#log !== other.#log) return null
    if (this.#segment === other.#segment) return 'same'
    return this.#segment < other.#segment ? 'before' : 'after'
  }
}
