import { accessSync, constants, statfsSync } from 'node:fs'

/** Where Linux keeps files in memory. */
const SHARED_MEMORY = '/dev/shm'
/** The tests' files of a moment take some 300 MB; Docker gives 64 MB unless told otherwise. */
const LEAST_FREE_BYTES = 2e9

/** A place for the tests' files that is not a disk: they are synced thousands of times. Null where there is none. */
export function memoryDirectory(): string | null {
  try {
    accessSync(SHARED_MEMORY, constants.W_OK)
    const { bavail, bsize } = statfsSync(SHARED_MEMORY)
    return bavail * bsize >= LEAST_FREE_BYTES ? SHARED_MEMORY : null
  } catch {
    return null
  }
}
