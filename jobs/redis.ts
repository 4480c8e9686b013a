import { Redis, type RedisOptions } from 'ioredis'
import type { Logger } from 'pino'
import type { RedisSettings } from '#config/daemon.ts'
import { messageOf } from '#src/platform/errors.ts'
import { refusalAtTheDoor } from './redis_greeting.ts'
import { probe } from './redis_probe.ts'
import { isHangUp, isLostJob, lostConnection, type RedisProblem, redisProblem } from './redis_problem.ts'

/** Between two tries to reach a Redis that is away. */
const MAX_RECONNECT_MS = 2000
/** BullMQ lets a command block for 10 s at most, so a connection for such ones may be silent for longer by that. */
const MAX_BLOCK_MS = 10_000
/** A failover is over soon: what a replica refuses until then is asked of the new master. */
const FAILOVER_WITHIN_MS = 3000
/** Without another refusal by a replica for so long, the next one is another failover's. */
const FAILOVER_OVER_MS = 30_000
/** A Redis that refuses is asked again so much later. */
const PROBE_MS = 2000
/** An error that did not occur for so long is logged again. */
const LOG_AGAIN_MS = 60_000

export type RedisConnection = {
  readonly redis: Redis
  /** Why Redis cannot be used now, and what to do; null while it can, as far as is known. */
  problem(): RedisProblem | null
  /** Takes an error of BullMQ or of a command of ours; logs what is new about it. */
  note(error: unknown): void
  /** No more tries, and no more words. */
  end(): void
}

/**
 * Connects; a Redis that is away is waited for. Each thing that is wrong is logged once, until all is well again. A
 * connection that is silent when an answer is due is replaced: the other side may be gone without a word.
 */
export function connectRedis(settings: RedisSettings, log: Logger): RedisConnection {
  const { url, prefix, timeoutMs, ca } = settings
  const options = {
    // Commands wait for Redis to come back instead of failing, as BullMQ's workers demand.
    maxRetriesPerRequest: null,
    retryStrategy: (tries: number) => Math.min(tries * 100, MAX_RECONNECT_MS),
    reconnectOnError: followFailover(),
    connectTimeout: timeoutMs,
    socketTimeout: timeoutMs,
    ...(ca === null ? {} : { tls: { ca } }),
  } satisfies RedisOptions
  const redis = new Redis(url, options)
  const status = trackStatus({ redis, url, prefix, log })
  listen(redis, status)
  const duplicate = redis.duplicate.bind(redis)
  // BullMQ makes connections of its own like this, for what blocks.
  redis.duplicate = override => {
    const own = duplicate({ ...override, socketTimeout: timeoutMs + MAX_BLOCK_MS })
    own.on('error', error => leaveWrongDatabase(own, error))
    return own
  }
  const { problem, note, end } = status
  return { redis, problem, note, end }
}

function listen(redis: Redis, status: Status): void {
  let isReady = false
  let isExplained = false
  const lost = (error: unknown) => {
    isExplained = true
    status.lost(error, { wasReady: isReady })
  }
  redis.on('connecting', () => {
    isReady = false
    isExplained = false
  })
  // Each command that a replica refuses ends the connection once more.
  redis.on('connect', () => redis.stream.setMaxListeners(0))
  redis.on('error', error => {
    lost(error)
    leaveWrongDatabase(redis, error)
  })
  redis.on('ready', () => {
    isReady = true
    status.connected()
  })
  redis.on('close', () => {
    if (!isReady && !isExplained) lost(Object.assign(new Error('it hangs up'), { code: 'ECONNRESET' }))
  })
}

/** ioredis only reports that there is no such database, and goes on in database 0. */
function leaveWrongDatabase(redis: Redis, error: unknown): void {
  if (/DB index is out of range|invalid DB index|SELECT is not allowed/.test(messageOf(error))) {
    redis.disconnect(true)
  }
}

/**
 * After a failover the address may lead to another server: connect anew, and ask again, for a while. One that stays a
 * replica refuses, and is connected to anew all the same.
 */
function followFailover(): (error: Error) => false | 1 | 2 {
  let sinceMs = Number.NEGATIVE_INFINITY
  let lastMs = Number.NEGATIVE_INFINITY
  return error => {
    if (!/\bREADONLY /.test(error.message)) return false
    // Not the machine's clock, which may go back.
    const nowMs = performance.now()
    if (nowMs - lastMs > FAILOVER_OVER_MS) sinceMs = nowMs
    lastMs = nowMs
    return nowMs - sinceMs < FAILOVER_WITHIN_MS ? 2 : 1
  }
}

type Watched = Pick<RedisConnection, 'redis'> &
  Pick<RedisSettings, 'url' | 'prefix'> & { readonly log: Logger }

type Status = ReturnType<typeof trackStatus>

function trackStatus({ redis, url, prefix, log }: Watched) {
  let problem: RedisProblem | null = null
  let timer: NodeJS.Timeout | null = null
  let isSaid = false
  let isOver = false
  let isChecking = false
  let isAsking = false
  /** What a probe may explain. */
  let vague: RedisProblem | null = null
  let wasEverReady = false
  const once = createOnce(log)

  function became(next: RedisProblem): void {
    if (isOver) return
    if (!isSaid) once.forget()
    isSaid = true
    problem = next
    // An outage shows itself by several errors, one after another.
    if (next.kind === 'away') once.error(`${next.sentence} Trying again until it does.`, next.kind)
    else once.error(next.sentence, next.sentence)
  }

  /**
   * Only what is written shows that Redis may be used: a replica, or one that is full, answers too.
   * @param otherwise what a command met with that the probe may not show.
   */
  async function check(otherwise: RedisProblem | null = null): Promise<void> {
    // A probe that a replica refused is sent again to its successor: one at a time.
    if (isOver || isChecking || redis.status !== 'ready') return
    isChecking = true
    vague = otherwise
    try {
      await probe(redis, prefix)
      if (vague) refused(vague)
      else well()
    } catch (error) {
      const found = redisProblem(error, url)
      if (found?.kind === 'refused') refused(found)
      else note(error)
    } finally {
      isChecking = false
    }
  }

  async function explainHangUp(found: RedisProblem): Promise<void> {
    if (isAsking) return
    isAsking = true
    const text = await refusalAtTheDoor(url)
    isAsking = false
    // Meanwhile another try may have met with the same, or with something else.
    if (problem?.kind === 'away' && redis.status !== 'ready')
      became(text === null ? found : lostConnection(new Error(text), url))
  }

  function well(): void {
    if (isSaid) log.info('Redis answers again.')
    problem = null
    isSaid = false
  }

  function refused(found: RedisProblem): void {
    became(found)
    if (timer || isOver) return
    timer = setTimeout(() => {
      timer = null
      void check()
    }, PROBE_MS)
  }

  function note(error: unknown): void {
    const found = redisProblem(error, url)
    // Of a script Redis does not say which command it was; the probe finds it, also one that is under way.
    if (found?.kind === 'refused' && found.isVague) {
      if (isChecking) vague ??= found
      else void check(found)
    } else if (found?.kind === 'refused') refused(found)
    // Other errors of connections are reported by ours: BullMQ's own repeat them.
    else if (found === null) once.error(describe(error), isLostJob(error) ? 'lost jobs' : undefined)
  }

  return {
    problem: () => problem,
    note,
    lost(error: unknown, { wasReady }: { wasReady: boolean }) {
      const found = lostConnection(error, url, { wasEverReady })
      if (!isHangUp(error)) became(found)
      // What is known to be wrong there says more than that it hangs up.
      else if (problem === null || problem.kind === 'away') {
        problem = found
        // After one that was ready, the next try shows what it means.
        if (!wasReady) void explainHangUp(found)
      }
    },
    connected() {
      wasEverReady = true
      // One that refuses is asked in its own time: a replica is connected to anew after each refusal.
      if (problem?.kind === 'refused') refused(problem)
      else void check()
    },
    end() {
      isOver = true
      if (timer) clearTimeout(timer)
    },
  }
}

function describe(error: unknown): string {
  const text = messageOf(error)
  if (!isLostJob(error)) return `The queue: ${text}`
  const job = /job (\S+?)\.?(?:\s|$)/.exec(text)?.[1] ?? ''
  return `Redis was away for longer than JOB_LOCK_MS, or lost its data, so job ${job} is no longer with this worker. What its run fetched is kept, and the next run goes on from there.`
}

/** Logs an error again only when it has not occurred for a minute. */
function createOnce(log: Logger) {
  const saidAtMs = new Map<string, number>()
  return {
    error(message: string, about = message) {
      const lastMs = saidAtMs.get(about)
      const nowMs = performance.now()
      saidAtMs.set(about, nowMs)
      if (lastMs === undefined || nowMs - lastMs > LOG_AGAIN_MS) log.error(message)
    },
    forget: () => saidAtMs.clear(),
  }
}
