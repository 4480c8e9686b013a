import { LIST_PATH } from './routes.ts'

export type RouteKind = 'list' | 'notice' | 'analysis' | 'other'

const OF_NOTICE = new RegExp(`^${LIST_PATH}/([^/]+)(/analysis)?$`, 'u')

/** Returns which API route a path belongs to, and the id in it, undecoded. */
export function routeOf(path: string): { readonly kind: RouteKind; readonly id: string | null } {
  if (path === LIST_PATH) return { kind: 'list', id: null }
  const [, id, rest] = OF_NOTICE.exec(path) ?? []
  if (id === undefined) return { kind: 'other', id: null }
  return { kind: rest ? 'analysis' : 'notice', id }
}
