import { ABOUT_ROUTE } from './about.ts'
import { CHANGES_ROUTE } from './changes.ts'
import { EXPORT_ROUTE } from './export.ts'
import { type McpOptions, mcpRoute } from './mcp.ts'
import type { MirrorRoute } from './route.ts'
import { SEARCH_ROUTE } from './search.ts'
import { type WebhookOptions, webhookRoutes } from './webhooks.ts'

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
