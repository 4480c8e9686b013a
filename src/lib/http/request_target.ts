import type { IncomingMessage } from 'node:http'

/** Why a request is rejected before routing. */
type BadRequest = { readonly status: 400; readonly detail: string }

/** A name or address, and optionally a port, per RFC 9110; no list, user or path. */
const HOST = /^(?:[a-z0-9._~!$&'()*+;=%-]{1,255}|\[[0-9a-f:.]{2,45}\])(?::\d{1,5})?$/i

/** Returns what is wrong with the request line or the Host header, or null. */
export function findBadRequest(incoming: IncomingMessage): BadRequest | null {
  const { host } = incoming.headers
  // Node keeps only the first, so the raw headers are counted.
  if (countHeaders('host', incoming.rawHeaders) > 1) return bad('The request has more than one Host header.')
  // HTTP/1.0 does not require one, and load balancers use it for health checks.
  if (host === undefined && incoming.httpVersion !== '1.0') return bad('The request has no Host header.')
  if (host !== undefined && !HOST.test(host)) return bad('The Host header is malformed.')
  return /^(?:\/|https?:\/\/)/i.test(incoming.url ?? '')
    ? null
    : bad('The request target must be a path, such as /api/v1/editais.')
}

/** Counts the headers with this name. @param rawHeaders alternating names and values. */
function countHeaders(name: string, rawHeaders: readonly string[]): number {
  let count = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const one = rawHeaders[at] as string
    if (one.length === name.length && one.toLowerCase() === name) count += 1
  }
  return count
}

function bad(detail: string): BadRequest {
  return { status: 400, detail }
}

/**
 * Returns the exact request path: `/a/.` and `/a/%2e` stay as they are. A URL parser would turn them into `/a/`, a
 * different path. Percent-encoded letters are decoded, as every router does.
 */
export function requestPath(target: string): string {
  const [withoutQuery = ''] = target.split(/[?#]/, 1)
  const path = /^https?:\/\//i.test(withoutQuery)
    ? withoutQuery.replace(/^https?:\/\/[^/]*/i, '') || '/'
    : withoutQuery
  if (!path.includes('%')) return path
  try {
    // An encoded % stays encoded, because the route decodes ids once more.
    return decodeURI(path.replaceAll('%25', '%2525'))
  } catch {
    return path
  }
}
