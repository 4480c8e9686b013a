import type { ContentfulStatusCode } from 'hono/utils/http-status'
import type { Logger } from 'pino'
import { z } from 'zod'
import type { McpClient } from '#src/server/mcp/http.ts'
import { goneWith } from './gone.ts'
import { mirrorRoute } from './route.ts'

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

export type McpOptions = {
  /** Returns the directory of a company's snapshots. */
  readonly lakeOf: (company: string) => string
  readonly log: Logger
}

/** Creates the route of MCP's streamable HTTP, without sessions: each request is answered by itself. */
export function mcpRoute({ lakeOf, log }: McpOptions) {
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
        ...{ prefix, scopes, lake: lakeOf(company) },
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
