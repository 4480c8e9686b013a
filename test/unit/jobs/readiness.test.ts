import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { expect, it, test } from 'vitest'
import { type Company, checkVolumes } from '#jobs/queues/company_registry.ts'
import type { Queues } from '#jobs/queues/queue.ts'
import { companyPaths } from '#src/core/company/company.ts'
import { smallestRights } from '#test/support/redis_rights.ts'

type Script = { readonly name: string; readonly content: string }

/** What BullMQ and we send outside scripts. */
const OUTSIDE = ['eval', 'evalsha', 'multi', 'exec', 'select', 'bzpopmin', 'hsetnx', 'info']
const COMMAND = /(?:rcall|redis\.p?call)\(\s*['"]([A-Za-z]+)/g

const scripts = Object.values(createRequire(import.meta.url)('bullmq/dist/cjs/scripts')) as Script[]
const granted = smallestRights('p').flatMap(right => /^\+(\w+)$/.exec(right)?.[1] ?? [])
const probe = readFileSync(join(import.meta.dirname, '../../../jobs/queues/redis_problem.ts'), 'utf8')

/** Relays, a part of BullMQ that the worker does not use, need more. */
function usedByScripts(): Set<string> {
  const used = scripts.filter(({ name }) => !name.startsWith('relay'))
  return new Set(
    used.flatMap(({ content }) => [...content.matchAll(COMMAND)].map(([, one = '']) => one.toLowerCase())),
  )
}

it('the documented rights are what BullMQ and the worker use, and no more', () => {
  const used = [...usedByScripts(), ...OUTSIDE]
  expect(used.length).toBeGreaterThan(50)
  expect(granted.toSorted()).toEqual([...new Set(used)].sort())
  expect(smallestRights('p').filter(right => right.startsWith('~'))).toEqual(['~p:*'])
  expect(smallestRights('{p}')).toEqual(expect.arrayContaining(['~{p}:*', '+cluster|slots', '+readonly']))
})

it('each of them is probed, so that a missing one shows before a job fails on it', () => {
  const probed = new Set([...probe.matchAll(/\{'([A-Z]+)'/g)].map(([, name = '']) => name.toLowerCase()))
  const elsewhere = [...OUTSIDE, 'del']
  expect(granted.filter(name => !probed.has(name) && !elsewhere.includes(name))).toEqual([])
})

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
