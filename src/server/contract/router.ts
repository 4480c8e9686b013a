import { Hono } from 'hono'
import type { HttpBindings } from '#src/lib/http/outgoing.ts'
import { requestPath } from '#src/lib/http/request_target.ts'

// biome-ignore lint/suspicious/noExplicitAny: the routes may share any variables
export type Routes = Hono<any>

/**
 * Routes by the exact request path: dots are not resolved.
 * @param forgivesSlash whether one trailing slash is ignored.
 */
export function createRoutes({ forgivesSlash = false } = {}): Routes {
  return new Hono({
    getPath(request, around) {
      const { incoming } = (around?.env ?? {}) as Partial<HttpBindings>
      const path = requestPath(incoming?.url ?? request.url)
      return forgivesSlash && path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path
    },
  })
}
