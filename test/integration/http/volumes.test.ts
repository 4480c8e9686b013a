import { join } from 'node:path'
import { expect, test } from 'vitest'
import { makeDirectories } from '#src/core/company/company.ts'
import { ensureDirectoryId } from '#src/core/company/data_directory.ts'
import { serveWorker, type Worker } from '#test/support/http.ts'
import { temporaryDirectory } from '#test/support/project.ts'

async function detailOf({ url }: Worker): Promise<string | undefined> {
  const response = await fetch(`${url}/readyz`)
  const { ready, checks } = (await response.json()) as {
    ready: boolean
    checks: { directories: { detail?: string } }
  }
  const { detail } = checks.directories
  expect([ready, response.status]).toEqual(detail === undefined ? [true, 200] : [false, 503])
  return detail
}

/** Two companies with directories on the volume, and how to tell Redis what it should know of them. */
async function startMounted(dataDir: string, settings = {}) {
  const worker = await serveWorker({ dataDir, settings })
  const { queues } = worker
  const ids: Record<string, string> = {}
  for (const slug of ['acme', 'beta']) {
    const { paths } = worker.company(slug)
    await makeDirectories(paths)
    ids[slug] = await ensureDirectoryId(paths.id)
  }
  const record = async (known: Record<string, string>) => {
    await queues.redis.del(`${queues.prefix}:directories`)
    await queues.redis.hset(`${queues.prefix}:directories`, known)
  }
  return { worker, ids, record }
}

test('a worker is not ready with a volume on which no company has the directory that Redis knows', async () => {
  const dataDir = join(await temporaryDirectory(), 'data')
  const { worker, ids, record } = await startMounted(dataDir)
  expect(await detailOf(worker)).toBeUndefined()
  await record({ acme: `${ids.acme}`, beta: `${ids.beta}` })
  expect(await detailOf(worker)).toBeUndefined()
  // One company was moved: only its own jobs are refused.
  await record({ acme: 'elsewhere', beta: `${ids.beta}` })
  expect(await detailOf(worker)).toBeUndefined()
  // Another worker mirrors it on the right volume, and this one has only a new company besides.
  await record({ acme: 'elsewhere' })
  expect(await detailOf(worker)).toBe(
    `${dataDir} is not the volume that the workers of this Redis use (acme has the id ${ids.acme} here, and the id elsewhere there), so this worker takes no jobs of its companies: mount their volume at DATA_DIR, or, if you moved or recreated the data on purpose, run \`redis-cli -u "$REDIS_URL" DEL ${worker.queues.prefix}:directories\` against REDIS_URL.`,
  )
  await record({ gone: 'elsewhere' })
  expect(await detailOf(worker)).toBeUndefined()
})

test('without LOG_URL, a worker is not ready if the others share the log; with it, any directory will do', async () => {
  const dataDir = join(await temporaryDirectory(), 'data')
  const alone = await startMounted(dataDir)
  await alone.record({ acme: 'shared', beta: 'shared' })
  expect(await detailOf(alone.worker)).toMatch(
    new RegExp(`^${dataDir} is not used .* share the raw log of acme .* LOG_URL is not set here, .*\\.$`),
  )
  const sharing = await startMounted(dataDir, { LOG_URL: 's3://bucket/log' })
  await sharing.record({ acme: 'shared', beta: 'elsewhere' })
  expect(await detailOf(sharing.worker)).toBeUndefined()
})
