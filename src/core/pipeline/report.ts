import type { ApiStats } from '#src/core/api/client.ts'
import {
  convertExitToStatus,
  type Reported,
  type RunReport,
  type Shortcoming,
  withFindings,
} from '#src/core/company/run_report.ts'
import { formatCount, pluralize } from '#src/lib/count.ts'
import { explain, FatalError, type RequestError } from '#src/lib/errors.ts'
import { countAttempted, type Fetched } from './fetch.ts'
import type { Missing } from './missing.ts'
import type { Scan } from './scan.ts'
import type { Survey } from './survey.ts'

/** The list may change while it is read, so a small difference is no reason to distrust it. */
const FEW_NOT_SHOWN = 20
const SHARE_NOT_SHOWN = 0.05

/** The results of a run's stages; null for a stage that it did not finish. */
export type Outcomes = {
  readonly surveyed: Survey | null
  readonly fetched: Fetched | null
  /** The error that ended the run early. */
  readonly ended: FatalError | RequestError | null
  /** Notices whose lines could not be loaded and were quarantined instead. */
  readonly poisoned: readonly string[]
  readonly requests: ApiStats
}

/**
 * Returns the report of a run: its counters and everything that it has to explain, from what its stages returned.
 * @param begun the run's report as it began, with all counters 0.
 */
export function composeReport(begun: RunReport, outcomes: Outcomes): Reported {
  const { surveyed, fetched, ended, requests } = outcomes
  const totals: RunReport = {
    ...begun,
    ...(surveyed ? countOutcomes(surveyed, fetched, outcomes.poisoned) : {}),
    requests: requests.requests,
    bytes_fetched: requests.bytes,
  }
  const findings = [
    ...(surveyed ? [...explainMissing(surveyed.missing), ...explainScan(surveyed.scanned, totals)] : []),
    ...(fetched ? explainFetched(fetched) : []),
    ...(ended ? [explainEnd(ended)] : []),
    ...explainQuarantined(totals),
  ]
  return withFindings(totals, findings)
}

type Counts = Omit<RunReport, 'run_id' | 'mode' | 'status' | 'started_at' | 'finished_at' | 'error'>

/** Counts the outcomes of the listed notices. Each has exactly one (invariant I1). */
function countOutcomes(
  { plan, missing, scanned }: Survey,
  fetched: Fetched | null,
  poisoned: readonly string[],
): Omit<Counts, 'requests' | 'bytes_fetched'> {
  // Fetched, but not loadable.
  const moved = Math.min(new Set(poisoned).size, fetched?.loaded ?? 0)
  return {
    scan_passes: scanned.passes,
    scan_complete: scanned.complete,
    listed: plan.listed + scanned.absent.length + scanned.failed.length,
    added: plan.added,
    changed: plan.changed,
    revived: plan.revived,
    tombstoned: missing.gone.length,
    unchanged: plan.unchanged,
    loaded: (fetched?.loaded ?? 0) - moved,
    deferred: plan.deferred + (fetched?.excluded ?? 0),
    gone: scanned.absent.length + (fetched?.gone ?? 0),
    quarantined: plan.rejected + (fetched?.quarantined ?? 0) + moved,
    failed: scanned.failed.length + (fetched?.failed ?? 0),
    not_attempted: plan.toFetch - (fetched ? countAttempted(fetched) : 0),
    silent_changes: fetched?.silentChanges ?? 0,
  }
}

function explainMissing({ held, unverified }: Missing): Shortcoming[] {
  const [first] = unverified
  return [
    ...(held
      ? [
          {
            status: 'partial' as const,
            reason:
              'Too many notices disappeared from the API at once, so none was marked as deleted. Check that API_KEY is the key of this company. If the deletions are real, run with --allow-mass-delete.',
            cause: 'mass_deletion_held' as const,
          },
        ]
      : []),
    ...(first
      ? [
          {
            status: 'partial' as const,
            reason: `${pluralize(unverified.length, 'notice')} that the list no longer shows could not be checked, such as ${first.id}: ${first.reason}.`,
            cause: 'missing_unverified' as const,
          },
        ]
      : []),
  ]
}

/** Explains why notices that were requested by id could not be read. */
export function explainIds({ absent, failed }: Pick<Scan, 'absent' | 'failed'>): Shortcoming[] {
  const findings: Shortcoming[] = []
  if (absent.length > 0) {
    const more = absent.length > 3 ? ` and ${pluralize(absent.length - 3, 'other')}` : ''
    const reason = `The API has no notice ${absent.slice(0, 3).join(', ')}${more} for this company. Check --id; if the API had it before, the next sync without --id marks it deleted.`
    findings.push({ status: 'partial', reason })
  }
  const [first] = failed
  if (first) {
    const reason = `${pluralize(failed.length, 'notice')} could not be read, such as ${first.id}: ${first.reason}.`
    findings.push({ status: 'partial', reason })
  }
  return findings
}

function explainScan(scanned: Scan, { listed }: RunReport): Shortcoming[] {
  const { total } = scanned
  const findings = explainIds(scanned)
  if (total - listed > Math.max(FEW_NOT_SHOWN, total * SHARE_NOT_SHOWN)) {
    const reason = `The list reports ${pluralize(total, 'notice')} but returned only ${formatCount(listed)}. The API is at fault; the next run tries again.`
    findings.push({ status: 'partial', reason })
  }
  return findings
}

function explainFetched({ failed, stopped, lastFailure, excluded, lastExcluded }: Fetched): Shortcoming[] {
  const findings: Shortcoming[] = []
  if (failed > 0 && !stopped) {
    const reason = `${pluralize(failed, 'analysis', 'analyses')} could not be fetched. Last failure: ${lastFailure}.`
    findings.push({ status: 'partial', reason })
  }
  if (excluded > 0) {
    // Not a failure, just as when ANALYSIS_STATUSES excludes them.
    const reason = `The API does not offer ${pluralize(excluded, 'analysis', 'analyses')}. Last one: ${lastExcluded}. To skip such analyses, set ANALYSIS_STATUSES here to the phases that it offers.`
    findings.push({ status: 'ok', reason })
  }
  return findings
}

function explainEnd(ended: FatalError | RequestError): Shortcoming {
  if (ended instanceof FatalError)
    return { status: convertExitToStatus(ended.exitCode), reason: ended.message, cause: ended.why }
  return { status: 'failed', reason: explain(ended).message }
}

/** Explains why quarantined records make the run partial: any of them does. */
function explainQuarantined({ quarantined }: RunReport): Shortcoming[] {
  if (quarantined === 0) return []
  const reason = `${pluralize(quarantined, 'record')} quarantined; see \`editais status\`.`
  return [{ status: 'partial', reason }]
}
