import { EXIT, FatalError } from '#src/lib/errors.ts'

/**
 * Checks a key before it is sent in a header. A value that is invalid in a header cannot be a key; the message never
 * shows it.
 * @param origin where it was set, as the subject of the message.
 * @throws FatalError (usage)
 */
export function checkKey(key: string, origin: string): void {
  if (/^[\x21-\x7e]+$/.test(key)) return
  throw new FatalError(
    `${origin} contains white space or other characters that are invalid in a key. Copy the key again.`,
    EXIT.usage,
  )
}
