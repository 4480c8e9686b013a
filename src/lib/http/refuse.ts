import type { ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { systemCode } from '#src/lib/errors.ts'
import { REFUSAL_WITHIN_MS } from './outgoing.ts'
import { SECURITY_HEADERS } from './security_headers.ts'

/** Answers an error. If the adapter could not read the request, the client is at fault; otherwise this server is. */
export function answerTo(error: unknown): Response {
  const isWrong = error instanceof Error && error.name === 'RequestError'
  return isWrong
    ? Response.json({ error: 'bad_request', detail: 'The request target is malformed.' }, { status: 400 })
    : Response.json({ error: 'internal_error' }, { status: 500 })
}

/** Answers a request that no route may see (`request_target.ts`). */
export function sendPlainError(
  outgoing: ServerResponse,
  { status, detail }: { status: number; detail: string },
): void {
  const body = JSON.stringify({ error: 'bad_request', detail })
  // Later requests on this connection would be just as wrong.
  outgoing.shouldKeepAlive = false
  outgoing.writeHead(status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
  })
  outgoing.end(outgoing.req.method === 'HEAD' ? undefined : body)
}

/** Answers a request that Node could not parse, in JSON like any other bad request. */
export function refuse(error: Error, socket: Duplex): void {
  if (!socket.writable || systemCode(error) === 'ECONNRESET') {
    socket.destroy()
    return
  }
  const [status, name] =
    systemCode(error) === 'HPE_HEADER_OVERFLOW'
      ? ['431 Request Header Fields Too Large', 'headers_too_large']
      : systemCode(error) === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? ['408 Request Timeout', 'timeout']
        : ['400 Bad Request', 'bad_request']
  const body = JSON.stringify({ error: name })
  const headers = {
    Connection: 'close',
    'Content-Type': 'application/json',
    'Content-Length': body.length,
    ...SECURITY_HEADERS,
  }
  const lines = Object.entries(headers).map(([header, value]) => `${header}: ${value}\r\n`)
  // Anything more that it sends is not read.
  socket.pause()
  socket.end(`HTTP/1.1 ${status}\r\n${lines.join('')}\r\n${body}`)
  setTimeout(() => socket.destroy(), REFUSAL_WITHIN_MS).unref()
}
