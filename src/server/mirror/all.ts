import type { ContentfulStatusCode } from 'hono/utils/http-status'
import type { Logger } from 'pino'
import { z } from 'zod'
import type { McpClient } from '#src/server/mcp/http.ts'
import { CHANGES_ROUTE } from './changes.ts'
import { EXPORT_ROUTE } from './export.ts'
import { type MirrorRoute, mirrorRoute } from './route.ts'
import { goneWith } from './routes.ts'
import { SEARCH_ROUTE } from './search.ts'
import { type WebhookOptions, webhookRoutes } from './webhooks.ts'

/** The route that shows what a key is for, and how current the data is: the first request of someone who has a key. */
const ABOUT_ROUTE = mirrorRoute({
  method: 'GET',
  path: '',
  name: 'about',
  scope: 'read',
  summary: 'The key and the snapshot',
  description: 'What the key may do, whose data it reads, and the snapshot that answers come from.',
  query: z.object({}),
  responses: {
    '200': {
      description: 'About this key.',
      content: {
        'application/json': {
          schema: {
            type: 'object',
            required: ['company', 'key', 'scopes', 'max_rps', 'snapshot', 'as_of'],
            properties: {
              company: { type: 'string' },
              key: { type: 'string', description: "The key's prefix." },
              scopes: { type: 'array', items: { type: 'string' } },
              max_rps: {
                type: ['integer', 'null'],
                description: "The key's own limit; null for that of all keys.",
              },
              snapshot: { type: 'string', description: 'The name of the snapshot.' },
              as_of: { type: 'string', format: 'date-time', description: 'When it was published.' },
            },
          },
        },
      },
    },
  },
  async answer({ context, source }) {
    const { name: snapshot, asOf: as_of } = source.snapshot()
    const { company, prefix: key, scopes, maxRps: max_rps } = source
    return context.json({ company, key, scopes, max_rps, snapshot, as_of })
  },
})

const MESSAGE = {
  type: 'object',
  description: 'A message of JSON-RPC 2.0.',
  required: ['jsonrpc'],
  properties: { jsonrpc: { const: '2.0' }, method: { type: 'string' }, params: { type: 'object' } },
}

const refusal = (description: string) => ({
  description,
  content: { 'application/json': { schema: MESSAGE } },
})

type McpOptions = {
  /** Returns the directory of a company's snapshots. */
  readonly lakeOf: (company: string) => string
  readonly log: Logger
}

/** Creates the route of MCP's streamable HTTP, without sessions: each request is answered by itself. */
function mcpRoute({ lakeOf, log }: McpOptions) {
  let endpoint: Promise<(request: Request, client: McpClient) => Promise<Response>> | null = null
  return mirrorRoute({
    method: 'POST',
    path: '/mcp',
    name: 'mcp',
    scope: 'read',
    ownTurns: true,
    summary: 'Messages of the Model Context Protocol',
    description:
      'Tools, resources and prompts for AI agents, over streamable HTTP without sessions. The tool `query` needs the scope `sql` as well. A message has at most 64 KiB. Requests from web pages (with an `Origin`) are refused: 403.',
    query: z.object({}),
    body: { required: true, content: { 'application/json': { schema: MESSAGE } } },
    responses: {
      '200': {
        description: 'The answer.',
        content: { 'application/json': { schema: MESSAGE } },
      },
      '400': {
        description: 'A parameter is wrong, or the body is no message.',
        content: {
          'application/json': { schema: { anyOf: [{ $ref: '#/components/schemas/Error' }, MESSAGE] } },
        },
      },
      '202': { description: 'A notification was received.' },
      '406': refusal('The client does not accept `application/json`.'),
      '413': refusal('The message is too long.'),
      '415': refusal('The message is not JSON.'),
    },
    async answer({ context, source }) {
      // Loaded with the first request, because most servers get none.
      endpoint ??= import('#src/server/mcp/http.ts').then(({ createMcpEndpoint }) => createMcpEndpoint(log))
      const { notes } = context.env.outgoing?.exchange ?? {}
      const { company, prefix, scopes } = source
      const response = await (await endpoint)(context.req.raw, {
        ...{ prefix, scopes, lake: lakeOf(company), searched: source },
        gone: goneWith(context),
        isStillValid: () => source.isStillValid(),
        onCall(tool) {
          if (notes) notes.tool = tool
        },
      })
      // Through the context, which has headers of its own. No answer is endless.
      const body = await response.arrayBuffer()
      const type = response.headers.get('content-type')
      const headers = type === null ? {} : { 'content-type': type }
      if (body.byteLength === 0) return context.body(null, response.status as 202, headers)
      return context.body(body, response.status as ContentfulStatusCode, headers)
    },
  })
}

/** Returns all routes of the mirror's own API. */
export function mirrorRoutes(options: McpOptions & WebhookOptions): readonly MirrorRoute[] {
  return [
    ABOUT_ROUTE,
    CHANGES_ROUTE,
    SEARCH_ROUTE,
    EXPORT_ROUTE,
    mcpRoute(options),
    ...webhookRoutes(options),
  ]
}
