/** Why a TLS connection failed. A retry does not help: a certificate or a setting must be changed. */
export type TlsTrouble =
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
export function tlsTrouble(code: string, text: string): TlsTrouble | null {
  if (NOT_TRUSTED.test(code)) return 'not_trusted'
  if (code === 'CERT_HAS_EXPIRED') return 'expired'
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') return 'other_name'
  if (NO_TLS.test(code) || (code === 'EPROTO' && NO_TLS_TEXT.test(text))) return 'no_tls'
  return /^(CERT_|ERR_TLS_|ERR_SSL_|UNABLE_TO_(VERIFY|GET|DECODE|DECRYPT)_)/.test(code) ? 'failed' : null
}
