import type { Company } from '#jobs/queues/company_registry.ts'
import { broughtNothing, type CompanyState } from '#src/core/company/state.ts'
import { counted, formatCount } from '#src/lib/count.ts'
import { storeBehind } from '#src/operate/extras.ts'
import type { Alerts } from './alerts.ts'

/** An object store that fails once may be well at the next run. */
const STORE_BEHIND_MS = 10 * 60_000

/** Raises and clears the alerts that a run's own result shows; `state` is what the run left. */
export async function afterRun(alerts: Alerts, company: Company, state: CompanyState): Promise<void> {
  const { slug } = company
  // A run that hangs and gives its slot to others leaves a report too: the alert would come and go forever.
  if (!broughtNothing(state.last_run)) {
    await alerts.clear({ name: 'run_failed', company: slug, message: 'Runs finish again.' })
  }
  await judgeKey(alerts, company, state)
  await judgeGuard(alerts, company, state)
  await judgeQuarantine(alerts, company, state)
  await judgeStore(alerts, company)
}

async function judgeKey(
  alerts: Alerts,
  { slug }: Company,
  { causes, last_run }: CompanyState,
): Promise<void> {
  const about = { name: 'key_refused', company: slug } as const
  if (causes.includes('key_refused')) {
    await alerts.raise({
      ...about,
      message:
        "The API rejects the key (401): it is missing, invalid or revoked. Create a new key in the app's settings and put it into the file of API_KEY_FILE; the next run reads it. If you set API_KEY instead, restart the worker.",
    })
  } else if (wasListed(last_run) || causes.includes('identity_guard')) {
    await alerts.clear({ ...about, message: 'The API accepts the key again.' })
  }
}

async function judgeGuard(alerts: Alerts, { slug }: Company, state: CompanyState): Promise<void> {
  const about = { name: 'identity_guard', company: slug } as const
  const { causes, last_run } = state
  const believe = `if it is right, run \`editais sync --company ${slug} --allow-mass-delete\``
  if (causes.includes('identity_guard')) {
    await alerts.raise({
      ...about,
      message: `The API lists none of the stored notices. The key may belong to another company, or the answer may be empty by mistake. Nothing was changed. Check the key; ${believe}.`,
    })
  } else if (causes.includes('mass_deletion_held')) {
    await alerts.raise({
      ...about,
      message: `Too many notices are gone from the API at once, so none was marked deleted. The key may belong to another company. Check the key; ${believe}.`,
    })
  } else if (wasListed(last_run) && last_run.mode !== 'filtered' && !causes.includes('missing_unverified')) {
    await alerts.clear({ ...about, message: 'The API lists the stored notices again.' })
  }
}

async function judgeQuarantine(alerts: Alerts, { slug }: Company, state: CompanyState): Promise<void> {
  const about = { name: 'quarantine_growing', company: slug } as const
  const { quarantined: open, quarantined_before: before } = state
  const known = (await alerts.active()).find(alert => alert.name === about.name && alert.company === slug)
  const baseline = known ? Number(known.details.baseline) : before
  if (open > baseline) {
    await alerts.raise({
      ...about,
      message: `${counted(open, 'record')} in quarantine, up from ${formatCount(baseline)} before this run. \`editais query --company ${slug} "SELECT * FROM quarantine WHERE resolved_at IS NULL"\` shows what is there; the next runs retry it.`,
      details: { open, baseline },
    })
  } else await alerts.clear({ ...about, message: `The quarantine is back to ${counted(open, 'record')}.` })
}

export async function judgeStore(alerts: Alerts, { slug, settings, paths }: Company): Promise<void> {
  const about = { name: 'store_behind', company: slug } as const
  const behind = await storeBehind(settings, paths)
  if (behind === null) {
    await alerts.clear({ ...about, message: 'The object store has the latest snapshot.' })
  } else if (Date.parse(behind.triedAt) - Date.parse(behind.since) >= STORE_BEHIND_MS) {
    await alerts.raise({
      ...about,
      message: `The object store has not had the latest snapshot since ${behind.since}. The last attempt: ${behind.error} Each tick of the schedule tries again; \`editais lake publish --company ${slug}\` does so now.`,
    })
  }
}

/**
 * Returns whether the whole list was read, and notices missing from it were requested. A run that failed or was stopped before
 * that does not know whether the key is accepted, or what it may see.
 */
function wasListed({ scan_passes }: CompanyState['last_run']): boolean {
  return scan_passes > 0
}
