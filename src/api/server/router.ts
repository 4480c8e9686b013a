import { Hono } from 'hono'
import { requestPath } from '#src/platform/http/request_target.ts'
import type { HttpBindings } from '#src/platform/http/server.ts'

// biome-ignore lint/suspicious/noExplicitAny: whatever its routes share among them
export type Routes = Hono<any>

/**
 * Routes by the path that was asked for, to the letter: no dots are resolved.
 * @param forgivesSlash whether one slash at the end makes no difference.
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
