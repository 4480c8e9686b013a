import { createHash } from 'node:crypto'

/** SHA-256 of a document's text or a body's bytes, as hex. */
export function hashOf(content: string | Buffer): string {
  return createHash('sha256').update(content).digest('hex')
}
