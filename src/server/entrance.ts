import { timingSafeEqual } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import { pluralize } from '#src/lib/count.ts'
import { hashContent } from '#src/lib/hash.ts'
import { createAllowance, WRONG_CREDENTIALS } from '#src/lib/http/client_address.ts'
import type { Exchange } from '#src/lib/http/outgoing.ts'
import { requestPath } from '#src/lib/http/request_target.ts'
import { createTurns, TurnPace } from '#src/lib/http/waiting_room.ts'
import { withFlatLines } from '#src/lib/log.ts'
import { matchRoute } from '#src/server/contract/routes.ts'
import { maskPath } from './contract/answers.ts'
import type { ServiceMetrics } from './contract/metrics.ts'
import { Refusal } from './contract/source.ts'
import { ALL_COMPANIES, type KeyHolder } from './key_file.ts'
import type { ServedCompanies } from './served_companies.ts'

type Bucket = { tokens: number; atMs: number }

/** The rest of a key's quota: `remaining` requests now, and all of them in `resetSeconds`. */
export type Quota = { readonly limit: number; readonly remaining: number; readonly resetSeconds: number }

/** A key sent too many requests (429). */
export class QuotaExceeded extends Refusal {
  readonly quota: Quota

  constructor(quota: Quota) {
    super(429, `This key may send ${pluralize(quota.limit, 'request')} per second.`, 1)
    this.quota = quota
  }
}

/**
 * Returns a limit for each key: its own, or that of all keys, in requests per second; and bursts of as many.
 * @param maxRps of all keys; null for none.
 * @returns a function that counts one request; null without a limit. It throws QuotaExceeded if the limit is reached.
 */
function createQuotas(
  maxRps: number | null,
  nowMs = () => performance.now(),
): (key: Pick<KeyHolder, 'prefix' | 'maxRps'>) => Quota | null {
  const buckets = new Map<string, Bucket>()
  return ({ prefix, maxRps: own }) => {
    const limit = own ?? maxRps
    if (limit === null) return null
    const now = nowMs()
    const bucket = buckets.get(prefix) ?? { tokens: limit, atMs: now }
    bucket.tokens = Math.min(limit, bucket.tokens + ((now - bucket.atMs) / 1000) * limit)
    bucket.atMs = now
    buckets.set(prefix, bucket)
    const isOver = bucket.tokens < 1
    if (!isOver) bucket.tokens -= 1
    const quota = {
      limit,
      remaining: Math.floor(bucket.tokens),
      resetSeconds: Math.ceil((limit - bucket.tokens) / limit),
    }
    if (isOver) throw new QuotaExceeded(quota)
    return quota
  }
}

/** How long the API delays the refusal of a wrong key, after the first ones from its address. */
const WRONG_KEY_DELAY_MS = 1000
/** If this many are already delayed, further ones are refused at once with 429. */
const MAX_DELAYED = 100

/** Documents read and compressed at the same time: each may have tens of megabytes, and threads are few. */
const WORKED_ON_AT_ONCE = 16
/** Time in each turn of the event loop during which new documents may begin. */
const BEGIN_WITHIN_MS = 2

/** What ADMIN_TOKEN stands for. */
const ADMIN: KeyHolder = {
  company: ALL_COMPANIES,
  prefix: 'ADMIN_TOKEN',
  scopes: ['operate'],
  maxRps: null,
}

/** Checks keys and quotas, and logs requests: the same for programs and for people in a browser. */
export type Entrance = {
  /** Returns the holder of a key; null if the key is not valid. @throws Refusal (503) while the keys cannot be read. */
  whose(key: string): KeyHolder | null
  /** Makes a key of a code that signs one person in; null if it is not valid. @throws Refusal (503) */
  redeem(code: string): string | null
  /**
   * Does the same where operators come in, so ADMIN_TOKEN counts as a key. A person chose it and it may be guessed: it is not
   * compared while its address must wait because of wrong keys.
   */
  whoOperates(key: string, address: string): KeyHolder | null
  /**
   * Counts a request. Null without a quota.
   * @throws Refusal (429) if the key sent too many.
   */
  admit(key: KeyHolder): Quota | null
  /**
   * Counts a wrong key where ADMIN_TOKEN would open something.
   * @param address of the client.
   * @throws Refusal (429) if the address has sent too many.
   */
  refuse(address: string): void
  /**
   * Counts a wrong key where keys alone open something, and delays its refusal.
   * @throws Refusal (429) if too many are delayed already.
   */
  refuseLate(address: string): Promise<void>
  /**
   * Runs work when it is this key's turn, so that a key with a thousand requests for large documents does not delay a key
   * with one. Null, without running it, if the client is gone when it is its turn.
   */
  inTurn<T>(
    key: Pick<KeyHolder, 'prefix'>,
    isWanted: () => boolean,
    work: () => Promise<T>,
  ): Promise<T | null>
  /** Logs and counts an answer, when it was sent. */
  readonly noteAnswer: NonNullable<Exchange['onEnd']>
}

type EntranceOptions = {
  readonly served: ServedCompanies
  /** Quota of all keys without one of their own; null for no limit. */
  readonly maxRps: number | null
  /** ADMIN_TOKEN; null or absent if it is not set. */
  readonly adminToken?: string | null
  readonly metrics: Pick<ServiceMetrics, 'answered' | 'refused'>
  readonly log: Logger
}

export function createEntrance({
  served,
  maxRps,
  adminToken = null,
  metrics,
  log,
}: EntranceOptions): Entrance {
  const wrongKeys = createAllowance(WRONG_CREDENTIALS)
  // Apart: a client with an expired key must not keep ADMIN_TOKEN out for all behind its address.
  const wrongApiKeys = createAllowance(WRONG_CREDENTIALS)
  let delayed = 0
  const digest = (text: string) => Buffer.from(hashContent(text))
  const admin = adminToken === null ? null : digest(adminToken)
  const inTurn = createTurns(WORKED_ON_AT_ONCE, new TurnPace(BEGIN_WITHIN_MS))
  return {
    whose: key => served.whose(key),
    redeem: code => served.redeem(code),
    whoOperates(key, address) {
      if (admin !== null && wrongKeys.waitSeconds(address) === 0 && timingSafeEqual(digest(key), admin))
        return ADMIN
      return served.whose(key)
    },
    admit: createQuotas(maxRps),
    // Keys are too random to guess, so a valid key never waits because of wrong ones from its address.
    refuse(address) {
      metrics.refused()
      const seconds = wrongKeys.waitSeconds(address)
      if (seconds > 0)
        throw new Refusal(429, `Too many wrong keys from ${address}. Try again in ${seconds} s.`, seconds)
      wrongKeys.spend(address)
    },
    async refuseLate(address) {
      metrics.refused()
      const isGuessing = wrongApiKeys.waitSeconds(address) > 0
      wrongApiKeys.spend(address)
      if (!isGuessing) return
      if (delayed >= MAX_DELAYED) throw new Refusal(429, 'Too many wrong API keys from this address.', 60)
      delayed += 1
      await sleep(WRONG_KEY_DELAY_MS)
      delayed -= 1
    },
    inTurn: ({ prefix }, isWanted, work) => inTurn(prefix, isWanted, work),
    noteAnswer: createNotes({ metrics, log }),
  }
}

/** Logs each answer in the access log, and counts it for `/metrics`. */
function createNotes({
  metrics,
  log,
}: Pick<EntranceOptions, 'metrics' | 'log'>): NonNullable<Exchange['onEnd']> {
  const accessLog = withFlatLines(log)
  return ({ address, incoming, notes }, { status, isWhole, ms, bytes }) => {
    const { method, headers } = incoming
    const path = requestPath(incoming.url ?? '')
    const company = notes.company ?? ''
    metrics.answered({
      route: notes.route ?? matchRoute(path).kind,
      status,
      company,
      seconds: ms / 1000,
      bytes,
    })
    const presented = [headers.authorization, headers['x-api-key'] as string | undefined]
    accessLog.info(
      {
        address,
        method,
        path: maskPath(path, presented),
        status,
        bytes,
        ms: Math.round(ms * 10) / 10,
        ...(isWhole ? {} : { aborted: true }),
        ...notes,
      },
      'Answered',
    )
  }
}
