import type { WriteStream } from 'node:fs'
import { finished } from 'node:stream/promises'
import { openNewStream } from './durable.ts'

/** Returns the lines of bytes that are all there; as `streamLines`. */
export function* splitLines(bytes: Buffer): Generator<string> {
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
export async function* streamLines(chunks: AsyncIterable<Buffer>): AsyncGenerator<string> {
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

/** A new file that is written from its beginning to its end. If the disk is full, the next call that writes says so. */
export class LinesFile {
  readonly path: string
  readonly #stream: WriteStream

  constructor(path: string) {
    this.path = path
    this.#stream = openNewStream(path)
    // Each write reports it.
    this.#stream.on('error', () => {})
  }

  /** Returns null if there is room for more; otherwise resolves when it is written. Not at `drain`: the stream may end before. */
  add(content: Buffer): Promise<void> | null {
    const { promise, isRoom } = this.#write(content)
    promise.catch(() => {})
    return isRoom ? null : promise
  }

  /** Resolves when all is in the file. */
  async flush(): Promise<void> {
    await this.#write('').promise
  }

  /** Closes the file when all is in it. */
  async end(): Promise<void> {
    // Also of a stream that has failed already.
    await finished(this.#stream.end())
  }

  /** Closes the file, which stays; what was not flushed may be lost. */
  async close(): Promise<void> {
    // Not `once`: it would reject if a pending write fails, and hide why the file was abandoned.
    const closed = new Promise(resolve => this.#stream.once('close', resolve))
    this.#stream.destroy()
    if (!this.#stream.closed) await closed
  }

  #write(content: Buffer | string): { promise: Promise<void>; isRoom: boolean } {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const stream = this.#stream
    // Once it has failed, it says only that it is gone.
    const isRoom = stream.write(content, error => (error ? reject(stream.errored ?? error) : resolve()))
    return { promise, isRoom }
  }
}
