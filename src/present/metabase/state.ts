import { readFile, rename, rm } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import { z } from 'zod'
import { writeNew } from '#src/platform/durable.ts'

const state = z.object({
  tried_at: z.string(),
  database_id: z.number().nullable(),
  reads: z.array(z.string()),
  catalog_hash: z.string().nullable(),
  error: z.string().nullable(),
})

/** How Metabase stands to the latest snapshot, as the last try to point it there left it. */
export type MetabaseState = {
  /** When that was tried. */
  readonly tried_at: string
  /** Its database that shows the company; null until it is known. */
  readonly database_id: number | null
  /** The catalog that it reads, as far as is known; two where it was told to change and did not answer. */
  readonly reads: readonly string[]
  /** Of the views and columns that it knows. */
  readonly catalog_hash: string | null
  /** Why it may read an older one now; null where it reads the latest. */
  readonly error: string | null
}

/** Null where Metabase is not followed, also where what is there makes no sense. */
export async function readMetabaseState(path: string): Promise<MetabaseState | null> {
  try {
    return state.parse(JSON.parse(await readFile(path, 'utf8')))
  } catch {
    return null
  }
}

/** Snapshots that Metabase may read: they must not be removed. */
export function snapshotsOf(known: MetabaseState | null): string[] {
  return (known?.reads ?? []).map(catalog => basename(dirname(catalog)))
}

/** Whole or not at all, so that it can be read at any time. */
export async function writeMetabaseState(path: string, known: MetabaseState): Promise<void> {
  await writeNew(`${path}.part`, `${JSON.stringify(known)}\n`)
  await rename(`${path}.part`, path)
}

/** Metabase is not followed any more. */
export async function forgetMetabase(path: string): Promise<void> {
  await rm(path, { force: true })
}
