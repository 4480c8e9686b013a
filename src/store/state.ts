import { readFile } from 'node:fs/promises'
import { move, writeNew } from '#src/platform/durable.ts'
import type { Cause } from '#src/platform/errors.ts'
import type { CompanyPaths } from './company.ts'
import type { RunReport } from './run_report.ts'

/** What the last run left: enough for `status`, metrics and alerts, without opening a database. */
export type CompanyState = {
  readonly last_run: RunReport
  /** Why the last run was not ok, as far as a machine should know. */
  readonly causes: readonly Cause[]
  /** When the last run ended that went through everything listed; null before the first. */
  readonly last_good_at: string | null
  /** Records in quarantine, unresolved: now, and before the last run. */
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

/** Whole or not at all, so that it can be read at any time. */
export async function writeState({ state: path }: CompanyPaths, state: CompanyState): Promise<void> {
  await writeNew(`${path}.part`, `${JSON.stringify(state)}\n`)
  await move('state.rename', `${path}.part`, path)
}

/** A run that was ended before it loaded anything: it does not show that runs come to their end again. */
export function broughtNothing({ status, loaded }: RunReport): boolean {
  return status === 'interrupted' && loaded === 0
}

/** A run over everything that attempted all that was listed: the data is as fresh as the API. */
export function wentThrough({ mode, status, not_attempted }: RunReport): boolean {
  const everything = mode === 'full' || mode === 'incremental'
  return everything && (status === 'ok' || status === 'partial') && not_attempted === 0
}
