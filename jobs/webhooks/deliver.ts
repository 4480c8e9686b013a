import { DelayedError, type Job, UnrecoverableError } from 'bullmq'
import type { Logger } from 'pino'
import { Counter, Gauge, type Registry } from 'prom-client'
import { closing } from '#src/lib/closing.ts'
import { InterruptedError } from '#src/lib/errors.ts'
import { composeEvent, type Feeds, isWanted, RESET } from '#src/server/webhooks/feed.ts'
import { type Sent, sendMessage } from '#src/server/webhooks/send.ts'
import {
  type Backlog,
  type Delivery,
  readValidKeys,
  type Subscription,
  Subscriptions,
} from '#src/server/webhooks/subscriptions.ts'

const OWN = 'Of this worker, since it started: sum over the workers.'
const SHARED = 'Read from the data directory: every worker shows the same, so take the max over them.'

export type WebhookMetrics = {
  /** Counts an attempt to post a message, by its outcome. */
  attempted(company: string, outcome: Sent['outcome']): void
  /** Sets the source of what waits for each receiver. */
  watch(backlogs: () => readonly Backlog[]): void
  /** Reads that source, for a scrape. */
  show(): void
}

/** Returns what this worker posted to receivers, and what waits for them. */
export function createWebhookMetrics(registry: Registry, now: () => Date): WebhookMetrics {
  const { attempts, ...gauges } = define(registry)
  let read: () => readonly Backlog[] = () => []
  return {
    attempted: (company, outcome) => attempts.inc({ company, outcome }),
    watch(backlogs) {
      read = backlogs
    },
    show() {
      for (const gauge of Object.values(gauges)) gauge.reset()
      for (const { id: webhook, company, queued, dead, oldestMs, isStopped } of readable(read)) {
        gauges.messages.set({ company, webhook, state: 'waiting' }, queued)
        gauges.messages.set({ company, webhook, state: 'given_up' }, dead)
        const waitedMs = oldestMs === null ? 0 : now().getTime() - oldestMs
        gauges.oldest.set({ company, webhook }, Math.max(0, waitedMs) / 1000)
        gauges.stopped.set({ company, webhook }, isStopped ? 1 : 0)
      }
    },
  }
}

function define(registry: Registry) {
  const registers = [registry]
  const gauge = (name: string, help: string, labelNames: string[]) =>
    new Gauge({ name, help: `${help} ${SHARED}`, labelNames, registers })
  return {
    attempts: new Counter({
      name: 'editais_webhook_attempts_total',
      help: `Messages posted to receivers by outcome: received, failed (it is tried again), unwanted (410: the webhook is stopped). ${OWN}`,
      labelNames: ['company', 'outcome'],
      registers,
    }),
    messages: gauge(
      'editais_webhook_messages',
      'Messages by state: waiting (to be sent, perhaps again), given_up (only a replay sends them again).',
      ['company', 'webhook', 'state'],
    ),
    oldest: gauge(
      'editais_webhook_oldest_waiting_seconds',
      'Age of the oldest message that waits; 0 if none does.',
      ['company', 'webhook'],
    ),
    stopped: gauge(
      'editais_webhook_stopped',
      '1 for a webhook that is stopped, because its receiver answered 410 or its API key is no longer valid; 0 for the others.',
      ['company', 'webhook'],
    ),
  }
}

/** Returns no metrics if the webhooks cannot be read, and logs why: the other metrics do not depend on them. */
function readable(read: () => readonly Backlog[]): readonly Backlog[] {
  try {
    return read()
  } catch {
    return []
  }
}

export type WebhookJob = { readonly company: string; readonly subscription: string }

const [SECOND, MINUTE, HOUR] = [1000, 60_000, 3_600_000]
/** Before each further attempt, as Standard Webhooks recommends: three days in all. */
export const DELAYS_MS: readonly number[] = [
  5 * SECOND,
  5 * MINUTE,
  30 * MINUTE,
  2 * HOUR,
  5 * HOUR,
  10 * HOUR,
  14 * HOUR,
  20 * HOUR,
  24 * HOUR,
]
/** A receiver that failed gets no other message for a while: first this, then doubled up to the maximum. */
const REST_MS: RestLimits = { first: 5 * SECOND, most: 5 * MINUTE }
/** Messages that a receiver gets at the same time; one after it failed. So one that hangs leaves places for the others. */
const AT_A_TIME_EACH = 3
/** A message for a receiver that has enough under way, or whose attempt was cut short by the end of its worker. */
const AGAIN_MS = 500
/**
 * Between messages of a receiver that come back because they had to wait: all receivers share one queue, and a thousand messages
 * of one that is down would come back together, again and again, before those of the others.
 */
const APART_MS = 20
/** A lookup in the file blocks all answers of this process. */
const WAIT_MS = 50

export type RestLimits = { readonly first: number; readonly most: number }
/** The state of a receiver. */
type Receiver = {
  /** Messages that it is being sent. */
  readonly underWay: Set<string>
  rest: { readonly untilMs: number; readonly ms: number } | null
  /** When the last of the messages comes back that had to wait. */
  lastBackMs: number
}

type DeliverOptions = {
  readonly dataDir: string
  readonly allowPrivate: boolean
  /** Whether a company is one of this worker. */
  readonly isOurs: (company: string) => boolean
  /** How long to wait before each further attempt. */
  readonly delaysMs: readonly number[]
  readonly rests?: RestLimits
  /** Adds jobs for messages that have none. */
  readonly enqueue: PumpOptions['enqueue']
  /** Called with what prevents sending, or adding jobs; both are tried again. */
  readonly onError: (error: unknown) => void
  readonly metrics?: Pick<WebhookMetrics, 'attempted'>
  readonly log: Logger
  readonly now: () => Date
}

type Attempt = { readonly token: string; readonly signal: AbortSignal }

export type Deliver = {
  /** Sends the message of a job. */
  deliver(job: Job<WebhookJob>, attempt: Attempt): Promise<string>
  close(): void
}

/** Sends messages, one for each job. A receiver that fails rests, so that it does not hold up the others. */
export function createDeliver(options: DeliverOptions): Deliver {
  const { dataDir, now, isOurs } = options
  const receivers = new Map<string, Receiver>()
  /** Messages whose receiver has them, although that could not be stored yet. */
  const accepted = new Set<string>()
  let store: Subscriptions | null = null
  return {
    async deliver(job, attempt) {
      store ??= Subscriptions.open(dataDir, WAIT_MS)
      const delivery = store.delivery(job.id ?? '')
      const subscription = store.find(job.data.subscription)
      // Received already, given up, or removed.
      if (!delivery || !subscription || subscription.stoppedBecause !== null) return NOT_WANTED
      if (!isOurs(subscription.company)) return NOT_WANTED
      const receiver = receivers.get(subscription.id) ?? newReceiver()
      receivers.set(subscription.id, receiver)
      const waitMs = waitFor(receiver, delivery, now().getTime())
      if (waitMs > 0) return await later(job, attempt, waitMs)
      receiver.underWay.add(delivery.id)
      try {
        const sending = { ...options, ...attempt, store, delivery, subscription, receiver, accepted }
        return await attemptIt(job, sending)
      } catch (error) {
        if (isOutcome(error)) throw error
        // The file could not be written, for instance. That is no attempt: the message keeps its turn.
        options.onError(error)
        return await later(job, attempt, AGAIN_MS)
      } finally {
        receiver.underWay.delete(delivery.id)
        // Not if it was closed meanwhile.
        if (store) refill(store, subscription, options)
      }
    },
    close() {
      store?.close()
      store = null
    },
  }
}

function newReceiver(): Receiver {
  return { underWay: new Set(), rest: null, lastBackMs: 0 }
}

/** Returns how long a message must wait for its receiver; 0 if it can be sent now. */
function waitFor(receiver: Receiver, { id }: Delivery, nowMs: number): number {
  const { underWay, rest, lastBackMs } = receiver
  const isResting = rest !== null && rest.untilMs > nowMs
  const isFree = underWay.size < (rest ? 1 : AT_A_TIME_EACH)
  // If Redis lost its job, it has another one while it is being sent.
  if (!isResting && isFree && !underWay.has(id)) return 0
  const earliestMs = isResting ? rest.untilMs : nowMs + AGAIN_MS
  receiver.lastBackMs = Math.max(earliestMs, lastBackMs + APART_MS)
  return receiver.lastBackMs - nowMs
}

/** Returns whether an error only says how an attempt ended, and is no fault of this worker. */
function isOutcome(error: unknown): boolean {
  return [RefusedError, UnrecoverableError, DelayedError].some(kind => error instanceof kind)
}

/** Takes the next message of the file into the queue. */
function refill(
  store: Subscriptions,
  subscription: Subscription,
  { enqueue, onError }: Pick<DeliverOptions, 'enqueue' | 'onError'>,
): void {
  try {
    enqueue(subscription, store.queued(subscription.id, IN_QUEUE)).catch(onError)
  } catch (error) {
    onError(error)
  }
}

const NOT_WANTED = 'not sent: already received, given up, or its subscription was stopped or removed'

type Sending = DeliverOptions &
  Attempt & {
    readonly store: Subscriptions
    readonly delivery: Delivery
    readonly subscription: Subscription
    readonly receiver: Receiver
    readonly accepted: Set<string>
  }

async function attemptIt(job: Job<WebhookJob>, sending: Sending): Promise<string> {
  const { store, delivery, subscription, receiver, accepted, delaysMs, log, now } = sending
  const { id, company } = subscription
  const { outcome, clause } = accepted.has(delivery.id) ? ACCEPTED : await send(job, sending)
  const about = { company, webhook: id, message: delivery.id }
  if (outcome === 'received') {
    // If it cannot be stored now, it is tried again without sending it again.
    accepted.add(delivery.id)
    store.noteReceived(delivery.id, now())
    accepted.delete(delivery.id)
    if (receiver.rest) log.info(about, `The receiver of ${id} accepts messages again.`)
    receiver.rest = null
    return `The receiver ${clause}.`
  }
  if (outcome === 'unwanted') {
    const isNew = store.stop(id, `its receiver ${clause}`)
    if (isNew)
      log.warn(
        about,
        `Webhook ${id} is stopped: its receiver ${clause}. \`editais webhooks resume ${id}\` starts it again.`,
      )
    return `The receiver ${clause}.`
  }
  const isFirst = receiver.rest === null
  const { first, most } = sending.rests ?? REST_MS
  const ms = Math.min((receiver.rest?.ms ?? first / 2) * 2, most)
  receiver.rest = { ms, untilMs: now().getTime() + ms }
  if (job.attemptsMade < delaysMs.length) {
    if (isFirst) log.warn(about, `The receiver of ${id} ${clause}. Its messages are kept and sent later.`)
    store.noteFailed(delivery.id)
    throw new RefusedError(`The receiver ${clause}.`)
  }
  store.noteDead(delivery.id, `the receiver ${clause}`, now())
  log.error(
    about,
    `The receiver of ${id} ${clause}. Message ${delivery.id} is given up after ${delaysMs.length + 1} attempts; \`editais webhooks replay ${id}\` sends it again.`,
  )
  throw new UnrecoverableError(`The receiver ${clause}. Given up.`)
}

const ACCEPTED: Sent = { outcome: 'received', clause: 'accepted it before' }

async function send(job: Job<WebhookJob>, sending: Sending): Promise<Sent> {
  const { store, delivery, subscription, allowPrivate, metrics, now, signal } = sending
  const { id, url, company } = subscription
  const secret = store.readSecret(id) ?? ''
  try {
    const sent = await sendMessage(delivery, { url, secret, allowPrivate, now: now(), signal })
    metrics?.attempted(company, sent.outcome)
    return sent
  } catch (error) {
    if (error instanceof InterruptedError) return await later(job, sending, AGAIN_MS)
    throw error
  }
}

/** The receiver did not accept a message: that is logged already, and no error of this program. */
export class RefusedError extends Error {}

/** Puts the job back; this is no attempt. */
async function later(job: Job<WebhookJob>, { token }: Attempt, delayMs: number): Promise<never> {
  await job.moveToDelayed(Date.now() + delayMs, token)
  throw new DelayedError()
}

/** Events that are read from the feed at once. */
const PART = 500
/** More is not taken from the feed while as many messages wait for a receiver: it may be down for days. */
const MAX_QUEUED = 1000
/** Jobs of a receiver, besides those that wait for another attempt; the next ones follow as these end. */
const IN_QUEUE = 10

export type PumpOptions = {
  readonly dataDir: string
  readonly feeds: Feeds
  /** Whether a company is one of this worker. */
  readonly isOurs: (company: string) => boolean
  /** Adds jobs for these messages; those that are there already stay. */
  readonly enqueue: (
    subscription: Subscription,
    queued: readonly { readonly id: string; readonly at: number }[],
  ) => Promise<void>
  readonly now: () => Date
  /** Called when a subscription stops. */
  readonly onStop: (subscription: Subscription, because: string) => void
  /** Called when a subscription's events cannot be read. */
  readonly onError: (subscription: Subscription, error: unknown) => void
}

/** Forgets received messages that can no longer be tried again. */
export function forgetOld(dataDir: string, now: Date): void {
  withStore(dataDir, store => store.forgetOld(now))
}

/** Works with the file of subscriptions; null without one. */
function withStore<T>(dataDir: string, work: (store: Subscriptions) => T): T | null {
  const opened = Subscriptions.openIfThere(dataDir, WAIT_MS)
  using store = opened && closing(opened)
  return store && work(store)
}

/** Returns what waits for each receiver. */
export function readBacklogs(dataDir: string): readonly Backlog[] {
  return withStore(dataDir, store => store.backlogs()) ?? []
}

/**
 * Stops subscriptions whose key is no longer valid, and queues all messages that are to be sent. It waits for no feed: a key that
 * is revoked must end what is sent, however long that takes.
 */
export async function queueWaiting(options: PumpOptions): Promise<void> {
  const { isOurs, enqueue, onStop } = options
  await withSubscriptions(options, async (store, hasKey) => {
    for (const subscription of store.list()) {
      const { id, stoppedBecause } = subscription
      if (stoppedBecause !== null) continue
      if (hasKey(subscription)) {
        if (isOurs(subscription.company)) await enqueue(subscription, store.queued(id, IN_QUEUE))
        continue
      }
      const because = `its API key ${subscription.key} is no longer valid`
      if (store.stop(id, because)) onStop(subscription, because)
    }
  })
}

/** Takes new events from the feeds into messages, and queues the first of them. A feed that is slow holds up no other company. */
export async function takeEvents(options: PumpOptions): Promise<void> {
  const { isOurs, enqueue, onError } = options
  await withSubscriptions(options, async (store, hasKey) => {
    const sending = store
      .list()
      .filter(one => one.stoppedBecause === null && isOurs(one.company) && hasKey(one))
    const companies = [...Map.groupBy(sending, ({ company }) => company).values()]
    const work = companies.map(async subscriptions => {
      for (const subscription of subscriptions) {
        try {
          await takeNew(store, subscription, options)
        } catch (error) {
          // Others are not held up.
          onError(subscription, error)
        }
        await enqueue(subscription, store.queued(subscription.id, IN_QUEUE))
      }
    })
    // All, before the file is closed.
    const failed = (await Promise.allSettled(work)).find(({ status }) => status === 'rejected')
    if (failed) throw (failed as PromiseRejectedResult).reason
  })
}

/** Does nothing without a file of subscriptions, or of keys: that may come back, as in a restore. */
async function withSubscriptions(
  { dataDir, now }: Pick<PumpOptions, 'dataDir' | 'now'>,
  work: (store: Subscriptions, hasKey: (subscription: Pick<Subscription, 'key'>) => boolean) => Promise<void>,
): Promise<void> {
  const store = Subscriptions.openIfThere(dataDir, WAIT_MS)
  if (!store) return
  using _ = closing(store)
  const hasKey = readValidKeys(dataDir, now(), WAIT_MS)
  if (hasKey) await work(store, hasKey)
}

async function takeNew(
  store: Subscriptions,
  subscription: Subscription,
  { feeds, now }: PumpOptions,
): Promise<void> {
  let { cursor } = subscription
  while (!store.isFull(subscription.id, MAX_QUEUED)) {
    const part = await feeds.read(subscription.company, cursor, PART)
    if (part === null) return
    if (part === 'gone') {
      cursor = await beginAnew(store, { ...subscription, cursor }, { feeds, now })
      if (cursor === null) return
      continue
    }
    const { events, next } = part
    if (next === cursor) return
    const deliveries = events
      .filter(event => isWanted(subscription, event))
      .map(event => composeEvent(subscription, event))
    if (!store.take({ id: subscription.id, cursor }, { deliveries, next }, now())) return
    cursor = next
    if (events.length < PART) return
  }
}

/**
 * Moves a subscription to the end of another log. Its receiver has to read everything once, and gets what changes from now on.
 */
async function beginAnew(
  store: Subscriptions,
  subscription: Subscription,
  { feeds, now }: Pick<PumpOptions, 'feeds' | 'now'>,
): Promise<string | null> {
  const next = await feeds.latest(subscription.company)
  if (next === null) return null
  const reset = composeEvent(subscription, { kind: RESET, cursor: next, at: now().toISOString() })
  return store.take(subscription, { deliveries: [reset], next }, now()) ? next : null
}
