import { type Column, company, kept, keptCount, type Table } from './columns.ts'

/** The counters of a run, in the order of their columns. `RunReport` has exactly these, so each has a column. */
export const RUN_COUNTERS = {
  listed: 'Notices listed: the sum of the seven outcomes from unchanged to not_attempted',
  added: 'Notices seen for the first time',
  changed: 'Notices whose list fields changed',
  unchanged: 'Outcome: nothing to do',
  loaded: 'Outcome: analysis fetched and loaded',
  deferred: 'Outcome: status excluded, here or by the API, or next attempt not due yet',
  gone: 'Outcome: vanished between the list and the analysis',
  quarantined: 'Outcome: not usable, set aside',
  failed: 'Outcome: the API did not answer usefully',
  not_attempted: 'Outcome: the run ended before its turn',
  tombstoned: 'Notices verified to be gone and marked deleted',
  revived: 'Deleted notices that returned',
  silent_changes: 'Analyses that changed without a new updated_at',
  requests: 'HTTP requests sent',
  bytes_fetched: 'Bytes of response bodies received',
  scan_passes: 'Passes over the list',
} as const satisfies Readonly<Record<string, string>>

export type RunCounter = keyof typeof RUN_COUNTERS

/** Every listed notice ends a run in exactly one of these (invariant I1). */
export const OUTCOMES = [
  'unchanged',
  'loaded',
  'deferred',
  'gone',
  'quarantined',
  'failed',
  'not_attempted',
] as const satisfies readonly RunCounter[]

const UNITS: Partial<Record<RunCounter, string>> = { bytes_fetched: 'bytes' }

function counter(name: RunCounter): Column {
  const unit = UNITS[name]
  return { ...keptCount(name, RUN_COUNTERS[name]), ...(unit ? { unit } : {}) }
}

export const syncRuns: Table = {
  name: 'sync_runs',
  description: 'Every run of the sync, with the outcomes of the notices that it listed',
  document: 'kept',
  rows: 'history',
  files: 'one',
  columns: [
    company,
    kept('run_id', 'VARCHAR', 'Identifier of the run'),
    kept('mode', 'VARCHAR', 'full, incremental, filtered, replay or salvage (repair of a damaged log)'),
    kept('status', 'VARCHAR', 'ok, partial, failed or interrupted'),
    kept('started_at', 'TIMESTAMPTZ', 'Start of the run'),
    kept('finished_at', 'TIMESTAMPTZ', 'End of the run; NULL if the process died'),
    ...(Object.keys(RUN_COUNTERS) as RunCounter[]).map(counter),
    kept('scan_complete', 'BOOLEAN', 'Whether a pass over the list was verified to be complete'),
    kept('error', 'VARCHAR', 'What went wrong and what to do'),
  ],
}
