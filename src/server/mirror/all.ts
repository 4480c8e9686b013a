import { z } from 'zod'
import { CHANGES_ROUTE } from './changes.ts'
import { EXPORT_ROUTE } from './export.ts'
import { type McpOptions, mcpRoute } from './mcp.ts'
import { type MirrorRoute, mirrorRoute } from './route.ts'
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
