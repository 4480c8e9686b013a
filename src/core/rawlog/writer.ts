import type { FileHandle } from 'node:fs/promises'
import { promisify } from 'node:util'
import zlib from 'node:zlib'
import { move, openNew, syncDirectory, take } from '#src/lib/durable.ts'
import { segmentPath, unsealedPath } from './files.ts'
import type { Line, LoggedDocument } from './line.ts'

const compress = promisify(zlib.zstdCompress)

/** Each block is compressed as one zstd frame, off the event loop; frames can be concatenated. */
const BLOCK_BYTES = 4 * 1024 * 1024
/** Blocks compressed or written at once; more would only fill memory. */
const MAX_BLOCKS_UNDER_WAY = 2
/** The fastest level: repetitive JSON compresses about as well, and the CPU is needed elsewhere. */
const ZSTD = {
  // Otherwise the event loop is called back for every 16 kB of a frame.
  chunkSize: 256 * 1024,
  params: { [zlib.constants.ZSTD_c_compressionLevel]: 1, [zlib.constants.ZSTD_c_checksumFlag]: 1 },
}

export type Segment = {
  readonly number: number
  readonly path: string
  readonly lines: number
  readonly longestLineBytes: number
}

/** The shared log: each segment is sealed there before it is sealed on this disk. */
export type OuterLog = {
  /**
   * Seals a segment.
   * @param path its file, complete and durable.
   * @throws FatalError (held) if another writer sealed this number: then nothing of the file counts.
   */
  seal(number: number, path: string): Promise<void>
  /** Throws FatalError (held) if another writer took the log over. */
  assertHeld(): void
}

/** The contents of the segment being written. */
export type Unsealed = {
  readonly lines: number
  readonly documents: number
  readonly bytes: number
  readonly ageMs: number
}

/** Appends the lines of one run to one segment after another. */
export class RawLogWriter {
  readonly #directory: string
  readonly #runId: string
  readonly #now: () => Date
  readonly #outer: OuterLog | null
  #segment: SegmentWriter
  /** Segments become durable in number order, so that the log never has a gap. */
  #sealed: Promise<unknown> = Promise.resolve()

  /**
   * @param options.firstNumber the number of the segment to write next.
   * @param options.outer absent if the log is on this disk alone.
   */
  constructor(options: {
    directory: string
    firstNumber: number
    runId: string
    now: () => Date
    outer?: OuterLog | null
  }) {
    this.#outer = options.outer ?? null
    this.#directory = options.directory
    this.#runId = options.runId
    this.#now = options.now
    this.#segment = new SegmentWriter(options.directory, options.firstNumber, options.now().getTime())
  }

  get unsealed(): Unsealed {
    const { lines, documents, bytes, openedAtMs } = this.#segment.held
    return { lines, documents, bytes, ageMs: this.#now().getTime() - openedAtMs }
  }

  /** Resolves when there is room for more. The line is durable only after `seal`. */
  async append(line: Line, document?: LoggedDocument): Promise<void> {
    this.#outer?.assertHeld()
    const { type, ...rest } = line
    const at = this.#now()
    await this.#segment.append(
      seq => {
        // Identifies a segment that is stored under another number.
        const of = seq === 1 ? { number: this.#segment.held.number } : {}
        const head = JSON.stringify({ seq, ...of, run_id: this.#runId, at: at.toISOString(), type, ...rest })
        return document ? withDocument(head, document) : [Buffer.from(`${head}\n`)]
      },
      { document: document !== undefined, atMs: at.getTime() },
    )
  }

  /**
   * Seals the lines so far as one durable segment: temporary file, fsync, outer log, rename, fsync of the directory. Lines
   * appended from now on, even before it resolves, belong to the next segment. Null if there are no lines.
   */
  async seal(): Promise<Segment | null> {
    const segment = this.#segment
    const { number, lines, longestLineBytes } = segment.held
    if (lines === 0) return null
    this.#segment = new SegmentWriter(this.#directory, number + 1, this.#now().getTime())
    const sealed = this.#sealed
      .then(() => segment.finish(this.#outer))
      // Even if it was never sealed because the previous one failed.
      .finally(() => segment.drop())
    sealed.catch(() => {})
    this.#sealed = sealed
    await sealed
    return { number, path: segmentPath(this.#directory, number), lines, longestLineBytes }
  }

  /** Drops unsealed lines. */
  async close(): Promise<void> {
    await this.#sealed.catch(() => {})
    await this.#segment.drop()
  }
}

/** One segment while it is written. Sealing replaces any segment with that number. */
export class SegmentWriter {
  readonly #directory: string
  readonly #number: number
  #openedAtMs: number
  #file: FileHandle | null = null
  #lines = 0
  #documents = 0
  #bytes = 0
  #longestLineBytes = 0
  #block: Buffer[] = []
  #blockBytes = 0
  /** Each block waits for the one before it. */
  #written: Promise<void> = Promise.resolve()
  #underWay = 0

  constructor(directory: string, number: number, openedAtMs: number) {
    this.#directory = directory
    this.#number = number
    this.#openedAtMs = openedAtMs
  }

  get held() {
    return {
      number: this.#number,
      lines: this.#lines,
      documents: this.#documents,
      bytes: this.#bytes,
      longestLineBytes: this.#longestLineBytes,
      openedAtMs: this.#openedAtMs,
    }
  }

  /** Appends a line. @param line its bytes, in parts, with the newline. */
  async append(line: (seq: number) => Buffer[], about: { document: boolean; atMs: number }): Promise<void> {
    if (this.#lines === 0) this.#openedAtMs = about.atMs
    this.#lines += 1
    if (about.document) this.#documents += 1
    const parts = line(this.#lines)
    const length = parts.reduce((sum, part) => sum + part.length, 0)
    this.#block.push(...parts)
    this.#blockBytes += length
    this.#bytes += length
    this.#longestLineBytes = Math.max(this.#longestLineBytes, length)
    if (this.#blockBytes >= BLOCK_BYTES) this.#flush()
    if (this.#underWay > MAX_BLOCKS_UNDER_WAY) await this.#written
  }

  async finish(outer: OuterLog | null = null): Promise<void> {
    this.#flush()
    await this.#written
    const file = await this.#open()
    const path = unsealedPath(this.#directory, this.#number)
    await take('segment.sync', { kind: 'sync', path }, () => file.sync())
    await this.drop()
    await outer?.seal(this.#number, path)
    await move('segment.rename', path, segmentPath(this.#directory, this.#number))
    await syncDirectory('segment.directory', this.#directory)
  }

  /** Closes its file, once. The next run removes an unsealed file. */
  async drop(): Promise<void> {
    await this.#written.catch(() => {})
    const file = this.#file
    this.#file = null
    await file?.close()
  }

  #flush(): void {
    if (this.#blockBytes === 0) return
    const compressed = compress(Buffer.concat(this.#block, this.#blockBytes), ZSTD)
    this.#block = []
    this.#blockBytes = 0
    this.#underWay += 1
    const written = Promise.all([compressed, this.#written]).then(async ([frame]) => {
      await (await this.#open()).appendFile(frame)
      this.#underWay -= 1
    })
    // The next `append` or `finish` that waits for it throws a failure.
    written.catch(() => {})
    this.#written = written
  }

  async #open(): Promise<FileHandle> {
    this.#file ??= await openNew(unsealedPath(this.#directory, this.#number))
    return this.#file
  }
}

/** Returns a line in pieces. The bytes of its document are not copied: they may be many. */
function withDocument(head: string, document: LoggedDocument): Buffer[] {
  const [name, json] = Object.entries(document)[0] as [string, string | Buffer]
  const before = `${head.slice(0, -1)},"${name}":`
  if (typeof json === 'string') return [Buffer.from(`${before}${json}}\n`)]
  return [Buffer.from(before), json, Buffer.from('}\n')]
}
