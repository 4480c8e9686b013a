import { createHash } from 'node:crypto'
import { mkdtemp, readdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { makePrivateDirectory } from '#src/lib/access.ts'
import { systemCode } from '#src/lib/errors.ts'
import { documentsOf, type MonthFiles } from './documents.ts'
import { DamagedError, PreparedMonth } from './prepared_month.ts'

/** Increment this when a builder's output changes in a way that does not show in its SQL, such as other stems. */
const FORMAT = 7
/** A month's directory. Others in the same place have files of their own: the index of the feed. */
const MONTH = /^[0-9a-f]{64}$/
/** Directories that are being filled. */
const UNFINISHED = /^part-/
/** After this time, a directory was left by a killed process: no month takes that long. */
const LEFT_BEHIND_MS = 3_600_000

/** The SQL that makes the documents: it may differ in another version of the program. */
const RECIPE = documentsOf(
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
  return createHash('sha256')
    .update(JSON.stringify([FORMAT, RECIPE, timeZone, checksums]))
    .digest('hex')
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
      if (!['ENOTEMPTY', 'EEXIST'].includes(systemCode(error) ?? '')) throw error
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
  return error instanceof DamagedError || error instanceof SyntaxError || systemCode(error) === 'ENOENT'
}

async function isLeftBehind(path: string): Promise<boolean> {
  const about = await stat(path).catch(() => null)
  return about !== null && Date.now() - about.mtimeMs > LEFT_BEHIND_MS
}
