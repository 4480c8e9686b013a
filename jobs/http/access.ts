import type { Context, MiddlewareHandler } from 'hono'
import type { Logger } from 'pino'
import { type HttpBindings, isFromElsewhere } from '#src/lib/http/outgoing.ts'
import { asksForHtml, maskPath } from '#src/server/contract/answers.ts'
import { readPresentedKey } from '#src/server/contract/routes.ts'
import { Refusal } from '#src/server/contract/source.ts'
import type { Entrance } from '#src/server/entrance.ts'
import { ALL_COMPANIES, isOfOperators, type KeyHolder } from '#src/server/key_file.ts'
import { readSignedInKey, signInFor, signOut } from '#src/server/pages/routes.ts'

/** All paths for operators are these, or below them. */
export const OPERATOR_PATHS = ['/report', '/queues', '/companies'] as const

/** The outcome of a request that is in the audit log: `failed` is one that was allowed and did not succeed. */
type Result = 'accepted' | 'refused' | 'failed'

export type OperatorEnv = { Bindings: Partial<HttpBindings>; Variables: { operator: KeyHolder } }
type OperatorContext = Context<OperatorEnv>

const NEEDS_A_KEY =
  'This needs a key with the scope operate, as a bearer token: editais keys create --description NAME --scopes operate.'

/**
 * Lets a request through only with a key of an operator, in a header or in the cookie of a browser that signed in, and sets its
 * holder as `operator`. A change needs the scope `operate`, and a key of one company reaches only what is that company's.
 * The audit log has a line for each request that changes something, and for each key that is refused.
 */
export function admitOperators(
  entrance: Pick<Entrance, 'whoOperates' | 'refuse'>,
  log: Pick<Logger, 'info' | 'warn'>,
): MiddlewareHandler<OperatorEnv> {
  return async (c, next) => {
    const given = { authorization: c.req.header('authorization'), xApiKey: c.req.header('x-api-key') }
    const isProgram = given.authorization !== undefined || given.xApiKey !== undefined
    // A key in a header counts alone: a browser adds the cookie to every request, even to one that another site's page triggers.
    const key = isProgram ? readPresentedKey(given) : readSignedInKey(c)
    const { address = '', headers = {} } = c.env?.outgoing?.exchange ?? {}
    // Caches between us and a browser know from an Authorization header that an answer is its own, but not from a cookie.
    headers['cache-control'] = 'private'
    const operator = key === null ? null : entrance.whoOperates(key, address)
    const audit = (result: Result, what: string) => {
      const path = maskPath(c.req.path, [key ?? undefined])
      const who = { operator: operator?.prefix ?? null, address, method: c.req.method, path, result }
      log[result === 'accepted' ? 'info' : 'warn']({ audit: 'admin', ...who }, what)
    }
    if (operator === null) {
      if (key !== null) {
        entrance.refuse(address)
        audit('refused', 'Wrong key')
        // Otherwise a page that is open would go on sending it, and its address would have to wait.
        if (!isProgram) signOut(c, OPERATOR_PATHS)
      }
      // A person can sign in.
      if (!isProgram && c.req.method === 'GET' && asksForHtml(c))
        return c.redirect(signInFor(c.req.path), 303)
      throw new Refusal(401, key === null ? NEEDS_A_KEY : `The key is wrong. ${NEEDS_A_KEY}`)
    }
    const problem = whyRefused(operator, c)
    if (problem !== null) {
      audit('refused', problem)
      throw new Refusal(403, problem)
    }
    c.set('operator', operator)
    await next()
    if (isChange(c)) audit(c.res.status < 400 ? 'accepted' : 'failed', 'Operator request')
    return undefined
  }
}

/** Returns whether an operator may see or change a company. */
export function mayReach({ company }: KeyHolder, slug: string): boolean {
  return company === ALL_COMPANIES || company === slug
}

function whyRefused({ company, prefix, scopes }: KeyHolder, c: OperatorContext): string | null {
  if (!scopes.some(isOfOperators)) return `${prefix} has ${scopes.join(', ')}. ${NEEDS_A_KEY}`
  if (isChange(c) && !scopes.includes('operate')) return `${prefix} may only watch. ${NEEDS_A_KEY}`
  // A segment that equals a slug has no escapes, so the route finds the same company.
  const isTheirs =
    ['/report', '/companies'].includes(c.req.path) || c.req.path.startsWith(`/companies/${company}/`)
  if (company !== ALL_COMPANIES && !isTheirs) return `${prefix} is a key of ${company} alone.`
  if (isChange(c) && isFromElsewhere(c.req.raw.headers))
    return 'This request comes from a page of another site and is refused.'
  return null
}

function isChange({ req }: Pick<Context, 'req'>): boolean {
  return !['GET', 'HEAD'].includes(req.method)
}
