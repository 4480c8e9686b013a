import { makeDirectories } from '#src/store/company.ts'
import { directoryId } from '#src/store/directory_id.ts'
import type { Company } from './company_registry.ts'
import type { Queues } from './queue.ts'

/** Instead of a directory's id. */
const SHARED = 'shared'

/**
 * Ensures that all workers use the same directory for a company: the first one to sync it records the directory's id
 * in Redis. A kernel lock keeps writers apart on one volume; only this does on two. A company with a shared log
 * (LOG_URL) may have several directories: there, the log keeps writers apart.
 * @returns why the company is refused, if this worker's directory is another one; null if it is the recorded one.
 */
export async function checkDirectory(
  { redis, prefix }: Pick<Queues, 'redis' | 'prefix'>,
  { slug, paths, settings }: Company,
): Promise<string | null> {
  await makeDirectories(paths, settings.lake)
  const key = `${prefix}:directories`
  // A worker without LOG_URL finds it, and is refused: it would write to a log of its own.
  if (settings.remoteLog !== null) {
    if ((await redis.hget(key, slug)) !== SHARED) await redis.hset(key, slug, SHARED)
    return null
  }
  const forget = `redis-cli ${redis.isCluster ? '-c ' : ''}HDEL ${key} ${slug}`
  const id = await directoryId(paths.id)
  await redis.hsetnx(key, slug, id)
  const known = await redis.hget(key, slug)
  if (known === id) return null
  if (known === SHARED)
    return `${slug} is refused: other workers of this Redis share its raw log in an object store, and LOG_URL is not set here. Set it as they do. If you moved the log back to this disk on purpose, stop those workers, and run \`${forget}\` against Redis.`
  return `${slug} is refused: ${paths.root} (id ${id}) is not the directory that the workers of this Redis use for it (id ${known}). Mount their volume at DATA_DIR. If you moved or recreated the data on purpose, run \`${forget}\` against Redis.`
}
