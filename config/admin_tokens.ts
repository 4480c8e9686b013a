import { closeSync, constants, fstatSync, openSync, readFileSync, statSync } from 'node:fs'
import { EXIT, FatalError, messageOf, systemCode } from '#src/platform/errors.ts'
import { decodeText } from '#src/platform/text_file.ts'
import { type Environment, readSecret, shownSecretPath } from './settings.ts'

/** An operator who may use the worker's HTTP. */
export type AdminToken = {
  /** For the log; the single token of ADMIN_TOKEN is named after its setting. */
  readonly name: string
  readonly token: string
  /** Whether it may also change something: start runs, pause queues. */
  readonly mayChange: boolean
}

/** The places of the tokens. */
export type AdminTokenSettings = {
  /** ADMIN_TOKEN or the content of ADMIN_TOKEN_FILE, as it was at the start. */
  readonly single: AdminToken | null
  /** ADMIN_TOKENS_FILE, which may change at any time. */
  readonly file: string | null
}

/** Shorter tokens can be found by trial. */
const MIN_LENGTH = 16
const MAX_LENGTH = 512
/** A request is compared with all of them. */
const MAX_TOKENS = 100
const MAX_FILE_BYTES = 64 * 1024
/** Readable and writable for the owner, readable for the group, as secrets of Kubernetes are. */
const ALLOWED_MODE = 0o640
/** Names are logged. They are shorter than tokens, so a token in the wrong place is never taken for one. */
const NAME = /^[a-z0-9][a-z0-9_-]{0,14}$/
const RIGHTS: Readonly<Record<string, boolean>> = { read: false, full: true }

const SINGLE = 'ADMIN_TOKEN'

/** Throws FatalError (usage) if a token is too short or a file cannot be used; no message shows any of a token. */
export function readAdminTokenSettings(environment: Environment): AdminTokenSettings {
  const token = readSingle(environment)
  const settings = {
    single: token === null ? null : { name: SINGLE, token, mayChange: true },
    file: environment.ADMIN_TOKENS_FILE?.trim() || null,
  }
  readAdminTokens(settings)
  return settings
}

function readSingle(environment: Environment): string | null {
  const { value, origin } = readSecret(environment, SINGLE, 'the token')
  if (value === null || value.length >= MIN_LENGTH) return value
  throw new FatalError(
    `${origin} has ${value.length} characters. It must have at least ${MIN_LENGTH}, or it can be guessed. Create one with \`openssl rand -hex 16\`.`,
    EXIT.usage,
  )
}

/**
 * Returns all tokens that are valid now; the file is read at each call.
 * @throws FatalError (usage) with one sentence if the file cannot be used.
 */
export function readAdminTokens({ single, file }: AdminTokenSettings): readonly AdminToken[] {
  const own = single === null ? [] : [single]
  return file === null ? own : [...own, ...readTokensFile(file, own)]
}

/** Changes when the file does; null if it is missing or cannot be seen. */
export function signatureOf(file: string): string | null {
  try {
    const { ino, size, mode, mtimeNs, ctimeNs } = statSync(file, { bigint: true })
    return [ino, size, mode, mtimeNs, ctimeNs].join(' ')
  } catch {
    return null
  }
}

function readTokensFile(path: string, own: readonly AdminToken[]): AdminToken[] {
  const origin = `ADMIN_TOKENS_FILE (${shownSecretPath(path)})`
  const found: AdminToken[] = []
  for (const [index, line] of readText(path, origin).split('\n').entries()) {
    const text = line.trim()
    if (text === '' || text.startsWith('#')) continue
    const problem = addToken(text, found, own)
    if (problem !== null) throw unusable(origin, `in line ${index + 1}, ${problem}.`)
  }
  if (found.length === 0) throw unusable(origin, 'it holds no token.')
  return found
}

/** Adds the token of a line. @returns what is wrong with the line, as a part of a sentence. */
function addToken(text: string, found: AdminToken[], own: readonly AdminToken[]): string | null {
  const [name = '', rights = '', token = '', ...rest] = text.split(/\s+/)
  if (token === '' || rest.length > 0) return 'there must be a name, read or full, and a token'
  if (!NAME.test(name)) return 'the name must have 1 to 15 of a-z, 0-9, - and _'
  const mayChange = Object.hasOwn(RIGHTS, rights) ? RIGHTS[rights] : undefined
  if (mayChange === undefined) return 'the second word must be read or full'
  if (!/^[\x21-\x7e]+$/.test(token)) return 'the token has characters that are invalid in a header'
  if (token.length < MIN_LENGTH) return `the token must have at least ${MIN_LENGTH} characters`
  if (token.length > MAX_LENGTH) return `the token must have at most ${MAX_LENGTH} characters`
  if (found.some(other => other.name === name)) return 'the name is the same as in another line'
  if (found.some(other => other.token === token)) return 'the token is the same as in another line'
  if (own.some(other => other.token === token)) return `the token is the same as ${SINGLE}`
  if (found.length === MAX_TOKENS) return `there are more than ${MAX_TOKENS} tokens`
  found.push({ name, token, mayChange })
  return null
}

function readText(path: string, origin: string): string {
  let fd: number | null = null
  try {
    // Not blocking: a pipe without a writer would stop the worker.
    fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
    const about = fstatSync(fd)
    if (!about.isFile()) throw unusable(origin, 'it is not a file.')
    const mode = about.mode & 0o777
    if ((mode & ~ALLOWED_MODE & 0o077) !== 0) {
      const shown = mode.toString(8).padStart(4, '0')
      throw unusable(origin, `its mode ${shown} lets other users read or change it: run \`chmod 600\` on it.`)
    }
    if (about.size > MAX_FILE_BYTES) throw unusable(origin, `it is larger than ${MAX_FILE_BYTES / 1024} KiB.`)
    return decodeText(readFileSync(fd))
  } catch (error) {
    if (error instanceof FatalError) throw error
    throw unusable(origin, `it cannot be read (${systemCode(error) ?? messageOf(error)}).`)
  } finally {
    if (fd !== null) closeSync(fd)
  }
}

function unusable(origin: string, why: string): FatalError {
  return new FatalError(`${origin} cannot be used: ${why}`, EXIT.usage)
}
