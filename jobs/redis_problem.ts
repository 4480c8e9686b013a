import { messageOf, redisRefusal, systemCode } from '#src/platform/errors.ts'

/** What keeps this program from using Redis. */
export type RedisProblem = {
  /**
   * `away`: the connection is lost or never came about. `refused`: Redis answers, but with a no that the next try would
   * hear as well. `wrong`: what answers there cannot be used until a setting or the server is changed.
   */
  readonly kind: 'away' | 'refused' | 'wrong'
  /** What happened, and what to do. */
  readonly sentence: string
  /** It does not say which right is missing. */
  readonly isVague?: boolean
}

const NOT_TRUSTED =
  /^(SELF_SIGNED_CERT_IN_CHAIN|DEPTH_ZERO_SELF_SIGNED_CERT|UNABLE_TO_(VERIFY_LEAF_SIGNATURE|GET_ISSUER_CERT(_LOCALLY)?)|CERT_(UNTRUSTED|SIGNATURE_FAILURE))$/
const NO_TLS = /^(ERR_SSL_WRONG_VERSION_NUMBER|ERR_SSL_PACKET_LENGTH_TOO_LONG|EPROTO)$/
const NEEDS_NO_TLS = ' If it does not speak TLS, write redis://.'
const NO_DATABASE = /DB index is out of range|invalid DB index/
const CLUSTER = /SELECT is not allowed in cluster mode/
/** Of a connection that was lost, or given up by us; codes of files (ENOENT, EACCES) are nobody's of Redis. */
const LOST =
  /^(ECONN[A-Z]+|EPIPE|ETIMEDOUT|ENOTFOUND|EAI_[A-Z]+|E(HOST|NET)(UNREACH|DOWN)|EADDRNOTAVAIL|EBADF|NR_CLOSED)$/
const LOST_TEXT = /Connection is closed|^Socket timeout\.|Command aborted due to connection close|^UNBLOCKED /

/** Whether it is a matter of the connection, of Redis' consent, or (null) of neither. */
export function redisProblem(error: unknown, url: string): RedisProblem | null {
  const text = textOf(error)
  const code = systemCode(error) ?? ''
  const { host, pathname } = new URL(url)
  if (NO_DATABASE.test(text)) {
    const database = pathname.slice(1)
    return wrong(
      `Redis at ${host} has no database ${database}. Write a lower number at the end of REDIS_URL, then restart.`,
    )
  }
  if (CLUSTER.test(text)) return { kind: 'refused', sentence: redisRefusal('CROSSSLOT') }
  if (isRefusal(error)) {
    const sentence = redisRefusal(text)
    return { kind: 'refused', sentence, isVague: sentence.includes('(NOPERM)') }
  }
  const resp = /^Unknown RESP type \d+/.exec(text)?.[0]
  if (resp) {
    return wrong(
      `What answers at ${host} is not Redis (${resp}). Set REDIS_URL to the address of Redis, then restart.`,
    )
  }
  return (
    tlsProblem(code, host) ?? (LOST.test(code) || LOST_TEXT.test(text) ? away(code, text, { url }) : null)
  )
}

/** Why a connection was lost or did not come about, whatever the error says. */
export function lostConnection(
  error: unknown,
  url: string,
  { wasEverReady = false }: { wasEverReady?: boolean } = {},
): RedisProblem {
  const problem = redisProblem(error, url)
  if (problem && problem.kind !== 'away') return problem
  return away(systemCode(error) ?? '', messageOf(error), { url, wasEverReady })
}

/** A connection that was cut: the next try shows what that means. */
export function isHangUp(error: unknown): boolean {
  return /^(ECONNRESET|EPIPE)$/.test(systemCode(error) ?? '')
}

function wrong(sentence: string): RedisProblem {
  return { kind: 'wrong', sentence }
}

function tlsProblem(code: string, host: string): RedisProblem | null {
  if (NOT_TRUSTED.test(code)) {
    return wrong(
      `The certificate of Redis at ${host} is not trusted (${code}). Put the certificate of the authority that signed it into a file, and its path into REDIS_CA_FILE; then restart.`,
    )
  }
  if (code === 'CERT_HAS_EXPIRED') {
    return wrong(`The certificate of Redis at ${host} has expired. Give Redis a new one.`)
  }
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') {
    return wrong(
      `The certificate of Redis is for another name than ${host}. Write its name in REDIS_URL, or give Redis a certificate for this one.`,
    )
  }
  if (NO_TLS.test(code)) {
    return wrong(
      `What answers at ${host} does not speak TLS (${code}). Write redis:// in REDIS_URL, then restart.`,
    )
  }
  return null
}

function away(
  code: string,
  text: string,
  { url, wasEverReady = false }: { url: string; wasEverReady?: boolean },
): RedisProblem {
  const silence = /any in (\d+)ms/.exec(text)?.[1]
  if (silence !== undefined) return silent(url, { ms: Number(silence), wasEverReady })
  const { protocol } = new URL(url)
  // Redis without TLS waits for the rest of what it takes for a command; with TLS it hangs up on plain text.
  let hint = ''
  if (protocol === 'rediss:' && code === 'ETIMEDOUT') hint = NEEDS_NO_TLS
  if (protocol === 'redis:' && code === 'ECONNRESET') hint = ' If it expects TLS, write rediss://.'
  return noAnswer(url, code || text, wasEverReady ? '' : hint)
}

/** It may be connected, but sent nothing for so long. */
export function silent(
  url: string,
  { ms, wasEverReady }: { ms: number; wasEverReady: boolean },
): RedisProblem {
  const hint = url.startsWith('rediss:') && !wasEverReady ? NEEDS_NO_TLS : ''
  return noAnswer(url, `nothing within ${ms / 1000} s`, hint)
}

function noAnswer(url: string, how: string, hint: string): RedisProblem {
  const sentence = `Redis at ${new URL(url).host} does not answer (${how}). Start it, or set REDIS_URL.${hint}`
  return { kind: 'away', sentence }
}

/** BullMQ says first what it was about. */
function textOf(error: unknown): string {
  return messageOf(error).replace(/^Failed to add repeatable job for next iteration: /, '')
}

const CODES =
  'OOM|READONLY|NOAUTH|WRONGPASS|NOPERM|MISCONF|LOADING|MASTERDOWN|CLUSTERDOWN|CROSSSLOT|MOVED|NOREPLICAS|DENIED|BUSY'
/** Before 7.0, an error inside a script stands behind a prefix of the script's. */
const REFUSAL = new RegExp(
  `^(?:ERR Error running script .*? -?)?(?:${CODES}) |user executing the script can't|^ERR max number of clients|^ERR unknown command`,
)

/** Redis answers, but with a no that the next try would hear as well. */
export function isRefusal(error: unknown): boolean {
  return REFUSAL.test(textOf(error))
}

/** Whether it is Redis that keeps a command from being carried out, and not the command itself. */
export function isOfRedis(error: unknown): boolean {
  return redisProblem(error, 'redis://redis') !== null
}

/** Redis no longer knows the job as this worker's: it was away for longer than the job's lock, or lost its data. */
export function isLostJob(error: unknown): boolean {
  const text = messageOf(error)
  const isLost = /^(Missing (lock|key)|Lock mismatch) for job |^Job \S+ is not in the active state/.test(text)
  return isLost || isLostRenewal(error)
}

export function isLostRenewal(error: unknown): boolean {
  return messageOf(error).startsWith('could not renew lock for job')
}
