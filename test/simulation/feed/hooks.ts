import { DelayedError, type Job, UnrecoverableError } from 'bullmq'
import pino from 'pino'
import {
  createDeliver,
  DELAYS_MS,
  type Deliver,
  type PumpOptions,
  queueWaiting,
  RefusedError,
  readBacklogs,
  takeEvents,
  type WebhookJob,
} from '#jobs/webhooks/deliver.ts'
import { Refusal } from '#src/server/contract/source.ts'
import { KeyStore } from '#src/server/keys.ts'
import { type Feeds, openFeeds, RESET } from '#src/server/webhooks/feed.ts'
import { type Subscription, Subscriptions } from '#src/server/webhooks/subscriptions.ts'
import { assertHolds } from '../assertions.ts'
import { positionIn } from './consumer.ts'
import type { Clock } from './history.ts'
import type { Served } from './mirror.ts'
import type { Receiver } from './receiver.ts'
import type { FeedServer } from './server.ts'

const WAIT_MS = 1000
const PATH = '/hook'

type Parts = {
  readonly dataDir: string
  readonly lake: string
  readonly clock: Clock
  readonly server: FeedServer
  readonly receiver: Receiver
  readonly served: () => Served | null
}
type Queued = { readonly data: WebhookJob; readonly id: string; attemptsMade: number; dueMs: number }
/** An event without its place, which differs from log to log. */
type Event = {
  readonly cursor: string
  readonly kind: string
  readonly at?: string
  readonly edital_id: string
}

/** A subscription to the feed, the worker that sends its messages, and the queue that says when. */
export class Hooks {
  readonly #parts: Parts
  readonly #queue = new Map<string, Queued>()
  /** Where the subscription began; undefined before. */
  #since: string | null | undefined
  #feeds: Feeds & { close(): Promise<void> }
  #deliver: Deliver
  #failure: unknown = null

  constructor(parts: Parts) {
    this.#parts = parts
    this.#feeds = this.#openFeeds()
    this.#deliver = this.#openDeliver()
  }

  get isSubscribed(): boolean {
    return this.#since !== undefined
  }

  /** From the beginning of the log, or from now on. */
  async subscribe(fromBeginning: boolean): Promise<void> {
    const { dataDir, clock, receiver } = this.#parts
    const cursor = fromBeginning ? null : await this.#feeds.latest('acme')
    if (!fromBeginning && cursor === null) return
    const now = new Date(clock.nowMs)
    const keys = KeyStore.open(dataDir, WAIT_MS)
    const key = keys.create('acme', 'CRM', now, null, { scopes: ['feed'], maxRps: null })
    keys.close()
    const store = Subscriptions.open(dataDir, WAIT_MS)
    store.add({ company: 'acme', key: key.slice(0, 12), url: receiver.url + PATH, events: null, cursor }, now)
    store.close()
    this.#since = cursor
  }

  /** The worker takes what is new, and sends what is due. */
  async tick(): Promise<void> {
    const { clock } = this.#parts
    await queueWaiting(this.#options())
    await takeEvents(this.#options())
    for (;;) {
      const job = [...this.#queue.values()].find(({ dueMs }) => dueMs <= clock.nowMs)
      if (!job) break
      await this.#send(job)
    }
    if (this.#failure) throw this.#failure
  }

  /** Redis is empty. */
  loseQueue(): void {
    this.#queue.clear()
  }

  /** The worker starts again. */
  async restart(): Promise<void> {
    await this.close()
    this.#feeds = this.#openFeeds()
    this.#deliver = this.#openDeliver()
  }

  async close(): Promise<void> {
    this.#deliver.close()
    await this.#feeds.close()
  }

  /** Returns what the webhook waits for; null if it is in step, and silent. */
  async behind(): Promise<string | null> {
    if (!this.isSubscribed) return null
    const { dataDir } = this.#parts
    const [backlog] = readBacklogs(dataDir)
    if (!backlog || backlog.isStopped) return 'its subscription is stopped'
    if (backlog.queued + backlog.dead > 0)
      return `${backlog.queued} messages wait, and ${backlog.dead} were given up`
    const store = Subscriptions.open(dataDir, WAIT_MS)
    const [subscription] = store.list()
    store.close()
    const latest = await this.#feeds.latest('acme')
    if (latest === null) return 'its feed is being prepared'
    const [there, here] = [
      positionIn(latest),
      subscription?.cursor ? positionIn(subscription.cursor) : 'none',
    ]
    return there === here ? null : `it has read up to ${here}, and the feed ends with ${there}`
  }

  /** The receiver has every event since it subscribed, or since it was asked to begin anew. */
  checkReceived(events: readonly Event[]): void {
    if (!this.isSubscribed) return
    const bodies = this.#parts.receiver.received.filter(({ path }) => path === PATH).map(({ body }) => body)
    const data = bodies.map(({ data }) => data as Event)
    const resets = data.filter(({ kind }) => kind === RESET).sort((a, b) => (`${a.at}` < `${b.at}` ? -1 : 1))
    const since = resets.at(-1)?.cursor ?? this.#since
    const own = events.map(({ cursor }) => positionIn(cursor))
    const begun = since ? own.indexOf(positionIn(since)) + 1 : 0
    const has = new Set(data.map(nameOf))
    const missing = events.slice(begun).find(event => !has.has(nameOf(event)))
    assertHolds(
      missing === undefined,
      () => `the receiver of the webhook never got ${nameOf(missing as Event)}`,
    )
  }

  #openFeeds() {
    const { lake, server, served } = this.#parts
    return openFeeds({
      findLake: () => lake,
      findLog: () => null,
      log: pino({ level: 'silent' }),
      bringUp: order => server.bringUp(order),
      getServed() {
        const snapshot = served()?.snapshot
        if (!snapshot) throw new Refusal(503, 'Nothing is published yet.', 1)
        return snapshot
      },
    })
  }

  #openDeliver(): Deliver {
    const { dataDir } = this.#parts
    return createDeliver({
      ...this.#shared(),
      ...{ dataDir, allowPrivate: true, delaysMs: DELAYS_MS, log: pino({ level: 'silent' }) },
      onError: error => {
        this.#failure = error
      },
    })
  }

  #options(): PumpOptions {
    const { dataDir } = this.#parts
    return {
      ...this.#shared(),
      ...{ dataDir, feeds: this.#feeds, onStop: () => {} },
      onError: (_, error) => {
        this.#failure = error
      },
    }
  }

  #shared() {
    return {
      isOurs: () => true,
      now: () => new Date(this.#parts.clock.nowMs),
      enqueue: async (subscription: Subscription, queued: readonly { readonly id: string }[]) => {
        const data = { company: subscription.company, subscription: subscription.id }
        for (const { id } of queued)
          if (!this.#queue.has(id)) this.#queue.set(id, { id, data, attemptsMade: 0, dueMs: 0 })
      },
    }
  }

  async #send(job: Queued): Promise<void> {
    const { clock } = this.#parts
    const asJob = {
      ...job,
      // Its time is the machine's.
      moveToDelayed: async (untilMs: number) => {
        job.dueMs = clock.nowMs + Math.max(1, untilMs - Date.now())
      },
    }
    try {
      const { signal } = new AbortController()
      await this.#deliver.deliver(asJob as unknown as Job<WebhookJob>, { token: 'simulated', signal })
      this.#queue.delete(job.id)
    } catch (error) {
      if (error instanceof RefusedError) {
        job.attemptsMade += 1
        job.dueMs = clock.nowMs + (DELAYS_MS[job.attemptsMade - 1] ?? 0)
      } else if (error instanceof UnrecoverableError) this.#queue.delete(job.id)
      else if (!(error instanceof DelayedError)) throw error
    }
  }
}

function nameOf({ at, kind, edital_id }: Event): string {
  return `${kind} of ${edital_id} at ${at}`
}
