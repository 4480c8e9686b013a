import { Redis, type RedisOptions } from 'ioredis'
import type { Logger } from 'pino'
import type { RedisSettings } from '#config/daemon.ts'
import { messageOf } from '#src/platform/errors.ts'
import { refusalAtTheDoor } from './redis_greeting.ts'
import { probe } from './redis_probe.ts'
import { isHangUp, isLostJob, lostConnection, type RedisProblem, redisProblem } from './redis_problem.ts'

/** The longest wait between two attempts to reconnect. */
const MAX_RECONNECT_MS = 2000
/** BullMQ's blocking commands wait up to 10 s, so their connections may be silent for that much longer. */
const MAX_BLOCK_MS = 10_000
/** A failover takes less than this; until then a command that a replica refused is sent to the new master. */
const FAILOVER_WITHIN_MS = 3000
/** A refusal by a replica belongs to a new failover if the last one is at least this old. */
const FAILOVER_OVER_MS = 30_000
/** A Redis that refuses commands is probed again after this. */
const PROBE_MS = 2000
/** An error is logged again if it has not occurred for this long. */
const LOG_AGAIN_MS = 60_000

export type RedisConnection = {
  readonly redis: Redis
  /** Why Redis cannot be used now, and what to do; null if no problem is known. */
  problem(): RedisProblem | null
  /** Handles an error from BullMQ or from one of our commands, and logs it if it is new. */
  note(error: unknown): void
  /** Stops probing Redis and logging its problems. */
  end(): void
}

/**
 * Connects, and reconnects until Redis is back. Logs each problem once until Redis works again. Replaces a connection
 * that is silent when an answer is due: the other side may be gone without closing it.
 */
export function connectRedis(settings: RedisSettings, log: Logger): RedisConnection {
  const { url, prefix, timeoutMs, ca } = settings
  const options = {
    // BullMQ's workers require this: commands wait for Redis to come back instead of failing.
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
  // BullMQ duplicates the connection for its blocking commands.
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
  // Each command that a replica refuses disconnects again, and ioredis then adds a listener to the stream.
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
    if (!isReady && !isExplained) lost(Object.assign(new Error('the server hung up'), { code: 'ECONNRESET' }))
  })
}

/** If SELECT fails, ioredis only reports the error and continues in database 0. */
function leaveWrongDatabase(redis: Redis, error: unknown): void {
  if (/DB index is out of range|invalid DB index|SELECT is not allowed/.test(messageOf(error))) {
    redis.disconnect(true)
  }
}

/**
 * After a failover the address may point to another server: reconnect, and for a while resend the command (2). If the
 * server stays a replica, still reconnect, but let the command fail (1).
 */
function followFailover(): (error: Error) => false | 1 | 2 {
  let sinceMs = Number.NEGATIVE_INFINITY
  let lastMs = Number.NEGATIVE_INFINITY
  return error => {
    if (!/\bREADONLY /.test(error.message)) return false
    // Not the system clock, which may go back.
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
  /** A refusal that a running probe may explain. */
  let vague: RedisProblem | null = null
  let wasEverReady = false
  const once = createOnce(log)

  function became(next: RedisProblem): void {
    if (isOver) return
    if (!isSaid) once.forget()
    isSaid = true
    problem = next
    // One outage causes several different errors in a row.
    if (next.kind === 'away') once.error(`${next.sentence} Retrying until it answers.`, next.kind)
    else once.error(next.sentence, next.sentence)
  }

  /**
   * Only a write shows that Redis can be used: a replica or a full Redis answers reads too.
   * @param otherwise the problem of a command, reported if the probe finds none.
   */
  async function check(otherwise: RedisProblem | null = null): Promise<void> {
    // One probe at a time: a probe that a replica refused is resent to the new master.
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
    // Meanwhile another attempt may have connected, or found another problem.
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
    // Redis does not name the refused command of a script. The probe does, even if it is already running.
    if (found?.kind === 'refused' && found.isVague) {
      if (isChecking) vague ??= found
      else void check(found)
    } else if (found?.kind === 'refused') refused(found)
    // Our own connection reports the other connection errors; BullMQ's connections only repeat them.
    else if (found === null) once.error(describe(error), isLostJob(error) ? 'lost jobs' : undefined)
  }

  return {
    problem: () => problem,
    note,
    lost(error: unknown, { wasReady }: { wasReady: boolean }) {
      const found = lostConnection(error, url, { wasEverReady })
      if (!isHangUp(error)) became(found)
      // A problem already known explains more than the hang-up does.
      else if (problem === null || problem.kind === 'away') {
        problem = found
        // If the connection was ready, the next attempt shows the cause.
        if (!wasReady) void explainHangUp(found)
      }
    },
    connected() {
      wasEverReady = true
      // Wait before probing a Redis that refuses: each refusal by a replica makes us reconnect.
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
  if (!isLostJob(error)) return `Queue error: ${text}`
  const job = /job (\S+?)\.?(?:\s|$)/.exec(text)?.[1] ?? ''
  return `This worker lost job ${job}: Redis was away for longer than JOB_LOCK_MS, or lost its data. What the run fetched is kept; the next run continues from there.`
}

/** Logs an error again only if it has not occurred for a minute. */
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
