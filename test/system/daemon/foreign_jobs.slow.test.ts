import { Redis } from 'ioredis'
import { expect, onTestFinished, test, vi } from 'vitest'
import { openQueues } from '#jobs/queues/queue.ts'
import { createLogger } from '#src/lib/log.ts'
import { DAEMON_TEST, until } from '#test/support/daemon.ts'
import { failedJobs, nextRun, requestSync, startIdle } from '#test/support/daemon_runs.ts'
import { notices } from '#test/support/notices.ts'

vi.setConfig(DAEMON_TEST)

/** As another program, an older version, or two wrong clocks may leave them in Redis. */
const FOREIGN: readonly [name: string, data: unknown][] = [
  ['sync', {}],
  ['sync', null],
  ['sync', 'acme'],
  ['sync', { company: 7 }],
  ['sync', { company: 'acme', refusals: 'many' }],
  ['publish', [{ company: 'acme' }]],
  ['vacuum', { company: 'acme' }],
]

test('jobs that this program did not add are refused by name, in both queues, and hold up nothing', async () => {
  const { environment, worker } = await startIdle(notices(1, 12))
  const { REDIS_URL: url = '', REDIS_PREFIX: prefix = '' } = environment
  const queues = openQueues({ url, prefix }, createLogger('silent', {}))
  onTestFinished(() => queues.close())
  const ids: string[] = []
  for (const queue of [queues.runs, queues.ticks])
    for (const [name, data] of FOREIGN) ids.push(`${(await queue.add(name, data as never)).id} ${queue.name}`)
  // What is left of a job whose hash is gone: the worker gets a job without a name, data or options.
  const redis = new Redis(url)
  onTestFinished(() => redis.disconnect())
  const lost = await queues.ticks.add('sync', { company: 'acme' }, { delay: 1000 })
  await redis.del(queues.ticks.toKey(lost.id as string))
  ids.push(`${lost.id} ticks`)
  // Someone changed it by hand.
  const changed = await queues.runs.add('sync', { company: 'acme' }, { delay: 500 })
  await redis.hset(queues.runs.toKey(changed.id as string), 'data', 'no json')

  const refused = () => worker.lines.filter(({ msg }) => / was refused: it /.test(msg)).map(({ msg }) => msg)
  await until(() => refused().length === ids.length, { what: 'the refusals' })
  const named = refused().map(msg =>
    /^The job (\S+) in the queue (\S+) was refused/.exec(msg)?.slice(1).join(' '),
  )
  expect(named.sort()).toEqual(ids.sort())
  expect(refused().join('\n')).toContain('it names no company in its data ({"company":7})')
  expect(refused().join('\n')).toContain(
    'it is called vacuum, which is not one of sync, publish, maintain, mail',
  )
  await worker.waitFor(({ msg }) => /^A job in Redis is not JSON, so no worker can do it/.test(msg))
  expect(worker.lines.filter(({ msg }) => /undefined|bug|Unexpected/.test(msg))).toEqual([])
  expect((await failedJobs(worker)).filter(reason => / was refused: it /.test(reason))).toHaveLength(
    FOREIGN.length,
  )

  await requestSync(worker, 'acme')
  expect(await nextRun(worker, 'acme')).toMatchObject({ status: 'ok' })
  expect(await worker.stop()).toBe(0)
})
