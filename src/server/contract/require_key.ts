import type { Context, MiddlewareHandler } from 'hono'
import type { HttpBindings } from '#src/lib/http/outgoing.ts'

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

type PresentedKey = {
  readonly authorization: string | undefined
  readonly xApiKey: string | undefined
}

/**
 * Returns the key that a request sends, or null. The contract requires exactly one header (docs/contract.md#authentication). Both
 * headers with the same key are accepted; different keys are refused, as is any scheme but Bearer.
 */
export function presentedKey({ authorization, xApiKey }: PresentedKey): string | null {
  const bearer = authorization === undefined ? undefined : /^Bearer +(\S+) *$/iu.exec(authorization)?.[1]
  if (authorization !== undefined && bearer === undefined) return null
  if (bearer !== undefined && xApiKey !== undefined && bearer !== xApiKey) return null
  return bearer ?? xApiKey ?? null
}
