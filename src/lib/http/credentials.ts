import { readFileSync } from 'node:fs'
import { EXIT, FatalError, findSystemCode, getMessage } from '#src/lib/errors.ts'
import { decodeText } from '#src/lib/text_file.ts'

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

/**
 * Reads the file of a secret, without white space around it; it may be empty.
 * @param origin where the file was set, as the subject of the message.
 * @throws FatalError (usage)
 */
export function readSecretFile(path: string, origin: string): string {
  try {
    return decodeText(readFileSync(path)).trim()
  } catch (error) {
    throw new FatalError(
      `${origin} cannot be read: ${findSystemCode(error) ?? getMessage(error)}.`,
      EXIT.usage,
    )
  }
}
