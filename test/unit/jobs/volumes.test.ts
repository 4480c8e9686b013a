import { expect, test } from 'vitest'
import type { Company } from '#jobs/queues/company_registry.ts'
import { checkVolumes } from '#jobs/queues/directory.ts'
import type { Queues } from '#jobs/queues/queue.ts'
import { companyPaths } from '#src/core/company/company.ts'

/** Redis that knows another directory of each company. */
function knowing(isCluster: boolean): Pick<Queues, 'redis' | 'prefix'> {
  const redis = { isCluster, hmget: async (_: string, ...slugs: string[]) => slugs.map(() => 'another') }
  return { redis: redis as unknown as Queues['redis'], prefix: 'p' }
}

function company(slug: string, remoteLog: object | null): Company {
  const paths = companyPaths('/nowhere', slug)
  return { slug, paths, settings: { dataDir: '/nowhere', remoteLog } } as unknown as Company
}

test('a wrong volume is found beside a company whose log is shared, which this worker can go on to sync', async () => {
  const mixed = [company('shared', {}), company('alone', null)]
  const { problems, areAllWrong } = await checkVolumes(knowing(false), mixed)
  expect(problems).toEqual([
    expect.stringContaining('/nowhere is not the volume that the workers of this Redis use (alone '),
  ])
  expect(areAllWrong).toBe(false)
  expect((await checkVolumes(knowing(false), [company('alone', null)])).areAllWrong).toBe(true)
  expect(await checkVolumes(knowing(false), [company('shared', {})])).toEqual({
    problems: [],
    areAllWrong: false,
  })
})

test('the command that makes Redis forget a directory finds the node of a cluster', async () => {
  const [problem] = (await checkVolumes(knowing(true), [company('alone', null)])).problems
  expect(problem).toContain('run `redis-cli -c DEL p:directories`')
})
