import type { Context, MiddlewareHandler } from 'hono'
import { HTTPException } from 'hono/http-exception'
import { auth as basicCredentials } from 'hono/utils/basic-auth'
import type { Logger } from 'pino'
import { createAllowance, WRONG_CREDENTIALS } from '#src/lib/http/allowance.ts'
import type { HttpBindings } from '#src/lib/http/outgoing.ts'
import { isFromElsewhere } from '#src/lib/http/own_pages.ts'
import { shownPath } from '#src/server/contract/shown_path.ts'
import { Refusal } from '#src/server/contract/source.ts'
import type { AdminTokens, Operator } from './admin_tokens.ts'

type AccessOptions = {
  readonly log: Pick<Logger, 'info' | 'warn'>
  readonly onRefused: () => void
}

/** The outcome of a request that is in the audit log: `failed` is one that was allowed and did not succeed. */
type Result = 'accepted' | 'refused' | 'failed'

type RequestContext = Context<{ Bindings: Partial<HttpBindings> }>

/**
 * Accepts requests with a token: as `Authorization: Bearer`, or as the password of any user, which a browser can
 * prompt for. A token that may only read gets 403 for a request that changes something. Rejects all if no token is
 * configured. After ten wrong tokens an address must wait before another one is compared: people choose tokens, and
 * some can be guessed.
 *
 * The audit log has a line for each request that changes something, and for each token that is refused: whose token
 * (`operator`), what, from where and with which result.
 */
export function adminOnly(
  tokens: AdminTokens,
  { log, onRefused }: AccessOptions,
): MiddlewareHandler<{ Bindings: Partial<HttpBindings> }> {
  const wrongTokens = createAllowance(WRONG_CREDENTIALS)
  const audit = createAudit(log)
  return async (c, next) => {
    if (!tokens.isOn) {
      throw new HTTPException(403, {
        message:
          'ADMIN_TOKEN is not set, so this is off. Set ADMIN_TOKEN_FILE or ADMIN_TOKENS_FILE, then restart.',
      })
    }
    const given = tokenOf(c.req.raw)
    const address = addressOf(c)
    const seconds = given === null ? 0 : wrongTokens.waitSeconds(address)
    if (seconds > 0) {
      onRefused()
      throw new Refusal(429, `Too many wrong tokens from ${address}. Try again in ${seconds} s.`, seconds)
    }
    const operator = given === null ? null : tokens.find(given)
    if (operator === null) {
      if (given !== null) {
        wrongTokens.spend(address)
        onRefused()
        const what =
          tokens.problem === null
            ? 'Wrong admin token'
            : 'An admin token was refused: its file cannot be used'
        audit(c, { given, operator, result: 'refused', what })
        if (wrongTokens.waitSeconds(address) > 0)
          log.warn(
            { address },
            'Too many wrong admin tokens: this address must wait before each further attempt',
          )
      }
      throw refusalOf(c, { given, tokens })
    }
    const changes = isChange(c)
    if (changes && !operator.mayChange) {
      audit(c, { given, operator, result: 'refused', what: 'A token that may only read was used to write' })
      throw new HTTPException(403, {
        message: `The token ${operator.name} may only read. Use one with full rights for ${c.req.method}.`,
      })
    }
    await next()
    const result = resultOf(c.res.status)
    if (changes || result === 'refused') audit(c, { given, operator, result, what: 'Admin request' })
  }
}

/** Returns why a request without a valid token is refused. While the file cannot be read, the token may be right. */
function refusalOf(
  c: RequestContext,
  { given, tokens }: { given: string | null; tokens: AdminTokens },
): Error {
  if (given !== null && tokens.problem !== null) {
    return new Refusal(503, "The admin tokens cannot be read at the moment. The worker's log says why.", 2)
  }
  c.header('WWW-Authenticate', 'Basic realm="editais-sync: an admin token is the password", charset="UTF-8"')
  return new HTTPException(401, {
    message: `${given === null ? 'This needs a token' : 'The token is wrong'}. Send an admin token of the worker (ADMIN_TOKEN) as a bearer token, or as the password of any user.`,
  })
}

type Audited = {
  /** Never logged: it is also removed from the path. */
  readonly given: string | null
  readonly operator: Operator | null
  readonly result: Result
  readonly what: string
}

function createAudit(log: AccessOptions['log']): (c: RequestContext, audited: Audited) => void {
  return (c, { given, operator, result, what }) => {
    const line = {
      audit: 'admin',
      operator: operator?.name ?? null,
      address: addressOf(c),
      method: c.req.method,
      path: shownPath(c.req.path, [given ?? undefined]),
      result,
    }
    if (result === 'accepted') log.info(line, what)
    else log.warn(line, what)
  }
}

function resultOf(status: number): Result {
  if (status < 400) return 'accepted'
  return [401, 403, 429].includes(status) ? 'refused' : 'failed'
}

function addressOf(c: RequestContext): string {
  return c.env?.outgoing?.exchange?.address ?? ''
}

function isChange({ req }: Pick<Context, 'req'>): boolean {
  return !['GET', 'HEAD'].includes(req.method)
}

function tokenOf(request: Request): string | null {
  const bearer = /^ *bearer +(\S+) *$/i.exec(request.headers.get('authorization') ?? '')
  return bearer?.[1] ?? basicCredentials(request)?.password ?? null
}

/**
 * A browser that is logged in sends the password with every request, even one that another site's page triggers. So a
 * request that changes something must come from one of our own pages, or from no page at all.
 */
export const fromOurOwnPages: MiddlewareHandler = async (c, next) => {
  if (isChange(c) && isFromElsewhere(c.req.raw.headers)) {
    throw new HTTPException(403, {
      message: 'This request comes from a page of another site and is refused.',
    })
  }
  await next()
}
