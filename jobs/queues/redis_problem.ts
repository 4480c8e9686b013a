import { findSystemCode, getMessage } from '#src/lib/errors.ts'
import { recognizeTlsTrouble } from '#src/lib/http/network_error.ts'
import { explainRedisRefusal, isRedisRefusal } from '#src/lib/redis_refusal.ts'
import type { RedisClient } from './redis.ts'

/** Why this program cannot use Redis. */
export type RedisProblem = {
  /**
   * `away`: the connection is lost or was never made. `refused`: Redis rejects commands, and would reject a retry too.
   * `wrong`: the server at this address cannot be used until a setting or the server is changed.
   */
  readonly kind: 'away' | 'refused' | 'wrong'
  /** The message: what happened, and what to do. */
  readonly sentence: string
  /** The sentence does not name the missing permission. */
  readonly isVague?: boolean
}

const NEEDS_NO_TLS = ' If it does not speak TLS, write redis://.'
const NO_DATABASE = /DB index is out of range|invalid DB index/
const CLUSTER = /SELECT is not allowed in cluster mode/
const NO_CLUSTER = /cluster support disabled/
/** Codes of a connection that was lost, or that we gave up; file errors (ENOENT, EACCES) are not Redis's. */
const LOST =
  /^(ECONN[A-Z]+|EPIPE|ETIMEDOUT|ENOTFOUND|EAI_[A-Z]+|E(HOST|NET)(UNREACH|DOWN)|EADDRNOTAVAIL|EBADF|EPROTO|NR_CLOSED)$/
const LOST_TEXT =
  /Connection is closed|None of startup nodes is available|Cluster is ended|Failed to refresh slots cache|^Socket timeout\.|Command aborted due to connection close|^UNBLOCKED /

/**
 * Returns the problem of the connection or of Redis that the error shows; null if it shows neither.
 * @param address holds the password: only its host may be shown.
 */
export function recognizeRedisProblem(error: unknown, address: string): RedisProblem | null {
  const text = readMessage(error)
  const code = findSystemCode(error) ?? ''
  const { host, pathname } = new URL(address)
  if (NO_DATABASE.test(text)) {
    const database = pathname.slice(1)
    return wrong(
      `Redis at ${host} has no database ${database}. Write a lower number at the end of REDIS_URL, then restart.`,
    )
  }
  if (CLUSTER.test(text)) return { kind: 'refused', sentence: explainRedisRefusal('CROSSSLOT') }
  if (NO_CLUSTER.test(text)) {
    return wrong(
      `Redis at ${host} is not in cluster mode. Set REDIS_URL to its address alone, without ?cluster, then restart.`,
    )
  }
  if (isRefusal(error)) {
    const sentence = explainRedisRefusal(text)
    return { kind: 'refused', sentence, isVague: sentence.includes('(NOPERM)') }
  }
  const resp = /^Unknown RESP type \d+/.exec(text)?.[0]
  if (resp) {
    return wrong(
      `The server at ${host} is not Redis (${resp}). Set REDIS_URL to the address of Redis, then restart.`,
    )
  }
  return (
    tlsProblem(code, text, address) ??
    (LOST.test(code) || LOST_TEXT.test(text) ? away(code, text, { address }) : null)
  )
}

/** Returns why a connection was lost or could not be made; an error that shows no other problem means `away`. */
export function explainLostConnection(
  error: unknown,
  address: string,
  { wasEverReady = false }: { wasEverReady?: boolean } = {},
): RedisProblem {
  const problem = recognizeRedisProblem(error, address)
  if (problem && problem.kind !== 'away') return problem
  return away(findSystemCode(error) ?? '', getMessage(error), { address, wasEverReady })
}

/** Returns whether the connection was cut: then the next attempt shows the cause. */
export function isHangUp(error: unknown): boolean {
  return /^(ECONNRESET|EPIPE)$/.test(findSystemCode(error) ?? '')
}

function wrong(sentence: string): RedisProblem {
  return { kind: 'wrong', sentence }
}

function tlsProblem(code: string, text: string, address: string): RedisProblem | null {
  const { host } = new URL(address)
  const trouble = recognizeTlsTrouble(code, text)
  if (trouble === 'not_trusted') {
    return wrong(
      `The certificate of Redis at ${host} is not trusted (${code}). Set REDIS_CA_FILE to a file with the certificate of the authority that signed it, then restart.`,
    )
  }
  if (trouble === 'expired') {
    return wrong(`The certificate of Redis at ${host} has expired. Renew it.`)
  }
  if (trouble === 'other_name') {
    return wrong(
      `The certificate of Redis is not for ${host}. Write the name in the certificate into REDIS_URL, or give Redis a certificate for this name.`,
    )
  }
  if (trouble === 'no_tls') {
    return wrong(
      `The server at ${host} does not speak TLS (${code}). Write redis:// in REDIS_URL, then restart.`,
    )
  }
  return null
}

function away(
  code: string,
  text: string,
  { address, wasEverReady = false }: { address: string; wasEverReady?: boolean },
): RedisProblem {
  const silence = /any in (\d+)ms/.exec(text)?.[1]
  if (silence !== undefined) return describeSilence(address, { ms: Number(silence), wasEverReady })
  const { protocol } = new URL(address)
  // Without TLS, Redis takes the TLS greeting for an unfinished command and waits; with TLS it hangs up on plain text.
  let hint = ''
  if (protocol === 'rediss:' && code === 'ETIMEDOUT') hint = NEEDS_NO_TLS
  if (protocol === 'redis:' && code === 'ECONNRESET') hint = ' If it expects TLS, write rediss://.'
  return noAnswer(address, code || text, wasEverReady ? '' : hint)
}

/** Redis may be connected, but sent nothing for this long. */
export function describeSilence(
  address: string,
  { ms, wasEverReady }: { ms: number; wasEverReady: boolean },
): RedisProblem {
  const hint = address.startsWith('rediss:') && !wasEverReady ? NEEDS_NO_TLS : ''
  return noAnswer(address, `nothing within ${ms / 1000} s`, hint)
}

function noAnswer(address: string, how: string, hint: string): RedisProblem {
  const sentence = `Redis at ${new URL(address).host} does not answer (${how}). Start it, or set REDIS_URL.${hint}`
  return { kind: 'away', sentence }
}

/** Returns the message without the prefix that BullMQ adds. */
function readMessage(error: unknown): string {
  return getMessage(error).replace(/^Failed to add repeatable job for next iteration: /, '')
}

/** Returns whether Redis rejected the command, and would reject a retry too. */
export function isRefusal(error: unknown): boolean {
  return isRedisRefusal(readMessage(error))
}

/** Returns whether the error is due to Redis, not to the command itself. */
export function isOfRedis(error: unknown): boolean {
  return recognizeRedisProblem(error, 'redis://redis') !== null
}

/** Returns whether this worker no longer owns the job: Redis was away for longer than the job's lock lasts, or lost its data. */
export function isLostJob(error: unknown): boolean {
  const text = getMessage(error)
  const isLost = /^(Missing (lock|key)|Lock mismatch) for job |^Job \S+ is not in the active state/.test(text)
  return isLost || isLostRenewal(error)
}

export function isLostRenewal(error: unknown): boolean {
  return getMessage(error).startsWith('could not renew lock for job')
}

/**
 * Runs each command that BullMQ and we use once, on a key that is deleted afterwards. Redis refuses some of them if it is full, a
 * replica, a node of a cluster (without ?cluster in REDIS_URL, the two keys have different slots), or if its user has too few
 * permissions. The error names the refused command, which Redis itself does not do for scripts. SET comes first: after another
 * write, a script may continue when memory runs out.
 */
const PROBE = `
  local key = KEYS[1]
  local groups = {
    { {'SET', key, '1', 'PX', '1000'}, {'GET', key}, {'PTTL', key}, {'PEXPIRE', key, '1000'}, {'PERSIST', key},
      {'TYPE', key}, {'EXISTS', key}, {'RENAME', key, key}, {'INCR', key} },
    { {'HSET', key, 'a', '1'}, {'HMSET', key, 'a', '1'}, {'HSETNX', key, 'b', '1'}, {'HGET', key, 'a'},
      {'HMGET', key, 'a'}, {'HGETALL', key}, {'HLEN', key}, {'HEXISTS', key, 'a'}, {'HINCRBY', key, 'a', '1'},
      {'HDEL', key, 'a'} },
    { {'LPUSH', key, 'a', 'b', 'c'}, {'RPUSH', key, 'd'}, {'LLEN', key}, {'LRANGE', key, '0', '-1'},
      {'LINDEX', key, '0'}, {'LPOS', key, 'a'}, {'LSET', key, '0', 'e'}, {'LREM', key, '0', 'x'}, {'LTRIM', key, '0', '9'},
      {'RPOPLPUSH', key, key}, {'LPOP', key}, {'RPOP', key} },
    { {'SADD', key, 'a'}, {'SCARD', key}, {'SMEMBERS', key}, {'SISMEMBER', key, 'a'}, {'SREM', key, 'b'} },
    { {'ZADD', key, '1', 'a'}, {'ZCARD', key}, {'ZCOUNT', key, '0', '1'}, {'ZSCORE', key, 'a'},
      {'ZRANGE', key, '0', '-1'}, {'ZREVRANGE', key, '0', '-1'}, {'ZRANGEBYSCORE', key, '0', '1'},
      {'ZREVRANGEBYSCORE', key, '1', '0'}, {'ZREM', key, 'b'}, {'ZREMRANGEBYSCORE', key, '5', '6'},
      {'ZREMRANGEBYRANK', key, '5', '6'}, {'ZPOPMIN', key} },
    { {'XADD', key, '*', 'a', '1'}, {'XTRIM', key, 'MAXLEN', '1'} },
  }
  for _, commands in ipairs(groups) do
    for _, command in ipairs(commands) do
      local answer = redis.pcall(unpack(command))
      if type(answer) == 'table' and answer.err then
        redis.call('DEL', key)
        local message = string.gsub(answer.err, '^ERR The user executing', 'NOPERM ' .. command[1] .. ': the user executing')
        return redis.error_reply(message)
      end
    end
    redis.call('DEL', key)
  end
  return 1`

const BLOCK_SECONDS = 0.01

/** Runs the commands that this program needs. @throws the error from Redis if it refuses one. */
export async function probe(redis: RedisClient, prefix: string): Promise<void> {
  await redis.eval(PROBE, 2, `${prefix}:ready`, `${prefix}:runs:meta`)
  // Not allowed in a script. The key is empty, so this only waits for the timeout.
  await redis.bzpopmin(`${prefix}:ready`, BLOCK_SECONDS)
}

/** Throws unless the Redis that holds our keys answers: in a cluster, other nodes may answer without it. */
export async function reach(redis: RedisClient, prefix: string): Promise<void> {
  await redis.exists(`${prefix}:ready`)
}

/** The id of a stream's first entry begins with Redis's time. TIME would need a right of its own. */
const CLOCK = `
  local id = redis.call('XADD', KEYS[1], '*', 'a', '1')
  redis.call('DEL', KEYS[1])
  return id`

/** Returns how far Redis's clock is ahead of this machine's, in ms, to half the time of an answer. */
export async function measureClockAheadMs(redis: RedisClient, prefix: string): Promise<number> {
  const [askedMs, startedMs] = [Date.now(), performance.now()]
  const id = String(await redis.eval(CLOCK, 1, `${prefix}:clock`))
  return Number(id.split('-')[0]) - askedMs - (performance.now() - startedMs) / 2
}
