import { rm } from 'node:fs/promises'
import { expect, onTestFinished, test } from 'vitest'
import { readSettings } from '#config/settings.ts'
import { lookFirst } from '#jobs/looks.ts'
import type { Company } from '#jobs/queues/company_registry.ts'
import { isLastRunElsewhere, readKnownState, readStanding, shareState } from '#jobs/queues/known_state.ts'
import { openQueues, type Queues } from '#jobs/queues/queue.ts'
import { companyPaths } from '#src/core/company/company.ts'
import { noteFailure } from '#src/core/company/run_report.ts'
import { writeLook } from '#src/core/company/state.ts'
import { createLogger } from '#src/lib/log.ts'
import { anotherHost, LOG, startSharedLog } from '#test/support/hosts.ts'
import { notices } from '#test/support/notices.ts'
import { openRedis } from '#test/support/redis.ts'
import { type SyncedCompany, startCompany } from '#test/support/synced.ts'

const schedule = { runAtLeastEveryMs: 3_600_000 }

/** Of the daemon, a look needs only Redis here. */
function lookingWith(queues: Queues): Parameters<typeof lookFirst>[1] {
  const nothing = async () => {}
  const shared = {
    metrics: { observeLook: nothing, observeAnswers: nothing },
    alerts: { raise: nothing, clear: nothing, deliver: nothing },
    ...{ heartbeat: nothing, queues, log: createLogger('silent', {}) },
  }
  return { shared: shared as never, signal: new AbortController().signal, job: 'look' }
}

/** Two hosts of one company, and the Redis that they share. */
async function startHosts() {
  const { s3, settings } = await startSharedLog()
  const first = await startCompany(notices(1, 3), settings)
  const second = await anotherHost(first)
  const { url, prefix } = await openRedis()
  const queues = openQueues({ url, prefix } as never, createLogger('silent', {}))
  onTestFinished(() => queues.close())
  const host = (company: SyncedCompany) => {
    const { environment } = company
    const of = {
      slug: 'acme',
      paths: companyPaths(environment.DATA_DIR as string, 'acme'),
      settings: readSettings(environment),
    }
    return {
      ...company,
      of,
      paths: of.paths,
      known: async () => (await readKnownState(queues, of)).state,
      isElsewhere: () => isLastRunElsewhere(queues, of),
      share: () => shareState(queues, of),
      look: async () =>
        (await lookFirst({ ...of, environment, schedule } as Company, lookingWith(queues))).isNew,
      async run() {
        const report = await company.sync()
        await shareState(queues, of)
        return (report as { run_id: string }).run_id
      },
    }
  }
  return { s3, one: host(first), other: host(second) }
}

test('each host knows the last run of all, whichever clock the others have', async () => {
  const { one, other } = await startHosts()
  const first = await one.run()
  expect((await other.known())?.last_run.run_id).toBe(first)
  const second = await other.run()
  expect([(await one.known())?.last_run.run_id, await one.isElsewhere(), await other.isElsewhere()]).toEqual([
    second,
    true,
    false,
  ])
  // Sharing late, as after Redis was away, does not hide a later run on another host.
  await one.share()
  expect((await one.known())?.last_run.run_id).toBe(second)
  // A look by a clock that is two days ahead, and then another one by the right clock.
  await writeLook(other.paths, { at: '2099-01-01T00:00:00.000Z', run_id: second })
  await other.share()
  await writeLook(other.paths, { at: '2026-11-20T00:00:00.000Z', run_id: second })
  await other.share()
  expect((await one.known())?.looked_at).toBe('2026-11-20T00:00:00.000Z')
})

test('after a bucket was restored from a backup, the next run counts, although the log had more before', async () => {
  const { s3, one, other } = await startHosts()
  await one.run()
  const backup = new Map([...s3.objects].filter(([key]) => key.startsWith(LOG)))
  for (let run = 0; run < 3; run += 1) await one.run()
  const before = (await one.known())?.last_run.run_id
  s3.objects.clear()
  for (const [key, stored] of backup) s3.objects.set(key, stored)
  for (const { paths } of [one, other]) await rm(paths.root, { recursive: true, force: true })
  // Until then, nothing newer is known.
  expect((await other.known())?.last_run.run_id).toBe(before)
  const after = await other.run()
  expect([(await one.known())?.last_run.run_id, (await other.known())?.last_run.run_id]).toEqual([
    after,
    after,
  ])
  expect([await one.isElsewhere(), await other.isElsewhere()]).toEqual([true, false])
})

test('a disk with a future that the store has lost does not replace what others know', async () => {
  const { s3, one, other } = await startHosts()
  await one.run()
  const backup = new Map([...s3.objects].filter(([key]) => key.startsWith(LOG)))
  for (let run = 0; run < 3; run += 1) await one.run()
  expect(await one.look()).toBe(false)
  s3.objects.clear()
  for (const [key, stored] of backup) s3.objects.set(key, stored)
  const after = await other.run()
  // It would find nothing new, and count as a good run.
  expect(await one.look()).toBe(true)
  // A run there fails, and shares how.
  await noteFailure(one.paths, 'the log differs', new Date())
  await one.share()
  expect((await other.known())?.last_run.run_id).toBe(after)
  expect(await other.isElsewhere()).toBe(false)
  expect(await readStanding(one.of, 1)).toBe('other')
  expect(await readStanding(other.of, 1)).toBe('later')
})
