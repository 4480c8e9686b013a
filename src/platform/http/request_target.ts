import type { IncomingMessage } from 'node:http'

/** Why a request cannot be routed, before any route is looked for. */
export type BadRequest = { readonly status: 400; readonly detail: string }

/** A name (or an address) and perhaps a port, as RFC 9110 has it; no list, no user, no path. */
const HOST = /^(?:[a-z0-9._~!$&'()*+;=%-]{1,255}|\[[0-9a-f:.]{2,45}\])(?::\d{1,5})?$/i

/** What is wrong with the request's line and its Host; null if nothing is. */
export function badRequest(incoming: IncomingMessage): BadRequest | null {
  const { host } = incoming.headers
  // Node keeps the first of several.
  if (countOf('host', incoming.rawHeaders) > 1) return bad('The request has more than one Host header.')
  // HTTP/1.0 has none: health checks of load balancers speak it.
  if (host === undefined && incoming.httpVersion !== '1.0') return bad('The request has no Host header.')
  if (host !== undefined && !HOST.test(host)) return bad('The Host header is malformed.')
  return /^(?:\/|https?:\/\/)/i.test(incoming.url ?? '')
    ? null
    : bad('The request target must be a path, such as /api/v1/editais.')
}

/** @param rawHeaders names and values in turn. */
function countOf(name: string, rawHeaders: readonly string[]): number {
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
 * The path that was asked for, exactly: `/a/.` and `/a/%2e` stay what they are, where a URL parser would make
 * `/a/` of them, another address. Percent-encoded letters are decoded, as every router does.
 */
export function requestPath(target: string): string {
  const [withoutQuery = ''] = target.split(/[?#]/, 1)
  const path = /^https?:\/\//i.test(withoutQuery)
    ? withoutQuery.replace(/^https?:\/\/[^/]*/i, '') || '/'
    : withoutQuery
  if (!path.includes('%')) return path
  try {
    // An encoded % stays encoded: ids are decoded once more by their route.
    return decodeURI(path.replaceAll('%25', '%2525'))
  } catch {
    return path
  }
}
