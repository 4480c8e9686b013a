import { createHash } from 'node:crypto'

/** Names bytes, or what other tags name together; for `ETag`. */
export function tagOf(document: string | Buffer): string {
  return createHash('sha256').update(document).digest('base64url').slice(0, 16)
}
