import { createHash } from 'node:crypto'

/** Returns a tag for bytes, or for a combination of tags; for `ETag`. */
export function tagOf(document: string | Buffer): string {
  return createHash('sha256').update(document).digest('base64url').slice(0, 16)
}
