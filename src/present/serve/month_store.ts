import { createHash } from 'node:crypto'
import { mkdtemp, readdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { makePrivateDirectory } from '#src/platform/access.ts'
import { systemCode } from '#src/platform/errors.ts'
import { documentsOf, type MonthFiles } from './documents.ts'
import { DamagedError } from './prepared_files.ts'
import { PreparedMonth } from './prepared_month.ts'

/** Raised when what a builder writes changes in another way than its SQL does. */
const FORMAT = 1
/** Directories that are being filled; those of the version before were called preparedMonths. */
const UNFINISHED = /^(part|shelves)-/
/** What a process that was killed left; no month takes so long. */
const LEFT_BEHIND_MS = 3_600_000

/** How documents are made: another version of the program makes others. */
const RECIPE = documentsOf(
  { editais: 'e', analyses: 'a', requirements: 'r', items: 'i', alerts: 'l' } satisfies MonthFiles,
  { batch: 0, batches: 1 },
)

/** Names a month by all that its documents depend on. */
export function monthKey(checksums: readonly (string | null)[]): string {
  return createHash('sha256')
    .update(JSON.stringify([FORMAT, RECIPE, checksums]))
    .digest('hex')
}

/**
 * Months that were prepared, each in a directory named by what it was made from, beside the lake: a server that
 * starts again, or a second one, takes them from here. Whatever is not whole is built again.
 */
export class MonthStore {
  readonly #directory: string

  /** @param directory is made when it is needed, for its user alone. */
  constructor(directory: string) {
    this.#directory = directory
  }

  /** The month, if it is there and whole. */
  async open(key: string): Promise<PreparedMonth | null> {
    const directory = join(this.#directory, key)
    try {
      return await PreparedMonth.open(directory)
    } catch (error) {
      // Anything else, such as too many open files, says nothing about the month.
      if (!isIncomplete(error)) throw error
      await this.remove(key)
      return null
    }
  }

  /** An empty directory for months that are to be built. */
  async begin(): Promise<string> {
    await makePrivateDirectory(this.#directory)
    return await mkdtemp(join(this.#directory, 'part-'))
  }

  /** Keeps what was built in a directory under its key, and opens it. */
  async keep(key: string, built: string): Promise<PreparedMonth> {
    const place = join(this.#directory, key)
    try {
      await rename(built, place)
    } catch (error) {
      if (!['ENOTEMPTY', 'EEXIST'].includes(systemCode(error) ?? '')) throw error
      // Another server has built the same meanwhile; or what is there is not whole.
      const prepared = await this.open(key)
      if (prepared) return prepared
      await rename(built, place)
    }
    return await PreparedMonth.open(place)
  }

  async remove(key: string): Promise<void> {
    await rm(join(this.#directory, key), { recursive: true, force: true })
  }

  /** Removes all others; another server that still reads one has it open, and reads it to the end. */
  async removeOthers(keys: ReadonlySet<string>): Promise<void> {
    const names = await readdir(this.#directory).catch(() => [])
    for (const name of names.filter(one => !keys.has(one))) {
      const path = join(this.#directory, name)
      if (UNFINISHED.test(name) && !(await isLeftBehind(path))) continue
      await rm(path, { recursive: true, force: true })
    }
  }

  /** Removes them all. */
  async clear(): Promise<void> {
    await rm(this.#directory, { recursive: true, force: true })
  }
}

function isIncomplete(error: unknown): boolean {
  return error instanceof DamagedError || error instanceof SyntaxError || systemCode(error) === 'ENOENT'
}

async function isLeftBehind(path: string): Promise<boolean> {
  const about = await stat(path).catch(() => null)
  return about !== null && Date.now() - about.mtimeMs > LEFT_BEHIND_MS
}
