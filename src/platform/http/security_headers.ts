/** What no page of ours needs is forbidden: Bull Board asks for fonts of another server, and does without. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "object-src 'none'",
  "frame-ancestors 'none'",
  "base-uri 'self'",
  "form-action 'self'",
].join('; ')

/** In every answer, whatever it is about; a route may set its own values. */
export const SECURITY_HEADERS = {
  'content-security-policy': CONTENT_SECURITY_POLICY,
  'cross-origin-opener-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
} as const

/** Besides, if the client speaks TLS with a trusted proxy: it shall go on doing so for a year. */
export const TLS_HEADERS = { 'strict-transport-security': 'max-age=31536000' } as const
