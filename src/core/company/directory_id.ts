import { randomUUID } from 'node:crypto'
import { link, readFile, rm } from 'node:fs/promises'
import { refuseStrange } from '#src/lib/access.ts'
import { syncPath, writeNew } from '#src/lib/durable.ts'
import { systemCode } from '#src/lib/errors.ts'

/**
 * Returns the id of a company's directory, wherever it is mounted. Created once: of two processes at a time, both get the same.
 */
export async function directoryId(path: string): Promise<string> {
  const known = await knownDirectoryId(path)
  if (known) return known
  const temporary = `${path}.${randomUUID()}`
  await writeNew(temporary, `${randomUUID()}\n`)
  await syncPath(temporary)
  try {
    await link(temporary, path)
  } catch (error) {
    if (systemCode(error) !== 'EEXIST') throw error
  } finally {
    await rm(temporary, { force: true })
  }
  return (await knownDirectoryId(path)) as string
}

/** Reads the directory's id without creating it; null if it has none yet. */
export async function knownDirectoryId(path: string): Promise<string | null> {
  refuseStrange(path)
  try {
    return (await readFile(path, 'utf8')).trim()
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return null
    throw error
  }
}
