/** The message of a request, or a status and a sentence that refuse it. */
export type OneMessage = { readonly request: Request } | { readonly status: 400 | 413; readonly why: string }

/**
 * Reads a request to its bound, and refuses an array of messages: the protocol has none since its revision 2025-06-18, and a
 * hundred messages would count as one request.
 * @param maxBytes of the body.
 */
export async function oneMessage(request: Request, maxBytes: number): Promise<OneMessage> {
  const body = await bodyOf(request, maxBytes)
  if (body === null)
    return { status: 413, why: `The message is too long: at most ${maxBytes / 1024} KiB are allowed.` }
  if (/^\s*\[/.test(body))
    return { status: 400, why: 'Send one message at a time: an array of messages is not accepted.' }
  const { url, method, headers, signal } = request
  return { request: new Request(url, { method, headers, signal, ...(body === '' ? {} : { body }) }) }
}

/** Null if it is longer. */
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
