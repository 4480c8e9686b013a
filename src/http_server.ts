import type { Server } from 'node:http'
import type { Duplex } from 'node:stream'
import { createAdaptorServer } from '@hono/node-server'
import type { Hono } from 'hono'
import { systemCode } from './errors.ts'
import { listen } from './listen.ts'

/** Requests that are under way at the end may take so much longer. */
const CLOSE_WITHIN_MS = 1000
/** All headers of a request together; Node's own bound, said here because clients meet it. */
const MAX_HEADER_BYTES = 16 * 1024
/** Who has not sent his headers by then does not want an answer. */
const HEADERS_WITHIN_MS = 20_000

export type Listening = {
  /** Origin, without a slash at the end. */
  readonly url: string
  readonly port: number
  /** Takes no more requests; those under way may take a second. */
  close(): Promise<void>
}

/**
 * Serves on an address of this machine; port 0 takes a free one.
 * @throws FatalError (usage) when the port is taken, or the address is none of ours.
 */
export async function startHttp(
  // biome-ignore lint/suspicious/noExplicitAny: whatever its routes share among them
  app: Pick<Hono<any>, 'fetch'>,
  { host, port }: { readonly host: string; readonly port: number },
): Promise<Listening> {
  const server = createAdaptorServer({
    fetch: app.fetch,
    serverOptions: { maxHeaderSize: MAX_HEADER_BYTES, headersTimeout: HEADERS_WITHIN_MS },
  }) as Server
  server.on('clientError', refuse)
  const actualPort = await listen(server, { host, port }, code =>
    code === 'EADDRINUSE'
      ? `Port ${port} of ${host} is already in use: does another worker run here? Set HTTP_PORT to another.`
      : `Cannot listen on ${host}:${port} (${code}). Set HTTP_HOST and HTTP_PORT to an address of this machine.`,
  )
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${actualPort}`,
    port: actualPort,
    close: () => close(server),
  }
}

/** What Node could not read as a request is answered as any other wrong one: in JSON. */
function refuse(error: Error, socket: Duplex): void {
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
  socket.end(
    `HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  )
}

function close(server: Server): Promise<void> {
  return new Promise(resolve => {
    const timer = setTimeout(() => server.closeAllConnections(), CLOSE_WITHIN_MS)
    server.close(() => {
      clearTimeout(timer)
      resolve()
    })
    server.closeIdleConnections()
  })
}
