import { readFile, rename, rm } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import { z } from 'zod'
import { syncPath, writeNew } from '#src/lib/durable.ts'

const state = z.object({
  tried_at: z.string(),
  database_id: z.number().nullable(),
  reads: z.array(z.string()),
  catalog_hash: z.string().nullable(),
  error: z.string().nullable(),
})

/** The snapshot that Metabase reads, after the last attempt to point it to the latest one. */
export type MetabaseState = {
  /** Time of that attempt. */
  readonly tried_at: string
  /** Its database that shows the company; null until it is known. */
  readonly database_id: number | null
  /** The catalog that it reads, as far as is known; two if it did not answer the request to switch. */
  readonly reads: readonly string[]
  /** Hash of the views and columns that it knows. */
  readonly catalog_hash: string | null
  /** Why it may still read an older one; null if it reads the latest. */
  readonly error: string | null
}

/** Returns null if Metabase does not follow the company, or the file is not valid. */
export async function readMetabaseState(path: string): Promise<MetabaseState | null> {
  try {
    return state.parse(JSON.parse(await readFile(path, 'utf8')))
  } catch {
    return null
  }
}

/** Snapshots that Metabase may be reading: they must not be removed. */
export function snapshotsOf(known: MetabaseState | null): string[] {
  return (known?.reads ?? []).map(catalog => basename(dirname(catalog)))
}

/** Writes atomically and durably: after a power failure, too, the snapshot that Metabase reads must be known. */
export async function writeMetabaseState(path: string, known: MetabaseState): Promise<void> {
  const part = `${path}.part`
  await writeNew(part, `${JSON.stringify(known)}\n`)
  await syncPath(part)
  await rename(part, path)
  await syncPath(dirname(path))
}

/** Deletes the state: Metabase no longer follows the company. */
export async function forgetMetabase(path: string): Promise<void> {
  await rm(path, { force: true })
}
