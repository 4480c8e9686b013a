import { createHash, timingSafeEqual } from 'node:crypto'
import type { Logger } from 'pino'
import {
  type AdminToken,
  type AdminTokenSettings,
  readAdminTokens,
  signatureOf,
} from '#config/admin_tokens.ts'
import { explain } from '#src/lib/errors.ts'

/** The sender of a request: the name of its token, and what it may do. */
export type Operator = Pick<AdminToken, 'name' | 'mayChange'>

export type AdminTokens = {
  /** Whether there is any setting of tokens; without one, everything that needs a token is off. */
  readonly isOn: boolean
  /**
   * Returns the operator whose token this is; null if there is none. Sees a change of the file at once. While the file cannot be
   * used, no token is valid, and `problem` says why.
   */
  find(token: string): Operator | null
  /** Why the file cannot be used now, as one sentence; null if it can. */
  readonly problem: string | null
  /** Reads the file again if it has changed, and logs once if it cannot be used. */
  refresh(): void
}

type Known = Operator & { readonly digest: Buffer }

/** Opens the operators' tokens. @throws FatalError (usage) if their file cannot be used now; a later failure is in `problem`. */
export function openAdminTokens(
  settings: AdminTokenSettings,
  log: Pick<Logger, 'info' | 'error'>,
): AdminTokens {
  const { single, file } = settings
  let seen = file && signatureOf(file)
  let known = readAdminTokens(settings).map(knownOf)
  let problem: string | null = null

  function refresh(): void {
    if (file === null) return
    const now = signatureOf(file)
    if (now === seen && problem === null) return
    // A file that cannot be used is read each time: what is wrong may not be in the file.
    seen = now
    const before = problem
    try {
      known = readAdminTokens(settings).map(knownOf)
      problem = null
      log.info({ tokens: known.map(({ name }) => name) }, 'The admin tokens were read again.')
    } catch (error) {
      // A token that the operator meant to remove must not stay valid because of a typing error.
      known = single === null ? [] : [knownOf(single)]
      problem = explain(error).message
      if (problem !== before) log.error(`${problem} Until it is fixed, its tokens are refused.`)
    }
  }

  return {
    isOn: single !== null || file !== null,
    find(token) {
      refresh()
      const given = digest(token)
      let found: Known | null = null
      // All of them, so that the time reveals nothing about the one that fits.
      for (const one of known) if (timingSafeEqual(given, one.digest)) found = one
      return found
    },
    get problem() {
      return problem
    },
    refresh,
  }
}

function knownOf({ name, mayChange, token }: AdminToken): Known {
  return { name, mayChange, digest: digest(token) }
}

/** Always of the same length, which a constant-time comparison needs. */
function digest(token: string): Buffer {
  return createHash('sha256').update(token).digest()
}
