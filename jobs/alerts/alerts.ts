import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import type { AlertSettings } from '#config/alerts.ts'
import type { RedisClient } from '#jobs/queues/redis.ts'
import {
  type Alert,
  type AlertListener,
  cleared,
  type Details,
  isOwed,
  type News,
  noteAttempt,
  raised,
  settled,
} from './alert.ts'
import { type Outbox, openOutbox, openSpareOutbox } from './outbox.ts'
import { post, type Receiver, type ReceiverAnswer, receiverOf } from './receivers.ts'
import { severityOf } from './table.ts'

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
    createDelivery({ ...options, outbox, receiver: receiverOf(route, prefix), repeatMs: settings.repeatMs }),
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
  return { alert: name, severity: severityOf(name), ...(company === null ? {} : { company }) }
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
    const pending = all.filter(alert => isOwed(alert, listenerOf(options), now()))
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

function listenerOf({ receiver: { to, severities }, repeatMs }: Delivery): AlertListener {
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
      known?.id === alert.id && isOwed(known, listenerOf(options), now())
        ? noteAttempt(known, to, token)
        : known,
    )
    if (sent?.receipts[to]?.attempt?.token !== token) return null
    const { url, headers, body } = receiver.deliveryOf(sent)
    const answer = await post(url, body, { headers, ...(timeoutMs === undefined ? {} : { timeoutMs }) })
    const { outcome } = answer
    await outbox.change(alert, known => settled(known, { to, alert: sent, outcome, now: now() }))
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
