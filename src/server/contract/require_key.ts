import type { Context, MiddlewareHandler } from 'hono'
import type { HttpBindings } from '#src/lib/http/outgoing.ts'
import { presentedKey } from './presented_key.ts'

export type KeyCheck<S, E extends { Variables: { source: S } }> = {
  /** Null for an unknown key. */
  readonly companyOfKey: (key: string, context: Context<E>) => S | null
  /** Called before an unknown key is refused. */
  readonly onWrongKey?: (context: Context<E>) => Promise<void>
}

/** Far longer than any filter or id in the contract. */
const MAX_TARGET_LENGTH = 4096

/**
 * Lets a request through only with a valid key (docs/contract.md#authentication), and sets what the key stands for as `source`.
 */
export function requireKey<S, E extends { Variables: { source: S } }>({
  companyOfKey,
  onWrongKey,
}: KeyCheck<S, E>): MiddlewareHandler<E> {
  return async (context, next) => {
    if (targetLength(context) > MAX_TARGET_LENGTH) return context.json({ error: 'url_too_long' }, 414)
    const key = presentedKey({
      authorization: context.req.header('authorization'),
      xApiKey: context.req.header('x-api-key'),
    })
    const source = key === null ? null : companyOfKey(key, context)
    if (!source) {
      if (key !== null) await onWrongKey?.(context)
      return context.json({ error: 'unauthorized' }, 401, { 'www-authenticate': 'Bearer' })
    }
    context.set('source', source)
    return await next()
  }
}

/** Returns the length of path and query, without the host. */
function targetLength({ env, req }: Context): number {
  return (env as Partial<HttpBindings> | undefined)?.incoming?.url?.length ?? req.url.length
}
