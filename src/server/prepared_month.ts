import { type FileHandle, mkdtemp, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { deserialize } from 'node:v8'
import { zstdDecompress, zstdDecompressSync } from 'node:zlib'
import { makePrivateDirectory } from '#src/lib/access.ts'
import { findSystemCode } from '#src/lib/errors.ts'
import { computeTag, hashContent } from '#src/lib/hash.ts'
import { createTurns } from '#src/lib/http/waiting_room.ts'
import { Json } from '#src/server/contract/source.ts'
import type { MonthSearch } from '#src/server/search/month_search.ts'
import { type MonthFiles, monthDocuments } from './documents.ts'

/** A month to prepare. */
export type MonthOrder = {
  readonly files: MonthFiles
  /** Total size of those files. */
  readonly bytes: number
  readonly rows: number
  /** The company's. */
  readonly timeZone: string
  /** The directory for its files. */
  readonly directory: string
}

/** The place of an analysis in its file: `bytes` bytes at offset `at`, which decompress to `size` bytes of JSON. */
type AnalysisPlace = {
  readonly at: number
  readonly bytes: number
  readonly size: number
  readonly tag: string
}

/** The contents of a prepared month, newest notice first; all lists have the same length. */
export type MonthIndex = {
  readonly ids: readonly string[]
  readonly statuses: readonly string[]
  /** `created_at`, microseconds. */
  readonly created: readonly number[]
  /** The ends of the notices in `notices`; each begins where the previous one ends. */
  readonly noticeEnds: readonly number[]
  readonly noticeTags: readonly string[]
  /** `analysis_state` of `editais`. */
  readonly states: readonly string[]
  /** The place of each analysis in `analyses`, as a separate zstd frame; null for a notice without an analysis. */
  readonly analyses: readonly (AnalysisPlace | null)[]
  /** SHA-256 of the file of notices. */
  readonly noticesSha256: string
  /** SHA-256 of the file that they are searched in. */
  readonly searchSha256: string
  /** Size of the file of analyses; each frame in it has its own checksum. */
  readonly analysesBytes: number
}

/** Returns the paths of a prepared month. `sum` is the SHA-256 of the index, and is written last. */
export function preparedFiles(
  directory: string,
): Readonly<Record<'notices' | 'analyses' | 'search' | 'index' | 'sum', string>> {
  return {
    notices: join(directory, 'notices'),
    analyses: join(directory, 'analyses'),
    search: join(directory, 'search'),
    index: join(directory, 'index.json'),
    sum: join(directory, 'sum'),
  }
}

/** The files on disk are not what a builder wrote: the month must be built again. */
class DamagedError extends Error {
  override readonly name = 'DamagedError'
}

/** Decompressing this much takes 0.15 ms, less than handing it to another thread. */
const SMALL_BYTES = 128 * 1024
/** Larger ones may have tens of megabytes: this many are decompressed at the same time, in total. */
const LARGE_AT_ONCE = 2
const largeInTurn = createTurns(LARGE_AT_ONCE)
const decompress = promisify(zstdDecompress)
const SPARE_BYTES = 1024
/** Its notices and its index; what it is searched by comes to it. */
const MEMORY_PER_BYTE = 2

/** The documents of one month: notices in memory, analyses in a file. */
export class PreparedMonth {
  readonly index: MonthIndex
  readonly search: MonthSearch
  /** Identifies the contents of all its notices; for `ETag`. */
  readonly tag: string
  #analysesTag: string | null = null
  readonly #notices: Buffer
  readonly #searchBytes: number
  readonly #analyses: FileHandle
  readonly #places: ReadonlyMap<string, number>
  #reading = 0
  #dropped = false

  private constructor(index: MonthIndex, search: Buffer, notices: Buffer, analyses: FileHandle) {
    this.index = index
    this.search = deserialize(search) as MonthSearch
    this.#searchBytes = search.length
    this.#notices = notices
    this.#analyses = analyses
    this.#places = new Map(index.ids.map((id, place) => [id, place]))
    this.tag = computeTag(index.noticeTags.join())
  }

  /**
   * Opens what a builder wrote; the directory may be removed afterwards.
   * @throws Error if it is damaged. Analyses are checked when they are read.
   */
  static async open(directory: string): Promise<PreparedMonth> {
    const paths = preparedFiles(directory)
    const text = await readFile(paths.index)
    if (hashContent(text) !== (await readFile(paths.sum, 'utf8')))
      throw new DamagedError(`${paths.index} is damaged`)
    const index = JSON.parse(text.toString()) as MonthIndex
    const notices = await readFile(paths.notices)
    if (hashContent(notices) !== index.noticesSha256) throw new DamagedError(`${paths.notices} is damaged`)
    const search = await readFile(paths.search)
    if (hashContent(search) !== index.searchSha256) throw new DamagedError(`${paths.search} is damaged`)
    const analyses = await open(paths.analyses)
    const { size } = await analyses.stat()
    if (size === index.analysesBytes) return new PreparedMonth(index, search, notices, analyses)
    await analyses.close()
    throw new DamagedError(`${paths.analyses} is damaged`)
  }

  /** Identifies the contents of all its analyses. */
  get analysesTag(): string {
    this.#analysesTag ??= computeTag(this.index.analyses.map(analysis => analysis?.tag ?? '').join())
    return this.#analysesTag
  }

  get size(): number {
    return this.index.ids.length
  }

  /** Returns about how many bytes the month takes in memory. */
  get bytes(): number {
    return this.#notices.length * MEMORY_PER_BYTE + this.#searchBytes
  }

  /** Returns the open file of its analyses; closed when the month is dropped and nobody holds it. */
  get analysesFile(): number {
    return this.#analyses.fd
  }

  /** Keeps its file open until the returned function is called for the first time. */
  hold(): () => void {
    this.#reading += 1
    let isHeld = true
    return () => {
      if (!isHeld) return
      isHeld = false
      this.#reading -= 1
      void this.#closeIfDone()
    }
  }

  /** Returns the number of bytes of a notice. */
  noticeBytes(place: number): number {
    return this.#begin(place + 1) - this.#begin(place) - 1
  }

  findPlace(id: string): number | undefined {
    return this.#places.get(id)
  }

  /** Returns the notices in this range, separated by commas. */
  notices(from: number, to: number): Buffer {
    return this.#notices.subarray(this.#begin(from), this.#begin(to) - 1)
  }

  notice(place: number): Json {
    return new Json(this.notices(place, place + 1), this.index.noticeTags[place] as string)
  }

  /**
   * Returns null if there is none.
   * @throws Error if the file is damaged.
   */
  async analysis(place: number): Promise<Json | null> {
    const where = this.index.analyses[place]
    if (!where) return null
    this.#reading += 1
    try {
      if (where.size <= SMALL_BYTES)
        return new Json(zstdDecompressSync(await this.#read(where), inOnePiece(where)), where.tag)
      const unpack = async () => await decompress(await this.#read(where), inOnePiece(where))
      return new Json((await largeInTurn('', () => true, unpack)) as Buffer, where.tag)
    } finally {
      this.#reading -= 1
      await this.#closeIfDone()
    }
  }

  async #read({ at, bytes }: AnalysisPlace): Promise<Buffer> {
    const frame = Buffer.allocUnsafe(bytes)
    const { bytesRead } = await this.#analyses.read(frame, 0, bytes, at)
    if (bytesRead !== bytes) throw new Error(`an analysis has ${bytesRead} bytes instead of ${bytes}`)
    return frame
  }

  /** Drops the month, which no snapshot needs any more; reads that have begun can finish. */
  async drop(): Promise<void> {
    this.#dropped = true
    await this.#closeIfDone()
  }

  async #closeIfDone(): Promise<void> {
    if (this.#dropped && this.#reading === 0) await this.#analyses.close().catch(() => {})
  }

  #begin(place: number): number {
    return place === 0 ? 0 : (this.index.noticeEnds[place - 1] as number)
  }
}

/** Sets the output to one chunk: each default chunk of 16 kB, and a final one that is full, costs a turn of the event loop. */
function inOnePiece({ size }: AnalysisPlace): { chunkSize: number } {
  return { chunkSize: size + SPARE_BYTES }
}

/** Increment this when a builder's output changes in a way that does not show in its SQL, such as other stems. */
const FORMAT = 7
/** A month's directory. Others in the same place have files of their own: the index of the feed. */
const MONTH = /^[0-9a-f]{64}$/
/** Directories that are being filled. */
const UNFINISHED = /^part-/
/** After this time, a directory was left by a killed process: no month takes that long. */
const LEFT_BEHIND_MS = 3_600_000

/** The SQL that makes the documents: it may differ in another version of the program. */
const RECIPE = monthDocuments(
  {
    editais: 'e',
    analyses: 'a',
    requirements: 'r',
    items: 'i',
    alerts: 'l',
    whole_documents: null,
  } satisfies MonthFiles,
  { batch: 0, batches: 1, timeZone: 'UTC' },
)

/** Returns the key of a month: a hash of everything that its documents depend on. */
export function monthKey(checksums: readonly (string | null)[], timeZone: string): string {
  return hashContent(JSON.stringify([FORMAT, RECIPE, timeZone, checksums]))
}

/**
 * Prepared months, each in a directory named by its key, beside the lake: a server that restarts, or a second server,
 * reuses them. Incomplete ones are built again.
 */
export class MonthStore {
  readonly #directory: string

  /** @param directory is created when needed, accessible only to its user. */
  constructor(directory: string) {
    this.#directory = directory
  }

  /** Opens a month; null if it is missing or incomplete. */
  async open(key: string): Promise<PreparedMonth | null> {
    const directory = join(this.#directory, key)
    try {
      return await PreparedMonth.open(directory)
    } catch (error) {
      // Other errors, such as too many open files, do not mean that the month is damaged.
      if (!isIncomplete(error)) throw error
      await this.remove(key)
      return null
    }
  }

  /** Creates an empty directory for months to build. */
  async begin(): Promise<string> {
    await makePrivateDirectory(this.#directory)
    return await mkdtemp(join(this.#directory, 'part-'))
  }

  /** Stores a built month under its key, and opens it. */
  async keep(key: string, built: string): Promise<PreparedMonth> {
    const place = join(this.#directory, key)
    try {
      await rename(built, place)
    } catch (error) {
      if (!['ENOTEMPTY', 'EEXIST'].includes(findSystemCode(error) ?? '')) throw error
      // Another server has built the same month in the meantime; or an existing one is incomplete.
      const prepared = await this.open(key)
      if (prepared) return prepared
      await rename(built, place)
    }
    return await PreparedMonth.open(place)
  }

  async remove(key: string): Promise<void> {
    await rm(join(this.#directory, key), { recursive: true, force: true })
  }

  /** Removes all others. Another server that still reads one has it open, and can read it to the end. */
  async removeOthers(keys: ReadonlySet<string>): Promise<void> {
    const names = await readdir(this.#directory).catch(() => [])
    for (const name of names.filter(one => !keys.has(one))) {
      const path = join(this.#directory, name)
      if (!MONTH.test(name) && !(UNFINISHED.test(name) && (await isLeftBehind(path)))) continue
      await rm(path, { recursive: true, force: true })
    }
  }

  /** Removes all months, and whatever else is in the directory. */
  async clear(): Promise<void> {
    await rm(this.#directory, { recursive: true, force: true })
  }
}

function isIncomplete(error: unknown): boolean {
  return error instanceof DamagedError || error instanceof SyntaxError || findSystemCode(error) === 'ENOENT'
}

async function isLeftBehind(path: string): Promise<boolean> {
  const about = await stat(path).catch(() => null)
  return about !== null && Date.now() - about.mtimeMs > LEFT_BEHIND_MS
}
