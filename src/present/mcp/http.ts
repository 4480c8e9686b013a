import {
  type AuthInfo,
  createMcpHandler,
  isLegacyRequest,
  type McpServer,
  originValidationResponse,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server'
import type { Logger } from 'pino'
import { messageOf } from '#src/platform/errors.ts'
import { oneMessage } from './one_message.ts'
import { Readers } from './read/readers.ts'
import { createMcpServer } from './server.ts'

/** The longest message; the SQL in it has its own bound. */
const MAX_BODY_BYTES = 64 * 1024

/** Error code of JSON-RPC. */
const INVALID_REQUEST = -32600

/** The sender of a request, as its API key shows. */
export type McpClient = {
  /** Prefix of the key. */
  readonly prefix: string
  readonly scopes: readonly string[]
  /** The directory of the company's snapshots. */
  readonly lake: string
  /** Aborted when its connection ends. */
  readonly gone: AbortSignal
  /** Whether the key still has its rights: a call can wait for its turn. */
  readonly isStillValid: () => boolean
  /** Called with the name of a tool. */
  readonly onCall: (tool: string) => void
}

/**
 * Answers MCP over HTTP without sessions: each request gets a server of its own, and nothing of it is kept. Every answer is
 * JSON. The caller has checked the key.
 */
export function createMcpEndpoint(log: Logger): (request: Request, client: McpClient) => Promise<Response> {
  const readers = new Readers(log)
  const serverFor = ({ prefix, scopes, lake, gone, isStillValid, onCall }: McpClient) =>
    createMcpServer({
      scopes,
      lake,
      log,
      onCall,
      read: order => readers.read({ prefix, isStillValid }, order, gone),
    })
  const handler = createMcpHandler(({ authInfo }) => serverFor((authInfo as AuthInfo).extra as McpClient), {
    // Served below: the library would answer with a stream, which a client may not accept.
    legacy: 'reject',
    // A stream of changes would be held open for each client.
    maxSubscriptions: 0,
    keepAliveMs: 0,
    onerror: error => log.debug(`A message of MCP was refused: ${messageOf(error)}.`),
  })
  return async (request, client) => {
    // Only browsers send it. No web page should call this, and refusing it also stops DNS rebinding.
    const refused = originValidationResponse(request, [])
    if (refused) return refused
    const one = await oneMessage(request, MAX_BODY_BYTES)
    if (!('request' in one))
      return Response.json(
        { jsonrpc: '2.0', error: { code: INVALID_REQUEST, message: one.why }, id: null },
        one,
      )
    const { prefix: clientId, scopes } = client
    // Never the key itself.
    const authInfo = { token: '', clientId, scopes: [...scopes], extra: client }
    if (await isLegacyRequest(one.request))
      return await answerLegacy(one.request, serverFor(client), client.gone)
    return await handler.fetch(one.request, { authInfo })
  }
}

/** Answers a message of the protocol before its revision without sessions. */
async function answerLegacy(request: Request, server: McpServer, gone: AbortSignal): Promise<Response> {
  const transport = new WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true })
  await server.connect(transport)
  // No client reads this answer. The call may have none, because closing the server ends it.
  const unread = new Promise<Response>(resolve =>
    gone.addEventListener('abort', () => resolve(new Response(null, { status: 503 })), { once: true }),
  )
  try {
    return await Promise.race([transport.handleRequest(request), unread])
  } finally {
    await server.close()
  }
}
