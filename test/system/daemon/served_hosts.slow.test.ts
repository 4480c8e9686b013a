import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { readSettings } from '#config/settings.ts'
import { shareState } from '#jobs/queues/known_state.ts'
import { openQueues, type Queues } from '#jobs/queues/queue.ts'
import { companyPaths } from '#src/core/company/company.ts'
import { createLogger } from '#src/lib/log.ts'
import { DAEMON_TEST, startDaemon, until } from '#test/support/daemon.ts'
import { NO_LOOKS, nextRun, runsOf, startAcme } from '#test/support/daemon_runs.ts'
import { anotherHost, startSharedLog } from '#test/support/hosts.ts'
import { notices } from '#test/support/notices.ts'
import type { Environment } from '#test/support/project.ts'
import { readMetrics } from '#test/support/prometheus.ts'
import { runShared } from '#test/support/shared.ts'
import { writeCredentials } from '#tools/s3_server.ts'

vi.setConfig(DAEMON_TEST)

function queuesOf({ REDIS_URL: url, REDIS_PREFIX: prefix }: Environment): Queues {
  const queues = openQueues({ url, prefix } as never, createLogger('silent', {}))
  onTestFinished(() => queues.close())
  return queues
}

test('a host that serves a company catches up with a run of another host, and refuses what is too old if it cannot', async () => {
  const { s3, settings } = await startSharedLog()
  const { company, environment } = await startAcme(notices(1, 10), { ...settings, SERVE_MAX_BEHIND: '2s' })
  const here = await startDaemon(environment)
  await nextRun(here, 'acme', 0)
  const key = (await runShared(['keys', 'create', '--description', 'ERP'], environment)).stdout.trim()
  const [id = ''] = company.world.ids()
  const ask = async () => {
    const answer = await here.ask(`/api/v1/editais/${id}`, { headers: { authorization: `Bearer ${key}` } })
    return { status: answer.status, body: (await answer.json()) as { objeto?: string; detail?: string } }
  }
  await until(async () => (await ask()).status === 200, { what: 'the first answer' })

  const otherKey = join(environment.DATA_DIR as string, 'other-key')
  await writeCredentials(otherKey, 'other')
  const other = await anotherHost({
    ...company,
    environment: { ...environment, S3_CREDENTIALS_FILE: otherKey },
  })
  const queues = queuesOf(environment)
  const runElsewhere = async (objeto: string) => {
    company.world.update(id, { edital: { objeto } })
    await other.sync()
    const { environment: there } = other
    const paths = companyPaths(there.DATA_DIR as string, 'acme')
    await shareState(queues, { slug: 'acme', paths, settings: readSettings(there) })
    return company.sandbox.requests.total
  }
  const requests = await runElsewhere('Outro objeto')
  await until(async () => (await ask()).body.objeto === 'Outro objeto', {
    what: 'what the other host loaded',
  })
  expect(company.sandbox.requests.total).toBe(requests)
  expect(runsOf(here)).toHaveLength(1)

  const behind = async () =>
    (await readMetrics(await (await here.ask('/metrics')).text())).get('editais_served_behind_seconds')
      ?.values['company=acme']
  await until(async () => (await behind()) === 0, { what: 'a host in step' })
  // For this host alone.
  s3.fault = ({ keyId }) => (keyId === 'other' ? null : 403)
  await runElsewhere('Terceiro objeto')
  const refused = await until(async () => ((await ask()).status === 503 ? await ask() : null), {
    what: 'a refusal',
  })
  expect(refused.body.detail).toMatch(/^What this host has of the company is older than it should be/)
  expect(await behind()).toBeGreaterThan(2)
  const ready = await here.ask('/readyz')
  expect([ready.status, await ready.json()]).toEqual([
    503,
    expect.objectContaining({
      checks: expect.objectContaining({ served: expect.objectContaining({ ok: false }) }),
    }),
  ])
  const alert = () => here.lines.find(({ msg }) => msg.includes('A host refuses to serve the company'))
  await until(async () => alert() !== undefined, { what: 'an alert' })

  s3.fault = () => null
  await until(async () => (await ask()).body.objeto === 'Terceiro objeto', { what: 'the newest state' })
  await until(async () => (await behind()) === 0, { what: 'a host in step' })
  // A store that was not well is asked again after ten seconds.
  await until(async () => (await here.ask('/readyz')).status === 200, {
    what: 'a ready host',
    withinMs: 20_000,
  })
  expect(await here.stop()).toBe(0)
})

test('a company that is pinned runs on no other host, and a job that its host does not take is named', async () => {
  const { settings } = await startSharedLog()
  const { company, environment } = await startAcme(notices(1, 5), {
    ...settings,
    ...NO_LOOKS,
    SYNC_CRON: '*/3 * * * * *',
    HOSTS: 'Sync-B',
  })
  const first = await startDaemon({ ...environment, WORKER_HOST: 'sync-a' })
  const there = await anotherHost({ ...company, environment })
  const second = await startDaemon({ ...there.environment, WORKER_HOST: 'sync-b' })
  for (let after = 0; after < 3; after += 1)
    expect(await nextRun(second, 'acme', after)).toMatchObject({ status: 'ok', listed: 5 })
  expect(runsOf(first)).toEqual([])
  expect(await second.stop()).toBe(0)
  // As if it had been passed on for ten minutes.
  const { runs } = queuesOf(environment)
  await runs.add('sync', { company: 'acme', passes: 110 })
  await first.waitFor(({ msg }) => msg.startsWith('No worker of sync-b took the job'))
  expect(runsOf(first)).toEqual([])
  expect(await first.stop()).toBe(0)
})
