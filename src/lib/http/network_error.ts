import { findSystemCode, getMessage } from '#src/lib/errors.ts'

/** The trouble that prevented a complete answer. */
type NetworkTrouble =
  /** TLS failed: nothing was sent, and a retry does not help. */
  | 'untrusted'
  /** There was no connection, so nothing was sent. */
  | 'unreached'
  /** No complete answer came in time; the request may have been handled. */
  | 'late'
  /** The connection was lost, or what came is not HTTP; the request may have been handled. */
  | 'lost'

/** No complete answer to an HTTP request. The message is a clause, such as `the connection was refused`. */
export class NetworkError extends Error {
  override readonly name = 'NetworkError'
  readonly trouble: NetworkTrouble
  /** The system's code, for the message; null if our own time limit ended the request. */
  readonly code: string | null

  constructor(trouble: NetworkTrouble, clause: string, code: string | null, options?: ErrorOptions) {
    super(clause, options)
    this.trouble = trouble
    this.code = code
  }
}

const TLS_CLAUSES: Readonly<Record<TlsTrouble, string>> = {
  not_trusted: 'no trusted authority signed its certificate',
  expired: 'its certificate has expired',
  other_name: 'its certificate is for another host name',
  no_tls: 'it does not speak TLS',
  failed: 'TLS failed',
}

/** undici's name for an error of its parser, which usually has no code. */
const NOT_HTTP = 'HTTPParserError'

type Meaning = readonly [NetworkTrouble, string]

function meanings(limit: string): Readonly<Record<string, Meaning>> {
  return {
    ECONNREFUSED: ['unreached', 'the connection was refused'],
    ENOTFOUND: ['unreached', 'the host name is unknown'],
    EAI_AGAIN: ['unreached', 'the host name lookup failed'],
    EHOSTUNREACH: ['unreached', 'the host is unreachable'],
    EHOSTDOWN: ['unreached', 'the host is down'],
    EPRIVATE: ['unreached', 'its address is private'],
    ENETUNREACH: ['unreached', 'the network is unreachable'],
    UND_ERR_CONNECT_TIMEOUT: ['unreached', `no connection within ${limit}`],
    UND_ERR_HEADERS_TIMEOUT: ['late', `no answer within ${limit}`],
    UND_ERR_BODY_TIMEOUT: ['late', `the answer stalled for longer than ${limit}`],
    ETIMEDOUT: ['lost', 'the connection timed out'],
    ECONNRESET: ['lost', 'the connection was reset'],
    EPIPE: ['lost', 'the connection was closed'],
    EPROTO: ['lost', 'the connection broke'],
    UND_ERR_SOCKET: ['lost', 'the connection was closed'],
    [NOT_HTTP]: ['lost', 'the answer is not valid HTTP'],
  }
}

/**
 * Returns a NetworkError for an error of the network; programming errors are returned unchanged, because a retry would not
 * help.
 * @param limit names the time limit in messages: a setting, or a duration.
 */
export function explainNetwork(error: unknown, limit: string): unknown {
  const code = findCode(error)
  if (code === undefined || code === 'UND_ERR_INVALID_ARG') return error
  const tls = recognizeTlsTrouble(code, getMessage(error))
  const known: Meaning | undefined = tls ? ['untrusted', TLS_CLAUSES[tls]] : meanings(limit)[code]
  if (!known && !/^(UND_ERR_|HPE_|EAI_|E[A-Z]+$)/.test(code)) return error
  const [trouble, clause] = known ?? ['lost', getMessage(error)]
  return new NetworkError(trouble, clause, code, { cause: error })
}

/** Returns whether its message is in our words, and not the system's, which can contain an address. */
export function isInOurWords({ code, trouble }: NetworkError): boolean {
  return code === null || trouble === 'untrusted' || meanings('')[code] !== undefined
}

function findCode(error: unknown): string | undefined {
  const isParser = error instanceof Error && error.name === NOT_HTTP
  return findSystemCode(error) ?? (isParser ? NOT_HTTP : undefined)
}

/** Why a TLS connection failed. A retry does not help: a certificate or a setting must be changed. */
type TlsTrouble =
  /** No authority that this program trusts signed the certificate. */
  | 'not_trusted'
  | 'expired'
  /** The certificate is for another host name. */
  | 'other_name'
  /** The server speaks plain text. */
  | 'no_tls'
  /** Anything else: a revoked certificate, or no common version or cipher. */
  | 'failed'

const NOT_TRUSTED =
  /^(SELF_SIGNED_CERT_IN_CHAIN|DEPTH_ZERO_SELF_SIGNED_CERT|UNABLE_TO_(VERIFY_LEAF_SIGNATURE|GET_ISSUER_CERT(_LOCALLY)?)|CERT_(UNTRUSTED|SIGNATURE_FAILURE))$/
const NO_TLS = /^ERR_SSL_(WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG)$/
/** `NO_TLS`, as the text of a write that failed (EPROTO) has it. */
const NO_TLS_TEXT = /wrong version number|packet length too long/

/**
 * Returns what a system error, given by its code and its text, says about TLS; null if it is about something else. EPROTO alone
 * is not enough: it is also the code of a connection that breaks after its handshake.
 */
export function recognizeTlsTrouble(code: string, text: string): TlsTrouble | null {
  if (NOT_TRUSTED.test(code)) return 'not_trusted'
  if (code === 'CERT_HAS_EXPIRED') return 'expired'
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') return 'other_name'
  if (NO_TLS.test(code) || (code === 'EPROTO' && NO_TLS_TEXT.test(text))) return 'no_tls'
  return /^(CERT_|ERR_TLS_|ERR_SSL_|UNABLE_TO_(VERIFY|GET|DECODE|DECRYPT)_)/.test(code) ? 'failed' : null
}
