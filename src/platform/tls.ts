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
const NO_TLS = /^(ERR_SSL_WRONG_VERSION_NUMBER|ERR_SSL_PACKET_LENGTH_TOO_LONG|EPROTO)$/

/** What a system error code says about TLS; null if it is about something else. */
export function tlsTrouble(code: string): TlsTrouble | null {
  if (NOT_TRUSTED.test(code)) return 'not_trusted'
  if (code === 'CERT_HAS_EXPIRED') return 'expired'
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') return 'other_name'
  if (NO_TLS.test(code)) return 'no_tls'
  return /^(CERT_|ERR_TLS_|ERR_SSL_|UNABLE_TO_(VERIFY|GET|DECODE|DECRYPT)_)/.test(code) ? 'failed' : null
}
