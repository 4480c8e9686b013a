import type { WriteStream } from 'node:fs'
import { join } from 'node:path'
import { finished } from 'node:stream/promises'
import { newStream } from '#src/platform/durable.ts'
import { literal } from './quoted.ts'

/**
 * Of one file, unless a single line has more. DuckDB reads up to 2,048 lines at once, but only of one file: so this bounds what a
 * statement holds, however long the lines are.
 */
const MAX_FILE_BYTES = 8 * 1024 * 1024
/** DuckDB sizes its read buffers by the longest line; smaller buffers only make it slower. */
const MIN_BUFFER_BYTES = 128 * 1024

/** Lines of NDJSON for DuckDB, in files of bounded size. Several callers may add lines at the same time. */
export class BoundedFiles {
  readonly paths: string[] = []
  readonly #directory: string
  readonly #name: string
  readonly #ended: Promise<unknown>[] = []
  #stream: WriteStream | null = null
  #bytes = 0
  #longestLineBytes = MIN_BUFFER_BYTES

  /** @param name of the files, to which numbers are added. */
  constructor(directory: string, name: string) {
    this.#directory = directory
    this.#name = name
  }

  /**
   * Resolves when there is room for more.
   * @param lines without line feeds.
   */
  async add(lines: readonly string[]): Promise<void> {
    let [group, bytes]: [Buffer[], number] = [[], 0]
    let written: Promise<void> | null = null
    const write = () => {
      if (group.length === 0) return
      this.#bytes += bytes
      written = this.#write(Buffer.concat(group, bytes))
      group = []
      bytes = 0
    }
    for (const text of lines) {
      const line = Buffer.from(`${text}\n`)
      this.#longestLineBytes = Math.max(this.#longestLineBytes, line.length)
      if (this.#bytes + bytes + line.length > MAX_FILE_BYTES) {
        write()
        this.#end()
      }
      group.push(line)
      bytes += line.length
    }
    write()
    await written
  }

  /** Resolves when all lines are in the files. */
  async flush(): Promise<void> {
    await Promise.all(this.#ended)
    const stream = this.#stream
    if (stream)
      await new Promise<void>((resolve, reject) =>
        stream.write('', error => (error ? reject(stream.errored ?? error) : resolve())),
      )
  }

  /** Closes the files, which stay; what was not flushed may be lost. */
  async close(): Promise<void> {
    const stream = this.#stream
    this.#stream = null
    await Promise.allSettled(this.#ended)
    if (!stream) return
    // Not `once`: it would reject if a pending write fails, and hide why the files were abandoned.
    const closed = new Promise(resolve => stream.once('close', resolve))
    stream.destroy()
    if (!stream.closed) await closed
  }

  /** The lines as a relation. @param columns their types by name, as SQL; `{a: 'BIGINT'}`. */
  relation(columns: string): string {
    if (this.paths.length === 0) throw new Error(`${this.#name} has no lines`)
    return `read_json([${this.paths.map(literal).join(', ')}], format = 'newline_delimited', hive_partitioning = false,
      maximum_object_size = ${this.#longestLineBytes}, columns = ${columns})`
  }

  /** Null if there is room for more; otherwise resolves when it is written. Not at `drain`: the stream may end before. */
  #write(content: Buffer): Promise<void> | null {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const stream = this.#open()
    // Once it has failed, it says only that it is gone.
    const isRoom = stream.write(content, error => (error ? reject(stream.errored ?? error) : resolve()))
    promise.catch(() => {})
    return isRoom ? null : promise
  }

  #open(): WriteStream {
    if (this.#stream) return this.#stream
    const path = join(this.#directory, `${this.#name}-${this.paths.length + 1}.ndjson`)
    const stream = newStream(path)
    // The next `add` or `flush` reports it.
    stream.on('error', () => {})
    this.paths.push(path)
    this.#stream = stream
    return stream
  }

  #end(): void {
    const stream = this.#stream
    this.#stream = null
    this.#bytes = 0
    if (!stream) return
    // Also of one that has failed already.
    const ended = finished(stream.end())
    ended.catch(() => {})
    this.#ended.push(ended)
  }
}
