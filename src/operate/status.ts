import type { CompanyPaths } from '#src/core/company/company.ts'
import type { RunReport } from '#src/core/company/run_report.ts'
import { describeFailure, type Failure, readFailure } from '#src/core/company/run_report.ts'
import { readState } from '#src/core/company/state.ts'
import { countNotices, type Manifest, type NoticeCounts, requireLatest } from '#src/core/lake/manifest.ts'
import type { Row } from '#src/core/warehouse/database.ts'
import { closing } from '#src/lib/closing.ts'
import { FatalError } from '#src/lib/errors.ts'
import { type LockHolder, readHolder } from '#src/lib/lock.ts'
import { listReaders } from './extras.ts'

/** The state of a company; what `status --json` prints. */
export type Status = {
  readonly company: string
  readonly held_by: LockHolder | null
  readonly last_run: RunReport | null
  /** Runs that could not begin, died or hung, since the last one that did not. Null if there were none. */
  readonly last_failure: Failure | null
  /** End of the last run that processed everything listed, or of a later look. */
  readonly last_good_at: string | null
  /** When the daemon last looked at the list since that run, and found nothing new; null if it did not. */
  readonly looked_at: string | null
  readonly snapshot: { readonly directory: string; readonly created_at: string }
  readonly notices: readonly NoticeCounts[]
  readonly quarantine: readonly Row[]
  readonly drift: readonly Row[]
}

/** A company's status, with what its readers left: `metabase`, `remote`; null for each that is not used. */
export type StatusWithReaders = Status & Readonly<Record<string, unknown>>

/** Reads the latest snapshot and the last run's report; never the warehouse, which a sync may hold. */
export async function readStatus(paths: CompanyPaths): Promise<StatusWithReaders> {
  const failure = await readFailure(paths)
  const manifest = await requireLatest(paths.lake).catch(error => {
    throw error instanceof FatalError && failure !== null ? withCause(error, failure) : error
  })
  const state = await readState(paths)
  return {
    company: paths.company,
    held_by: await readHolder(paths.lock),
    last_run: state?.last_run ?? null,
    last_failure: failure,
    last_good_at: state?.last_good_at ?? null,
    looked_at: state?.looked_at ?? null,
    snapshot: { directory: manifest.directory, created_at: manifest.created_at },
    ...Object.fromEntries(
      await Promise.all(listReaders().map(async ({ key, read }) => [key, await read(paths)])),
    ),
    ...(await readSnapshot(manifest)),
  }
}

/** Describes for people what the readers of the lake have. */
export function describeReaders(status: StatusWithReaders): string[] {
  return listReaders().flatMap(reader => {
    const state = status[reader.key]
    return state ? reader.describe(state, status.snapshot.directory) : []
  })
}

/**
 * Reads counts from the snapshot. If nothing is quarantined, which is usual, it does not even load DuckDB, which takes longer
 * than everything else here.
 */
async function readSnapshot(manifest: Manifest): Promise<Pick<Status, 'notices' | 'quarantine' | 'drift'>> {
  const { notices, tables } = manifest
  if (notices && tables.quarantine?.rows === 0 && tables.schema_drift?.rows === 0)
    return { notices, quarantine: [], drift: [] }
  const { openManifest } = await import('#src/core/lake/read.ts')
  using db = closing(await openManifest(manifest))
  return {
    notices: notices ?? (await countNotices(db)),
    quarantine: await db.rows(
      `SELECT kind, edital_id, reason, path, attempts, next_attempt_at FROM quarantine
       WHERE resolved_at IS NULL ORDER BY observed_at DESC`,
    ),
    drift: await db.rows(
      'SELECT path, kind, sample, count, last_seen_at FROM schema_drift ORDER BY last_seen_at DESC',
    ),
  }
}

/** Adds the last failure to the error: before the first snapshot, nothing else is known. */
function withCause({ message, exitCode }: FatalError, failure: Failure): FatalError {
  return new FatalError(`${message} The last run ${describeFailure(failure)}`, exitCode)
}
