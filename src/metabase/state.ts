import { readFile, rename, writeFile } from 'node:fs/promises'
import { basename, dirname } from 'node:path'

/** How Metabase stands to the latest snapshot, as the last try to point it there left it. */
export type MetabaseState = {
  /** When that was tried. */
  readonly tried_at: string
  /** The catalog that it reads since a try last succeeded; null before the first. */
  readonly catalog: string | null
  /** Of the views and columns that it knows. */
  readonly catalog_hash: string | null
  /** Why it may read an older one now; null where it reads the latest. */
  readonly error: string | null
}

/** Null where Metabase was never followed. */
export async function readMetabaseState(path: string): Promise<MetabaseState | null> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as MetabaseState
  } catch {
    return null
  }
}

/** The snapshot that Metabase reads, as far as is known: it must not be removed. */
export function snapshotOf(state: MetabaseState | null): string | null {
  return state?.catalog ? basename(dirname(state.catalog)) : null
}

/** Whole or not at all, so that it can be read at any time. */
export async function writeMetabaseState(path: string, state: MetabaseState): Promise<void> {
  await writeFile(`${path}.part`, `${JSON.stringify(state)}\n`)
  await rename(`${path}.part`, path)
}
