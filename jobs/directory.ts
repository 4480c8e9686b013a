import { randomUUID } from 'node:crypto'
import { link, readFile, rm } from 'node:fs/promises'
import { refuseStrange } from '#src/platform/access.ts'
import { syncPath, writeNew } from '#src/platform/durable.ts'
import { systemCode } from '#src/platform/errors.ts'
import { makeDirectories } from '#src/store/company.ts'
import type { Company } from './company_registry.ts'
import type { Queues } from './queue.ts'

/**
 * Ensures that all workers use the same directory for a company: the first one to sync it records the directory's id
 * in Redis. A kernel lock keeps writers apart on one volume; only this does on two.
 * @returns why the company is refused, if this worker's directory is another one; null if it is the recorded one.
 */
export async function checkDirectory(
  { redis, prefix }: Pick<Queues, 'redis' | 'prefix'>,
  { slug, paths, settings }: Company,
): Promise<string | null> {
  await makeDirectories(paths, settings.lake)
  const id = await directoryId(paths.id)
  const key = `${prefix}:directories`
  await redis.hsetnx(key, slug, id)
  const known = await redis.hget(key, slug)
  if (known === id) return null
  return `${slug} is refused: ${paths.root} (id ${id}) is not the directory that the workers of this Redis use for it (id ${known}). Mount their volume at DATA_DIR. If you moved or recreated the data on purpose, run \`redis-cli HDEL ${key} ${slug}\` against REDIS_URL.`
}

/** Created once. If two workers create it at the same time, both get the same id. */
async function directoryId(path: string): Promise<string> {
  const known = await readId(path)
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
  return (await readId(path)) as string
}

async function readId(path: string): Promise<string | null> {
  refuseStrange(path)
  try {
    return (await readFile(path, 'utf8')).trim()
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return null
    throw error
  }
}
