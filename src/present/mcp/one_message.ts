/** The message of a request, or a status and a sentence that refuse it. */
type OneMessage = { readonly request: Request } | { readonly status: 400 | 406 | 413; readonly why: string }

/** The library requires both of every client, although each answer here is JSON. */
const ACCEPT = 'application/json, text/event-stream'
/** Ranges that admit JSON, the most specific first. */
const JSON_RANGES = ['application/json', 'application/*', '*/*']

/**
 * Reads a request to its bound, and refuses an array of messages: the protocol has none since its revision 2025-06-18, and a
 * hundred messages would count as one request.
 * @param maxBytes of the body.
 */
export async function oneMessage(request: Request, maxBytes: number): Promise<OneMessage> {
  if (!admitsJson(request.headers.get('accept')))
    return { status: 406, why: 'The answer is JSON: the client must accept application/json.' }
  const body = await bodyOf(request, maxBytes)
  if (body === null)
    return { status: 413, why: `The message is too long: at most ${maxBytes / 1024} KiB are allowed.` }
  if (/^\s*\[/.test(body))
    return { status: 400, why: 'Send one message at a time: an array of messages is not accepted.' }
  const { url, method, signal } = request
  const headers = new Headers(request.headers)
  headers.set('accept', ACCEPT)
  return { request: new Request(url, { method, headers, signal, ...(body === '' ? {} : { body }) }) }
}

/** Returns whether the value of `Accept` admits JSON; without one, RFC 9110 admits all types. */
function admitsJson(accept: string | null): boolean {
  if (!accept?.trim()) return true
  const ranges = new Map(
    accept.split(',').map(range => {
      const [type = '', ...parameters] = range.split(';').map(part => part.trim().toLowerCase())
      return [type, parameters.every(parameter => !/^q=0(\.0*)?$/.test(parameter))]
    }),
  )
  const found = JSON_RANGES.find(range => ranges.has(range))
  return found !== undefined && ranges.get(found) === true
}

/** Returns null if it is longer. */
async function bodyOf(request: Request, maxBytes: number): Promise<string | null> {
  if (Number(request.headers.get('content-length')) > maxBytes) return null
  const parts: Uint8Array[] = []
  let bytes = 0
  for await (const part of request.body ?? []) {
    bytes += part.length
    if (bytes > maxBytes) return null
    parts.push(part)
  }
  return Buffer.concat(parts).toString()
}
