import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import type { AlertSettings } from '#config/alerts.ts'
import type { Company } from '#jobs/queues/company_registry.ts'
import type { RedisClient } from '#jobs/queues/redis.ts'
import { broughtNothing, type CompanyState } from '#src/core/company/state.ts'
import { formatCount, pluralize } from '#src/lib/count.ts'
import { storeBehind } from '#src/operate/extras.ts'
import {
  type Alert,
  type AlertListener,
  clearAlert,
  type Details,
  isOwed,
  type News,
  noteAttempt,
  raiseAlert,
  settleAlert,
} from './alert.ts'
import { type Outbox, openOutbox, openSpareOutbox } from './outbox.ts'
import { createReceiver, post, type Receiver, type ReceiverAnswer } from './receivers.ts'
import { findSeverity } from './table.ts'

/** After a failure a message waits this long, then twice as long each time, up to the maximum. */
const FIRST_DELAY_MS = 30_000
const MAX_DELAY_MS = 15 * 60_000

/**
 * The current alerts, in Redis, and their receivers. Each gets one message when an alert of its severities is raised,
 * one when it recovers, and repetitions in between. All workers share the alerts: raising a raised one, or clearing one
 * that is not raised, changes nothing, and if several workers deliver, one sends. Without Redis each worker continues on
 * its own.
 */
export type Alerts = {
  /** Raises an alert. @returns whether that is new. */
  raise(news: News & { readonly details?: Details }): Promise<boolean>
  /** Clears an alert. @returns whether that is new. */
  clear(news: News): Promise<boolean>
  /** Returns the raised alerts. */
  active(): Promise<Alert[]>
  /** Removes, without a message, all alerts about a company or a subject (such as a directory) that is gone. */
  forget(what: string): Promise<void>
  /** Sends what is not delivered yet. If a receiver fails, this does not throw, and a later call retries. */
  deliver(): Promise<void>
}

type AlertsOptions = {
  readonly redis: RedisClient
  readonly prefix: string
  /** Without a route, alerts are kept and logged, but not sent. */
  readonly settings: Pick<AlertSettings, 'routes' | 'repeatMs'>
  readonly log: Logger
  readonly now: () => Date
  readonly timeoutMs?: number
}

export function createAlerts(options: AlertsOptions): Alerts {
  const { redis, prefix, settings, log, now } = options
  const outbox = openSpareOutbox(redis, openOutbox(redis, prefix))
  const deliveries = settings.routes.map(route =>
    createDelivery({
      ...options,
      outbox,
      receiver: createReceiver(route, prefix),
      repeatMs: settings.repeatMs,
    }),
  )
  const moment = () => ({ id: randomUUID(), now: now() })
  const active = async () => (await outbox.all()).filter(({ state }) => state === 'raised')
  return {
    active,
    async deliver() {
      if (deliveries.length === 0) return
      const all = await outbox.all()
      // Side by side: a receiver that does not answer must not hold up the others.
      const ended = await Promise.allSettled(deliveries.map(deliver => deliver(all)))
      for (const delivery of ended) if (delivery.status === 'rejected') throw delivery.reason
    },
    async raise(news) {
      const at = moment()
      const { before, after } = await outbox.change(news, known => raiseAlert(known, news, at))
      if (after === before) return false
      if (!news.isLogged) log.warn(about(news), news.message)
      return true
    },
    async clear(news) {
      const at = moment()
      const { before, after } = await outbox.change(news, known => clearAlert(known, news, at))
      if (after === before) return false
      if (!news.isLogged) log.info(about(news), news.message)
      return true
    },
    async forget(what) {
      const all = await outbox.all()
      await outbox.remove(all.filter(({ company, subject }) => company === what || subject === what))
    },
  }
}

function about({ name, company }: News) {
  return { alert: name, severity: findSeverity(name), ...(company === null ? {} : { company }) }
}

type Delivery = AlertsOptions & {
  readonly outbox: Outbox
  readonly receiver: Receiver
  readonly repeatMs: number
}

/** Remembers which messages failed, and whether the receiver does. */
function createDelivery(options: Delivery): (all: readonly Alert[]) => Promise<void> {
  const { receiver, log, now } = options
  const { title, setting } = receiver
  const delays = new Map<string, { readonly ms: number; readonly untilMs: number }>()
  let failing = false

  function postpone({ id }: Alert): void {
    const ms = Math.min((delays.get(id)?.ms ?? FIRST_DELAY_MS / 2) * 2, MAX_DELAY_MS)
    delays.set(id, { ms, untilMs: now().getTime() + ms })
  }

  function observe(ok: boolean, result: string): void {
    if (!ok && !failing) log.error(`${title} ${result}. Check ${setting}. Alerts are kept and sent later.`)
    if (ok && failing) log.info(`${title} accepts alerts again.`)
    failing = !ok
  }

  return async function deliver(all) {
    const pending = all.filter(alert => isOwed(alert, createListener(options), now()))
    forgetDelays(delays, pending)
    const due = pending.filter(({ id }) => (delays.get(id)?.untilMs ?? 0) <= now().getTime()).sort(byTime)
    for (const [index, alert] of due.entries()) {
      const answer = await send(alert, options)
      if (!answer) continue
      observe(answer.outcome === 'delivered', answer.said)
      if (answer.outcome === 'delivered') {
        delays.delete(alert.id)
        continue
      }
      postpone(alert)
      if (answer.outcome === 'refused') continue
      // A receiver that does not answer would not answer the others either.
      for (const other of due.slice(index + 1)) postpone(other)
      return
    }
  }
}

function createListener({ receiver: { to, severities }, repeatMs }: Delivery): AlertListener {
  return { to, severities, repeatMs }
}

/** Sends an alert to its receiver. @returns null if it no longer needs to be sent, or another worker sends it. */
async function send(alert: Alert, options: Delivery): Promise<ReceiverAnswer | null> {
  const { receiver, outbox, now, timeoutMs } = options
  const { to } = receiver
  const token = randomUUID()
  if (!(await outbox.claim({ alert, to }, token))) return null
  try {
    const { after: sent } = await outbox.change(alert, known =>
      known?.id === alert.id && isOwed(known, createListener(options), now())
        ? noteAttempt(known, to, token)
        : known,
    )
    if (sent?.receipts[to]?.attempt?.token !== token) return null
    const { url, headers, body } = receiver.chooseDelivery(sent)
    const answer = await post(url, body, { headers, ...(timeoutMs === undefined ? {} : { timeoutMs }) })
    const { outcome } = answer
    await outbox.change(alert, known => settleAlert(known, { to, alert: sent, outcome, now: now() }))
    return answer
  } finally {
    await outbox.release({ alert, to }, token)
  }
}

function byTime(a: Alert, b: Alert): number {
  return Date.parse(a.at) - Date.parse(b.at)
}

/** Forgets the times of what is not pending now: it was delivered, or is not raised any more. */
function forgetDelays(delays: Map<string, unknown>, pending: readonly Alert[]): void {
  const ids = new Set(pending.map(({ id }) => id))
  for (const id of delays.keys()) if (!ids.has(id)) delays.delete(id)
}

/** An object store that fails once may be well at the next run. */
const STORE_BEHIND_MS = 10 * 60_000

/** Raises and clears the alerts that a run's own result shows; `state` is what the run left. */
export async function alertAfterRun(alerts: Alerts, company: Company, state: CompanyState): Promise<void> {
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
      message: `${pluralize(open, 'record')} in quarantine, up from ${formatCount(baseline)} before this run. \`editais query --company ${slug} "SELECT * FROM quarantine WHERE resolved_at IS NULL"\` shows what is there; the next runs retry it.`,
      details: { open, baseline },
    })
  } else await alerts.clear({ ...about, message: `The quarantine is back to ${pluralize(open, 'record')}.` })
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
