import { messageOf, systemCode } from '#src/lib/errors.ts'
import { tlsTrouble } from '#src/lib/http/network_error.ts'
import { isRedisRefusal, redisRefusal } from '#src/lib/redis_refusal.ts'

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
export function redisProblem(error: unknown, address: string): RedisProblem | null {
  const text = textOf(error)
  const code = systemCode(error) ?? ''
  const { host, pathname } = new URL(address)
  if (NO_DATABASE.test(text)) {
    const database = pathname.slice(1)
    return wrong(
      `Redis at ${host} has no database ${database}. Write a lower number at the end of REDIS_URL, then restart.`,
    )
  }
  if (CLUSTER.test(text)) return { kind: 'refused', sentence: redisRefusal('CROSSSLOT') }
  if (NO_CLUSTER.test(text)) {
    return wrong(
      `Redis at ${host} is not in cluster mode. Set REDIS_URL to its address alone, without ?cluster, then restart.`,
    )
  }
  if (isRefusal(error)) {
    const sentence = redisRefusal(text)
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
export function lostConnection(
  error: unknown,
  address: string,
  { wasEverReady = false }: { wasEverReady?: boolean } = {},
): RedisProblem {
  const problem = redisProblem(error, address)
  if (problem && problem.kind !== 'away') return problem
  return away(systemCode(error) ?? '', messageOf(error), { address, wasEverReady })
}

/** Returns whether the connection was cut: then the next attempt shows the cause. */
export function isHangUp(error: unknown): boolean {
  return /^(ECONNRESET|EPIPE)$/.test(systemCode(error) ?? '')
}

function wrong(sentence: string): RedisProblem {
  return { kind: 'wrong', sentence }
}

function tlsProblem(code: string, text: string, address: string): RedisProblem | null {
  const { host } = new URL(address)
  const trouble = tlsTrouble(code, text)
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
  if (silence !== undefined) return silent(address, { ms: Number(silence), wasEverReady })
  const { protocol } = new URL(address)
  // Without TLS, Redis takes the TLS greeting for an unfinished command and waits; with TLS it hangs up on plain text.
  let hint = ''
  if (protocol === 'rediss:' && code === 'ETIMEDOUT') hint = NEEDS_NO_TLS
  if (protocol === 'redis:' && code === 'ECONNRESET') hint = ' If it expects TLS, write rediss://.'
  return noAnswer(address, code || text, wasEverReady ? '' : hint)
}

/** Redis may be connected, but sent nothing for this long. */
export function silent(
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
function textOf(error: unknown): string {
  return messageOf(error).replace(/^Failed to add repeatable job for next iteration: /, '')
}

/** Returns whether Redis rejected the command, and would reject a retry too. */
export function isRefusal(error: unknown): boolean {
  return isRedisRefusal(textOf(error))
}

/** Returns whether the error is due to Redis, not to the command itself. */
export function isOfRedis(error: unknown): boolean {
  return redisProblem(error, 'redis://redis') !== null
}

/** Returns whether this worker no longer owns the job: Redis was away for longer than the job's lock lasts, or lost its data. */
export function isLostJob(error: unknown): boolean {
  const text = messageOf(error)
  const isLost = /^(Missing (lock|key)|Lock mismatch) for job |^Job \S+ is not in the active state/.test(text)
  return isLost || isLostRenewal(error)
}

export function isLostRenewal(error: unknown): boolean {
  return messageOf(error).startsWith('could not renew lock for job')
}
