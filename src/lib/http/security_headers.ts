/** Forbids what our pages do not need. Bull Board requests fonts from another server, but works without them. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "object-src 'none'",
  "frame-ancestors 'none'",
  "base-uri 'self'",
  "form-action 'self'",
].join('; ')

/** Sent with every answer; a route may override the values. */
export const SECURITY_HEADERS = {
  'content-security-policy': CONTENT_SECURITY_POLICY,
  'cross-origin-opener-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
} as const

/** Also sent if the client uses TLS to a trusted proxy: it must keep using TLS for a year. */
export const TLS_HEADERS = { 'strict-transport-security': 'max-age=31536000' } as const

/** Returns whether a browser sent the request from a page of another site. Programs send neither header. */
export function isFromElsewhere(headers: Headers): boolean {
  // Set by the browser, and no page can forge it. Browsers send it only over a secure connection.
  const site = headers.get('sec-fetch-site')
  if (site !== null) return site !== 'same-origin' && site !== 'none'
  const origin = headers.get('origin')
  if (origin === null) return false
  // Compared without the scheme: a proxy in front of us may speak TLS.
  return !URL.canParse(origin) || new URL(origin).host !== headers.get('host')
}
