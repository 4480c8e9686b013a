import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import type { RedisClient } from '../redis_client.ts'
import {
  type Alert,
  attempted,
  cleared,
  type Details,
  isUntold,
  messageOf,
  type News,
  raised,
  settled,
} from './alert.ts'
import { type Outbox, openOutbox } from './outbox.ts'
import { openSpareOutbox } from './spare_outbox.ts'
import { type Answer, post } from './webhook.ts'

/** After a failure a message waits this long, then twice as long each time, up to the maximum. */
const FIRST_DELAY_MS = 30_000
const MAX_DELAY_MS = 15 * 60_000

/**
 * The current alerts, in Redis, and the webhook, which gets one message when an alert is raised and one when it
 * recovers. All workers share the alerts: raising a raised one, or clearing one that is not raised, changes nothing,
 * and if several workers deliver, one sends. Without Redis each worker continues on its own.
 */
export type Alerts = {
  /** Raises an alert. @returns whether that is new. */
  raise(news: News & { readonly details?: Details }): Promise<boolean>
  /** Clears an alert. @returns whether that is new. */
  clear(news: News): Promise<boolean>
  /** The raised alerts. */
  active(): Promise<Alert[]>
  /** Removes, without a message, all alerts about a company or a subject (such as a directory) that is gone. */
  forget(what: string): Promise<void>
  /** Sends what is not delivered yet. If the webhook fails, this does not throw, and a later call retries. */
  deliver(): Promise<void>
}

export type AlertsOptions = {
  readonly redis: RedisClient
  readonly prefix: string
  /** May hold a token: only its host is ever shown. Null: alerts are kept and logged, but not sent. */
  readonly webhookUrl: string | null
  readonly log: Logger
  readonly now: () => Date
  readonly timeoutMs?: number
}

export function createAlerts(options: AlertsOptions): Alerts {
  const { redis, prefix, webhookUrl, log, now } = options
  const outbox = openSpareOutbox(redis, openOutbox(redis, prefix))
  const deliver = webhookUrl === null ? async () => {} : createDelivery({ ...options, webhookUrl, outbox })
  const moment = () => ({ id: randomUUID(), now: now() })
  const active = async () => (await outbox.all()).filter(({ state }) => state === 'raised')
  return {
    active,
    deliver,
    async raise(news) {
      const at = moment()
      const { before, after } = await outbox.change(news, known => raised(known, news, at))
      if (after === before) return false
      if (!news.isLogged) log.warn(about(news), news.message)
      return true
    },
    async clear(news) {
      const at = moment()
      const { before, after } = await outbox.change(news, known => cleared(known, news, at))
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
  return { alert: name, ...(company === null ? {} : { company }) }
}

type Delivery = AlertsOptions & { readonly webhookUrl: string; readonly outbox: Outbox }

/** Remembers which messages failed, and whether the webhook does. */
function createDelivery(options: Delivery): () => Promise<void> {
  const { webhookUrl, outbox, log, now } = options
  const { host } = new URL(webhookUrl)
  const delays = new Map<string, { readonly ms: number; readonly untilMs: number }>()
  let failing = false

  function postpone({ id }: Alert): void {
    const ms = Math.min((delays.get(id)?.ms ?? FIRST_DELAY_MS / 2) * 2, MAX_DELAY_MS)
    delays.set(id, { ms, untilMs: now().getTime() + ms })
  }

  function observe(ok: boolean, result: string): void {
    if (!ok && !failing) {
      log.error(
        `The alert webhook at ${host} ${result}. Check ALERT_WEBHOOK_URL. Alerts are kept and sent later.`,
      )
    }
    if (ok && failing) log.info(`The alert webhook at ${host} accepts alerts again.`)
    failing = !ok
  }

  return async function deliver() {
    const pending = (await outbox.all()).filter(isUntold)
    forgetDelays(delays, pending)
    const due = pending.filter(alert => isDue(alert, { delays, now: now() })).sort(byTime)
    for (const [index, alert] of due.entries()) {
      const answer = await send(alert, options)
      if (!answer) continue
      observe(answer.outcome === 'delivered', answer.said)
      if (answer.outcome === 'delivered') continue
      postpone(alert)
      if (answer.outcome === 'refused') continue
      // A webhook that does not answer would not answer the others either.
      for (const other of due.slice(index + 1)) postpone(other)
      return
    }
  }
}

/** @returns null if it no longer needs to be sent, or another worker sends it. */
async function send(alert: Alert, { webhookUrl, outbox, timeoutMs }: Delivery): Promise<Answer | null> {
  const token = randomUUID()
  if (!(await outbox.claim(alert, token))) return null
  try {
    const { after: sent } = await outbox.change(alert, known =>
      known && known.id === alert.id && isUntold(known) ? attempted(known, token) : known,
    )
    if (sent?.attempt?.token !== token) return null
    const answer = await post(webhookUrl, messageOf(sent), timeoutMs)
    await outbox.change(alert, known => settled(known, sent, answer.outcome))
    return answer
  } finally {
    await outbox.release(alert, token)
  }
}

type Delays = ReadonlyMap<string, { readonly untilMs: number }>

function isDue({ id, not_before }: Alert, { delays, now }: { delays: Delays; now: Date }): boolean {
  return Date.parse(not_before) <= now.getTime() && (delays.get(id)?.untilMs ?? 0) <= now.getTime()
}

function byTime(a: Alert, b: Alert): number {
  return Date.parse(a.at) - Date.parse(b.at)
}

function forgetDelays(delays: Map<string, unknown>, pending: readonly Alert[]): void {
  const ids = new Set(pending.map(({ id }) => id))
  for (const id of delays.keys()) if (!ids.has(id)) delays.delete(id)
}
