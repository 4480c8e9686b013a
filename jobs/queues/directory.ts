import { makeDirectories } from '#src/core/company/company.ts'
import { directoryId, knownDirectoryId } from '#src/core/company/data_directory.ts'
import type { Company } from './company_registry.ts'
import type { Queues } from './queue.ts'

/** Companies that are looked up at a time; usually the first one that Redis knows decides. */
const LOOKED_UP = 32

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
  const key = keyOf(prefix)
  // A worker without LOG_URL finds it, and is refused: it would write to a log of its own.
  if (settings.remoteLog !== null) {
    if ((await redis.hget(key, slug)) !== SHARED) await redis.hset(key, slug, SHARED)
    return null
  }
  const forget = `${cliOf(redis)} HDEL ${key} ${slug}`
  const id = await directoryId(paths.id)
  await redis.hsetnx(key, slug, id)
  const known = await redis.hget(key, slug)
  if (known === id) return null
  if (known === SHARED)
    return `${slug} is refused: other workers of this Redis share its raw log in an object store, and LOG_URL is not set here. Set it as they do. If you moved the log back to this disk on purpose, stop those workers, and run \`${forget}\` against Redis.`
  return `${slug} is refused: ${paths.root} (id ${id}) is not the directory that the workers of this Redis use for it (id ${known}). Mount their volume at DATA_DIR. If you moved or recreated the data on purpose, run \`${forget}\` against Redis.`
}

/**
 * Records this directory as the one of the company, because its data were restored there.
 * @returns whether another one was recorded.
 */
export async function recordDirectory(
  { redis, prefix }: Pick<Queues, 'redis' | 'prefix'>,
  { slug, paths, settings }: Pick<Company, 'slug' | 'paths' | 'settings'>,
): Promise<boolean> {
  const own = settings.remoteLog === null ? await directoryId(paths.id) : SHARED
  const known = await redis.hget(keyOf(prefix), slug)
  if (known === null || known === own) return false
  await redis.hset(keyOf(prefix), slug, own)
  return true
}

/** The volumes of the companies, as this worker sees them. */
export type Volumes = {
  /** One sentence for each DATA_DIR that is not the one that Redis knows. */
  readonly problems: readonly string[]
  /** Whether all are wrong, so that this worker can take no job at all. */
  readonly areAllWrong: boolean
}

/**
 * Returns whether each DATA_DIR is the volume that the workers of this Redis use. It is not if none of its companies has the
 * directory that Redis knows: then another volume is mounted, or none. Creates and records nothing, so that a worker
 * can check before it takes a job.
 */
export async function checkVolumes(
  queues: Pick<Queues, 'redis' | 'prefix'>,
  companies: Iterable<Company>,
): Promise<Volumes> {
  const all = [...companies]
  // With a shared log, any directory is right.
  const alone = all.filter(({ settings }) => settings.remoteLog === null)
  const volumes = Map.groupBy(alone, ({ settings }) => settings.dataDir)
  const found = await Promise.all(
    [...volumes].map(([dataDir, mounted]) => wrongVolume(queues, { dataDir, mounted })),
  )
  const problems = found.filter(problem => problem !== null)
  const areAllWrong = problems.length > 0 && problems.length === found.length && alone.length === all.length
  return { problems, areAllWrong }
}

/** Returns null if it is the right volume, or if Redis knows none of its companies yet. */
async function wrongVolume(
  { redis, prefix }: Pick<Queues, 'redis' | 'prefix'>,
  { dataDir, mounted }: { dataDir: string; mounted: readonly Company[] },
): Promise<string | null> {
  const key = keyOf(prefix)
  let problem: string | null = null
  for (let at = 0; at < mounted.length; at += LOOKED_UP) {
    const companies = mounted.slice(at, at + LOOKED_UP)
    const known = await redis.hmget(key, ...companies.map(({ slug }) => slug))
    for (const [index, { slug, paths }] of companies.entries()) {
      const id = known[index] ?? null
      if (id === null) continue
      const own = await knownDirectoryId(paths.id).catch(() => null)
      if (own === id) return null
      problem ??= describeWrong({ dataDir, slug, own, id, forget: `${cliOf(redis)} DEL ${key}` })
    }
  }
  return problem
}

type Wrong = {
  readonly dataDir: string
  readonly slug: string
  /** The id of the company's directory here; null if it cannot be read. */
  readonly own: string | null
  /** The id that Redis knows instead. */
  readonly id: string
  /** The command that makes Redis forget it. */
  readonly forget: string
}

function describeWrong({ dataDir, slug, own, id, forget }: Wrong): string {
  return id === SHARED
    ? `${dataDir} is not used by the workers of this Redis, because they share the raw log of ${slug} in an object store and LOG_URL is not set here, so this worker takes no jobs of its companies: set LOG_URL as they do, or, if you moved the log back to this disk on purpose, stop those workers and run \`${forget}\` against REDIS_URL.`
    : `${dataDir} is not the volume that the workers of this Redis use (${slug} has ${own === null ? 'no readable id' : `the id ${own}`} here, and the id ${id} there), so this worker takes no jobs of its companies: mount their volume at DATA_DIR, or, if you moved or recreated the data on purpose, run \`${forget}\` against REDIS_URL.`
}

/** Returns the start of a command for redis-cli. On a cluster, it must be led to the node that has the key. */
function cliOf({ isCluster }: Queues['redis']): string {
  return isCluster ? 'redis-cli -c' : 'redis-cli -u "$REDIS_URL"'
}

function keyOf(prefix: string): string {
  return `${prefix}:directories`
}
