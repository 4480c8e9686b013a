import { readFile } from 'node:fs/promises'
import { move, writeNew } from '#src/platform/durable.ts'
import type { Cause } from '#src/platform/errors.ts'
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
  readonly raw_log: { readonly segments: number; readonly bytes: number }
  readonly snapshot: { readonly directory: string; readonly bytes: number }
}

/** Null before the first run. */
export async function readState({ state }: CompanyPaths): Promise<CompanyState | null> {
  try {
    return JSON.parse(await readFile(state, 'utf8')) as CompanyState
  } catch {
    return null
  }
}

/** Written atomically, so that it can be read at any time. */
export async function writeState({ state: path }: CompanyPaths, state: CompanyState): Promise<void> {
  await writeNew(`${path}.part`, `${JSON.stringify(state)}\n`)
  await move('state.rename', `${path}.part`, path)
}

/** A run interrupted before it loaded anything. It does not show that runs finish again. */
export function broughtNothing({ status, loaded }: RunReport): boolean {
  return status === 'interrupted' && loaded === 0
}
