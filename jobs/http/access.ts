import { createHash, timingSafeEqual } from 'node:crypto'
import type { MiddlewareHandler } from 'hono'
import { HTTPException } from 'hono/http-exception'
import { auth as basicCredentials } from 'hono/utils/basic-auth'
import type { Logger } from 'pino'
import { shownPath } from '#src/api/server/shown_path.ts'
import { Refusal } from '#src/api/server/source.ts'
import { createAllowance, WRONG_CREDENTIALS } from '#src/platform/http/allowance.ts'
import type { HttpBindings } from '#src/platform/http/outgoing.ts'

type AccessOptions = {
  readonly log: Pick<Logger, 'warn'>
  readonly onRefused: () => void
}

/**
 * Accepts requests with the token: as `Authorization: Bearer`, or as the password of any user, which a browser can
 * prompt for. Rejects all if no token is configured. After ten wrong tokens an address must wait before another one is
 * compared: people choose tokens, and some can be guessed.
 */
export function adminOnly(
  adminToken: string | null,
  { log, onRefused }: AccessOptions,
): MiddlewareHandler<{ Bindings: Partial<HttpBindings> }> {
  const expected = adminToken ? digest(adminToken) : null
  const wrongTokens = createAllowance(WRONG_CREDENTIALS)
  return async (c, next) => {
    if (!expected) {
      throw new HTTPException(403, {
        message: 'ADMIN_TOKEN is not set, so this is off. Set ADMIN_TOKEN or ADMIN_TOKEN_FILE, then restart.',
      })
    }
    const given = tokenOf(c.req.raw)
    const address = c.env?.outgoing?.exchange?.address ?? ''
    const seconds = given === null ? 0 : wrongTokens.waitSeconds(address)
    if (seconds > 0) {
      onRefused()
      throw new Refusal(429, `Too many wrong tokens from ${address}. Try again in ${seconds} s.`, seconds)
    }
    if (given === null || !timingSafeEqual(digest(given), expected)) {
      if (given !== null) {
        wrongTokens.spend(address)
        onRefused()
        log.warn({ address, method: c.req.method, path: shownPath(c.req.path, [given]) }, 'Wrong ADMIN_TOKEN')
        if (wrongTokens.waitSeconds(address) > 0)
          log.warn(
            { address },
            'Too many wrong ADMIN_TOKENs: this address must wait before each further attempt',
          )
      }
      c.header('WWW-Authenticate', 'Basic realm="editais-sync: ADMIN_TOKEN is the password", charset="UTF-8"')
      throw new HTTPException(401, {
        message: `${given === null ? 'This needs a token' : 'The token is wrong'}. Send the worker's ADMIN_TOKEN as a bearer token, or as the password of any user.`,
      })
    }
    await next()
  }
}

/** Always of the same length, which a constant-time comparison needs. */
function digest(token: string): Buffer {
  return createHash('sha256').update(token).digest()
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
  const changes = !['GET', 'HEAD'].includes(c.req.method)
  if (changes && isFromElsewhere(c.req.raw.headers)) {
    throw new HTTPException(403, {
      message: 'This request comes from a page of another site and is refused.',
    })
  }
  await next()
}

function isFromElsewhere(headers: Headers): boolean {
  // Set by the browser, and no page can forge it. Browsers send it only over a secure connection.
  const site = headers.get('sec-fetch-site')
  if (site !== null) return site !== 'same-origin' && site !== 'none'
  const origin = headers.get('origin')
  if (origin === null) return false
  // Compared without the scheme: a proxy in front of us may speak TLS.
  return !URL.canParse(origin) || new URL(origin).host !== headers.get('host')
}
