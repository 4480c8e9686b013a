import { EXIT, FatalError } from '#src/lib/errors.ts'
import { type Environment, readSecret } from './settings.ts'

/** Shorter ones can be found by trial. */
const MIN_LENGTH = 16

/**
 * Reads ADMIN_TOKEN or its file, which counts as a key of all companies with the scope `operate`; null if neither is set.
 * @throws FatalError (usage) if it is too short, or ADMIN_TOKENS_FILE of earlier versions is set; no message shows any of a token.
 */
export function readAdminToken(environment: Environment): string | null {
  if (environment.ADMIN_TOKENS_FILE?.trim()) {
    throw new FatalError(
      'ADMIN_TOKENS_FILE is no longer read: operators have keys. For each of its lines, run `npm run keys -- create --description NAME --scopes operate` (`watch` for `read`) or, if DATA_DIR does not last, set ADMIN_TOKEN_FILE; then unset ADMIN_TOKENS_FILE.',
      EXIT.usage,
    )
  }
  const { value, origin } = readSecret(environment, 'ADMIN_TOKEN', 'the token')
  if (value === null || value.length >= MIN_LENGTH) return value
  throw new FatalError(
    `${origin} has ${value.length} characters. It must have at least ${MIN_LENGTH}, or it can be guessed. Create one with \`openssl rand -hex 16\`.`,
    EXIT.usage,
  )
}
