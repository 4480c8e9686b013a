import { existsSync, lstatSync, readdirSync } from 'node:fs'
import { mkdir, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { LakeSettings } from '#config/lake.ts'
import {
  giveToGroup,
  LAKE_DIRECTORY,
  makePrivateDirectory,
  PASSED_DIRECTORY,
  PRIVATE_DIRECTORY,
  refuseForeignLink,
  restrict,
  restrictFile,
  setMode,
} from '#src/lib/access.ts'
import { remove, syncDirectory } from '#src/lib/durable.ts'
import { EXIT, FatalError, findSystemCode } from '#src/lib/errors.ts'
import { closeDataDirectory } from './data_directory.ts'

/** Leaves the access to the lake unchanged. */
const AS_IT_IS: LakeSettings = { mode: null, group: null }
const OTHERS = 0o077

/** The paths of a company's files. Nothing of another company is below `root`. */
export type CompanyPaths = {
  readonly company: string
  readonly root: string
  readonly warehouse: string
  /** A rebuilt warehouse until it replaces the old one. In `tmp`, because DuckDB makes it readable by others. */
  readonly nextWarehouse: string
  /** Parquet files with the rows of child tables, in a directory for each warehouse. */
  readonly rows: string
  readonly raw: string
  /** The log from before an earlier version folded it into fewer segments. */
  readonly rawBefore: string
  readonly lake: string
  /** Files that are not needed after a run. */
  readonly temporary: string
  /** The directory of the server's prepared documents (`src/server/company.ts`). */
  readonly mirror: string
  readonly lock: string
  /** The state after the last run, as JSON (`src/core/company/state.ts`). */
  readonly state: string
  /** The last look that found nothing new, as JSON (`src/core/company/state.ts`). */
  readonly look: string
  /** The list as the last run saw it (`src/core/pipeline/list_index.ts`). */
  readonly listIndex: string
  /** Why later runs left no report, as JSON (`src/core/company/run_report.ts`). */
  readonly failure: string
  /** Which snapshot Metabase reads, as JSON (`src/extras/metabase/follow.ts`). */
  readonly metabase: string
  /** The state of the lake in the object store, as JSON (`src/extras/object_store/state.ts`). */
  readonly remote: string
  /** Held by the process that writes to the object store; runs continue. */
  readonly remoteLock: string
  /** Marts that are only in the object store, until they are there (`src/extras/object_store/publish.ts`). */
  readonly remoteMarts: string
  /** Identifies this directory, wherever it is mounted. */
  readonly id: string
}

export function companyPaths(dataDir: string, company: string): CompanyPaths {
  const root = join(dataDir, company)
  return {
    company,
    root,
    warehouse: join(root, 'warehouse.duckdb'),
    nextWarehouse: join(root, 'tmp', 'warehouse.next.duckdb'),
    rows: join(root, 'rows'),
    raw: join(root, 'raw'),
    rawBefore: join(root, 'raw.before'),
    lake: join(root, 'lake'),
    temporary: join(root, 'tmp'),
    mirror: join(root, 'mirror'),
    lock: join(root, 'lock'),
    state: join(root, 'state.json'),
    look: join(root, 'look.json'),
    listIndex: join(root, 'list.json'),
    failure: join(root, 'failure.json'),
    metabase: join(root, 'metabase.json'),
    remote: join(root, 'remote.json'),
    remoteLock: join(root, 'remote.lock'),
    remoteMarts: join(root, 'remote_marts'),
    id: join(root, 'id'),
  }
}

/**
 * Tolerates other processes creating the same directories at the same time, as the first runs of many companies do.
 * Not mkdir's own `recursive`: if a new name in an existing directory is ENOENT (/proc), it never ends.
 * @param mode of a new directory, less the umask.
 */
async function makeDirectory(path: string, mode: number, isNew: boolean): Promise<void> {
  if (await madeOrThere(path, mode, isNew)) return
  await makeDirectory(dirname(path), PASSED_DIRECTORY, isNew)
  if (!(await madeOrThere(path, mode, isNew)))
    throw Object.assign(new Error(`${path} cannot be created`), { code: 'ENOENT' })
}

/** Creates a directory that may exist. Returns false if its parent is missing, which another process may be creating. */
async function madeOrThere(path: string, mode: number, isNew: boolean): Promise<boolean> {
  try {
    await mkdir(path, mode)
  } catch (error) {
    const code = findSystemCode(error)
    if (code === 'ENOENT') return false
    if (code !== 'EEXIST') throw error
    refuseForeignLink(path)
    if (!(await stat(path)).isDirectory())
      throw Object.assign(new Error(`${path} is not a directory`), { code: 'ENOTDIR' })
    // Until there is a warehouse, a killed process may have created the directory without syncing it.
    if (!isNew) return true
  }
  // Otherwise a power failure could lose the log's directory but keep the warehouse made from it. A parent that
  // others own may be unreadable, and its durability is not our concern.
  await syncDirectory('directories.sync', dirname(path)).catch(error => {
    if (!['EACCES', 'EPERM'].includes(findSystemCode(error) ?? '')) throw error
  })
  return true
}

/** Creates DATA_DIR if needed and closes it to others. Throws FatalError (usage) if that fails. */
export async function makeDataDirectory(dataDir: string): Promise<void> {
  try {
    await makeDirectory(dataDir, PASSED_DIRECTORY, true)
    closeDataDirectory(dataDir, false)
  } catch (error) {
    throw unwritable(dataDir, error)
  }
}

/**
 * Creates the directories, and closes to others what they need not open (invariant I11).
 * @returns a sentence for each path that this user cannot close.
 * @throws FatalError (usage) if DATA_DIR cannot be written or the lake's group cannot be set; FatalError if only the log
 *   from before a fold is there.
 */
export async function makeDirectories(
  paths: CompanyPaths,
  settings: LakeSettings = AS_IT_IS,
): Promise<string[]> {
  refuseHalfFolded(paths)
  const isNew = !existsSync(paths.warehouse)
  const { root, rows, raw, lake, temporary } = paths
  const modes = [
    [root, PASSED_DIRECTORY],
    [raw, PRIVATE_DIRECTORY],
    [rows, PRIVATE_DIRECTORY],
    [lake, LAKE_DIRECTORY],
    [join(lake, 'snapshots'), LAKE_DIRECTORY],
    [temporary, PRIVATE_DIRECTORY],
  ] as const
  try {
    for (const [path, mode] of modes) await makeDirectory(path, mode, isNew)
    return closeCompany(paths, settings)
  } catch (error) {
    throw unwritable(root, error)
  }
}

/**
 * Throws FatalError if only the log from before a fold is there. An empty log in its place would begin another one, and
 * it may be older than the one that is missing, so a person must put it back.
 */
function refuseHalfFolded({ raw, rawBefore }: CompanyPaths): void {
  if (existsSync(raw) || !existsSync(rawBefore)) return
  throw new FatalError(
    `${raw} is missing, but ${rawBefore} is there: an earlier version was probably killed while it folded the log. Nothing was changed. Rename ${rawBefore} to ${raw}, then run this again.`,
  )
}

/** Closes the company's directories to other users, top down, so that closing one at once protects everything below it. */
function closeCompany(
  { root, rows, raw, rawBefore, lake, temporary, mirror, remoteMarts }: CompanyPaths,
  { mode, group }: LakeSettings,
): string[] {
  const notes = closeDataDirectory(dirname(root), ((mode ?? 0) & OTHERS) !== 0)
  const add = (note: string | null) => notes.push(...(note === null ? [] : [note]))
  for (const path of [root, lake, join(lake, 'snapshots')]) {
    if (group !== null) giveToGroup(path, group)
    const allowed = path === root ? PASSED_DIRECTORY : LAKE_DIRECTORY
    add(mode === null ? restrict(path, allowed) : setMode(path, mode & allowed))
  }
  for (const path of [raw, rawBefore, rows, temporary, mirror, remoteMarts])
    add(restrict(path, PRIVATE_DIRECTORY))
  for (const name of readdirSync(root)) add(restrictFile(join(root, name)))
  return notes
}

/**
 * Empties the directory of what a killed run, or others who could write to it, left there. The caller holds the
 * company's lock.
 */
export async function emptyTemporary({ temporary }: CompanyPaths): Promise<void> {
  if (!lstatSync(temporary).isSymbolicLink() && readdirSync(temporary).length === 0) return
  await remove('temporary.remove', temporary)
  await makePrivateDirectory(temporary)
}

function unwritable(path: string, error: unknown): unknown {
  if (error instanceof FatalError) return error
  const code = findSystemCode(error)
  if (code === 'ENOSPC') return error
  return new FatalError(
    `${path} cannot be written (${code}). Set DATA_DIR to a directory that this user may write to.`,
    EXIT.usage,
  )
}
