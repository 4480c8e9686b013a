import { randomUUID } from 'node:crypto'
import { readdirSync, realpathSync, statSync } from 'node:fs'
import { link, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import {
  isNotChangeable,
  PASSED_DIRECTORY,
  PRIVATE_DIRECTORY,
  PRIVATE_FILE,
  refuseStrange,
  restrict,
  restrictFile,
  setMode,
} from '#src/lib/access.ts'
import { syncPath, writeNew } from '#src/lib/durable.ts'
import { findSystemCode, ignoreMissing } from '#src/lib/errors.ts'

/** The files that this program creates in DATA_DIR beside the companies' directories. */
const OUR_FILES =
  /^((api_keys|webhooks)\.sqlite(-wal|-shm|-journal)?|catalog\.duckdb|\.catalog-\w+|\.metabase_api_key(\.part)?|\.editais-sync-demo)$/
/** Pending revocations (`src/server/keys.ts`). */
const OUR_DIRECTORY = 'api_keys.revoked'
const OF_THE_DISK = 'lost+found'
/** For readers of all lakes; it is replaced, never written to. */
const CATALOG = { name: 'catalog.duckdb', mode: 0o644 }
/** A directory that holds any of these is a company's. */
const OF_A_COMPANY: readonly string[] = ['raw', 'lake']
const STICKY = 0o1000

/**
 * Removes permissions on DATA_DIR that others do not need: to list it, to write to it, and to read secrets. Not if it
 * is shared: `/tmp`, a home or a checkout may be used by others, who would be locked out.
 * @param isLakeOpen lets others pass through to the lake; without it no permission is added.
 * @returns what could not be done.
 */
export function closeDataDirectory(dataDir: string, isLakeOpen: boolean): string[] {
  const { mode } = statSync(dataDir)
  const wanted = (mode & PASSED_DIRECTORY) | (isLakeOpen ? PASSED_DIRECTORY : 0)
  const notes =
    wanted !== (mode & 0o777) && isOursAlone(dataDir) ? [setMode(realpathSync(dataDir), wanted)] : []
  for (const [path, allowed] of listOurFiles(dataDir)) notes.push(restrictFile(path, allowed))
  notes.push(restrict(join(dataDir, OUR_DIRECTORY), PRIVATE_DIRECTORY))
  return notes.filter(note => note !== null)
}

/** Lists this program's files in DATA_DIR, each with the widest mode allowed. */
export function listOurFiles(dataDir: string): (readonly [path: string, allowed: number])[] {
  return namesIn(dataDir)
    .filter(name => OUR_FILES.test(name))
    .map(name => [join(dataDir, name), name === CATALOG.name ? CATALOG.mode : PRIVATE_FILE] as const)
}

/** Lists the names in the directory; none if it belongs to others and this user may not list it. */
function namesIn(dataDir: string): string[] {
  try {
    return readdirSync(dataDir)
  } catch (error) {
    if (isNotChangeable(error)) return []
    throw error
  }
}

/** Returns whether this user owns it, and everything in it is this program's. */
export function isOursAlone(dataDir: string): boolean {
  const { mode, uid } = statSync(dataDir)
  if (uid !== process.geteuid?.() || (mode & STICKY) !== 0) return false
  return namesIn(dataDir).every(
    name =>
      OUR_FILES.test(name) || [OUR_DIRECTORY, OF_THE_DISK].includes(name) || isCompany(join(dataDir, name)),
  )
}

/** Returns whether a directory is that of a company. An empty one is not: it may be a mount point. */
function isCompany(path: string): boolean {
  try {
    return readdirSync(path).some(name => OF_A_COMPANY.includes(name))
  } catch {
    return false
  }
}

/**
 * Returns the id of a company's directory, wherever it is mounted. Created once: of two processes at a time, both get the same.
 */
export async function ensureDirectoryId(path: string): Promise<string> {
  const known = await readDirectoryId(path)
  if (known) return known
  const temporary = `${path}.${randomUUID()}`
  await writeNew(temporary, `${randomUUID()}\n`)
  await syncPath(temporary)
  try {
    await link(temporary, path)
  } catch (error) {
    if (findSystemCode(error) !== 'EEXIST') throw error
  } finally {
    await rm(temporary, { force: true })
  }
  return (await readDirectoryId(path)) as string
}

/** Reads the directory's id without creating it; null if it has none yet. */
export async function readDirectoryId(path: string): Promise<string | null> {
  refuseStrange(path)
  return (await ignoreMissing(readFile(path, 'utf8')))?.trim() ?? null
}
