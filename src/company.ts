import { existsSync } from 'node:fs'
import { mkdir, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { syncDirectory } from './durable.ts'
import { EXIT, FatalError, systemCode } from './errors.ts'

/** Where everything of one company lies (DESIGN section 6); nothing of another company is below it. */
export type CompanyPaths = {
  readonly company: string
  readonly root: string
  readonly warehouse: string
  /** A rebuilt warehouse, until it takes the place of the old one. */
  readonly nextWarehouse: string
  readonly raw: string
  readonly lake: string
  /** Files that mean nothing after a run. */
  readonly temporary: string
  readonly lock: string
  /** What the last run left, as JSON (`src/state.ts`). */
  readonly state: string
  /** Which snapshot Metabase reads, as JSON (`src/metabase/state.ts`). */
  readonly metabase: string
  /** Names this directory, wherever it is mounted. */
  readonly id: string
}

export function companyPaths(dataDir: string, company: string): CompanyPaths {
  const root = join(dataDir, company)
  return {
    company,
    root,
    warehouse: join(root, 'warehouse.duckdb'),
    nextWarehouse: join(root, 'warehouse.next.duckdb'),
    raw: join(root, 'raw'),
    lake: join(root, 'lake'),
    temporary: join(root, 'tmp'),
    lock: join(root, 'lock'),
    state: join(root, 'state.json'),
    metabase: join(root, 'metabase.json'),
    id: join(root, 'id'),
  }
}

/**
 * Also where others make the same directories at the same moment, as the first runs of many companies do.
 * Not by mkdir's own `recursive`: where a new name in an existing directory is ENOENT (/proc), it never ends.
 */
async function makeDirectory(path: string, isNew: boolean): Promise<void> {
  if (await madeOrThere(path, isNew)) return
  await makeDirectory(dirname(path), isNew)
  if (!(await madeOrThere(path, isNew)))
    throw Object.assign(new Error(`${path} cannot be made`), { code: 'ENOENT' })
}

/** False where its parent was missing; that may be there by now. */
async function madeOrThere(path: string, isNew: boolean): Promise<boolean> {
  try {
    await mkdir(path)
  } catch (error) {
    const code = systemCode(error)
    if (code === 'ENOENT') return false
    if (code !== 'EEXIST') throw error
    if (!(await stat(path)).isDirectory())
      throw Object.assign(new Error(`${path} is no directory`), { code: 'ENOTDIR' })
    // Until there is a warehouse, one that was killed may have made it and not come to the next step.
    if (!isNew) return true
  }
  // A log whose directory is gone after a power failure, beside a warehouse made from it, would be a riddle. Where
  // others own the parent it may not be readable, and what is below it is not ours to make durable.
  await syncDirectory('directories.sync', dirname(path)).catch(error => {
    if (!['EACCES', 'EPERM'].includes(systemCode(error) ?? '')) throw error
  })
  return true
}

/** Makes DATA_DIR itself, where it is not there yet. Throws FatalError (usage) when it cannot be. */
export async function makeDataDirectory(dataDir: string): Promise<void> {
  await makeDirectory(dataDir, true).catch(error => {
    throw unwritable(dataDir, error)
  })
}

/** Makes the directories. Throws FatalError (usage) when DATA_DIR cannot be written. */
export async function makeDirectories(paths: CompanyPaths): Promise<void> {
  const isNew = !existsSync(paths.warehouse)
  try {
    const { root, raw, lake, temporary } = paths
    for (const path of [root, raw, lake, join(lake, 'snapshots'), temporary]) {
      await makeDirectory(path, isNew)
    }
  } catch (error) {
    throw unwritable(paths.root, error)
  }
}

function unwritable(path: string, error: unknown): unknown {
  const code = systemCode(error)
  if (code === 'ENOSPC') return error
  return new FatalError(
    `${path} cannot be written (${code}). Set DATA_DIR to a directory that this user may write.`,
    EXIT.usage,
  )
}
