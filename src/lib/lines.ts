/** Returns the lines of bytes that are all there; as `linesOf`. */
export function* linesIn(bytes: Buffer): Generator<string> {
  let start = 0
  for (let end = bytes.indexOf(10); end !== -1; end = bytes.indexOf(10, start)) {
    yield bytes.toString('utf8', start, end)
    start = end + 1
  }
  if (start < bytes.length) yield bytes.toString('utf8', start)
}

/**
 * Lines of a byte stream, without their line feeds. Not `readline`: it also splits at U+2028 and similar
 * characters, which JSON text may hold.
 */
export async function* linesOf(chunks: AsyncIterable<Buffer>): AsyncGenerator<string> {
  let rest: Buffer[] = []
  for await (const chunk of chunks) {
    let start = 0
    for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, start)) {
      rest.push(chunk.subarray(start, end))
      yield Buffer.concat(rest).toString('utf8')
      rest = []
      start = end + 1
    }
    rest.push(chunk.subarray(start))
  }
  const last = Buffer.concat(rest).toString('utf8')
  if (last !== '') yield last
}
