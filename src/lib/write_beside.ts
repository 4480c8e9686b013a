import { mkdtemp, rename, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { syncPath } from './durable.ts'
import { EXIT, FatalError, messageOf } from './errors.ts'

/**
 * Writes a file that appears, or replaces another one, only when it is complete. Readers of the old file keep it.
 * @param write creates the file at the path that it gets.
 * @returns what `write` returned.
 * @param option the option that names the path, for the message.
 * @throws FatalError (usage) if it cannot be written there; those of `write`.
 */
export async function writeBeside<T>(
  path: string,
  option: string,
  write: (temporary: string) => Promise<T>,
): Promise<T> {
  let place: string | null = null
  try {
    place = await mkdtemp(join(dirname(path), `.${basename(path)}-`))
    const temporary = join(place, basename(path))
    const result = await write(temporary)
    await syncPath(temporary)
    await rename(temporary, path)
    await syncPath(dirname(path))
    return result
  } catch (error) {
    if (error instanceof FatalError) throw error
    throw new FatalError(
      `${path} cannot be written: ${messageOf(error)}. Name another file with ${option}.`,
      EXIT.usage,
    )
  } finally {
    if (place !== null) await rm(place, { recursive: true, force: true }).catch(() => {})
  }
}
