import {
  type AuthInfo,
  createMcpHandler,
  isLegacyRequest,
  type McpServer,
  originValidationResponse,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server'
import type { Logger } from 'pino'
import { closing } from '#src/lib/closing.ts'
import { getMessage } from '#src/lib/errors.ts'
import { Readers } from '#src/server/read/readers.ts'
import type { Searched } from '#src/server/search_page.ts'
import { createMcpServer } from './server.ts'

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
async function oneMessage(request: Request, maxBytes: number): Promise<OneMessage> {
  if (!admitsJson(request.headers.get('accept')))
    return { status: 406, why: 'The answer is JSON: the client must accept application/json.' }
  const body = await readBody(request, maxBytes)
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
async function readBody(request: Request, maxBytes: number): Promise<string | null> {
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
  /** The snapshots to search. @throws Refusal if none is ready yet. */
  readonly searched: Searched
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
  const serverFor = ({ prefix, scopes, lake, searched, gone, isStillValid, onCall }: McpClient) =>
    createMcpServer({
      scopes,
      lake,
      log,
      onCall,
      searched: async () => searched,
      read: order => readers.read({ prefix, isStillValid }, order, gone),
    })
  const handler = createMcpHandler(({ authInfo }) => serverFor((authInfo as AuthInfo).extra as McpClient), {
    // Served below: the library would answer with a stream, which a client may not accept.
    legacy: 'reject',
    // A stream of changes would be held open for each client.
    maxSubscriptions: 0,
    keepAliveMs: 0,
    onerror: error => log.debug(`A message of MCP was refused: ${getMessage(error)}.`),
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
  await using _ = closing(server)
  return await Promise.race([transport.handleRequest(request), unread])
}
