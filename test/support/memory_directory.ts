import { accessSync, constants, statfsSync } from 'node:fs'

/** Linux's directory for files in memory. */
const SHARED_MEMORY = '/dev/shm'
/** The tests use about 300 MB at a time; Docker's default is 64 MB. */
const LEAST_FREE_BYTES = 2e9

/** A directory in memory for the tests' files, because they are synced thousands of times. Null if there is none. */
export function memoryDirectory(): string | null {
  try {
    accessSync(SHARED_MEMORY, constants.W_OK)
    const { bavail, bsize } = statfsSync(SHARED_MEMORY)
    return bavail * bsize >= LEAST_FREE_BYTES ? SHARED_MEMORY : null
  } catch {
    return null
  }
}
