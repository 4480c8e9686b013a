import { createHash, hash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { readFile, stat } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'

/** Returns the SHA-256 of a document's text or a body's bytes, as hex. */
export function hashContent(content: string | Buffer): string {
  return hash('sha256', content)
}

/** Up to this size a file is read at once, at a tenth of a stream's cost. */
const SMALL_FILE_BYTES = 1024 * 1024

export type FileDigest = { readonly bytes: number; readonly sha256: string }

/** Returns the size and SHA-256 of a file. */
export async function digestFile(path: string): Promise<FileDigest> {
  const { size } = await stat(path)
  if (size <= SMALL_FILE_BYTES) {
    const content = await readFile(path)
    return { bytes: content.length, sha256: hashContent(content) }
  }
  const digest = createHash('sha256')
  await pipeline(createReadStream(path), digest)
  return { bytes: size, sha256: digest.digest('hex') }
}

/** Ids and names that derive from what they name: equal content gets equal names from any writer. */

/** Derives an id from a name, in the form of a UUID of version 5. */
export function deriveUuid(name: string): string {
  const hex = hashContent(name)
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `5${hex.slice(13, 16)}`,
    `8${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ].join('-')
}

/** Returns a tag for bytes, or for a combination of tags; for `ETag`. */
export function computeTag(document: string | Buffer): string {
  return hash('sha256', document, 'base64url').slice(0, 16)
}
