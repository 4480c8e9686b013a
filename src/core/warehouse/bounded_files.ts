import { join } from 'node:path'
import { LinesFile } from '#src/lib/lines.ts'
import { literal } from './quoted.ts'

/**
 * Maximum size of one file, unless a single line has more. DuckDB reads up to 2,048 lines at once, but only of one file: so this
 * bounds what a statement holds, however long the lines are.
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
  #file: LinesFile | null = null
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
      written = this.#open().add(Buffer.concat(group, bytes))
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
    await this.#file?.flush()
  }

  /** Closes the files, which stay; what was not flushed may be lost. */
  async close(): Promise<void> {
    await Promise.allSettled(this.#ended)
    await this.#file?.close()
    this.#file = null
  }

  /** Returns the lines as a relation. @param columns their types by name, as SQL; `{a: 'BIGINT'}`. */
  relation(columns: string): string {
    if (this.paths.length === 0) throw new Error(`${this.#name} has no lines`)
    return `read_json([${this.paths.map(literal).join(', ')}], format = 'newline_delimited', hive_partitioning = false,
      maximum_object_size = ${this.#longestLineBytes}, columns = ${columns})`
  }

  #open(): LinesFile {
    if (this.#file) return this.#file
    this.#file = new LinesFile(join(this.#directory, `${this.#name}-${this.paths.length + 1}.ndjson`))
    this.paths.push(this.#file.path)
    return this.#file
  }

  #end(): void {
    const ended = this.#file?.end()
    this.#file = null
    this.#bytes = 0
    if (!ended) return
    // The next `flush` reports it.
    ended.catch(() => {})
    this.#ended.push(ended)
  }
}
