import { createReadStream } from 'node:fs'
import zlib from 'node:zlib'
import { linesOf } from '#src/lib/lines.ts'

/** Returns the lines of a sealed segment as text, in order. Rejects if the segment cannot be decompressed. */
export async function* readLines(path: string): AsyncGenerator<string> {
  const compressed = createReadStream(path)
  const text = compressed.pipe(zlib.createZstdDecompress())
  compressed.on('error', error => text.destroy(error))
  try {
    yield* linesOf(text)
  } finally {
    // Even if the reader stops early.
    compressed.destroy()
  }
}
