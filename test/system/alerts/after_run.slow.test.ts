import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { alertAfterRun } from '#jobs/alerts/alerts.ts'
import { type CompanyState, readState } from '#src/core/company/state.ts'
import { type Alerter, configured, startAlerter } from '#test/support/alerting.ts'
import { syncHere } from '#test/support/here.ts'
import { idOf, notices } from '#test/support/notices.ts'
import { companyDirectory, type Environment } from '#test/support/project.ts'
import { openRedis } from '#test/support/redis.ts'
import { startRemote } from '#test/support/remote_lake.ts'
import { type SyncedCompany, startCompany } from '#test/support/synced.ts'
import { received, startWebhook, type Webhook } from '#test/support/webhook.ts'

const OTHER_KEY = 'edk_test_other_7b21'

type Watched = SyncedCompany & {
  readonly alerts: Alerter
  readonly webhook: Webhook
  /** Runs, evaluates the run, and returns the alerts that were sent. */
  run(request?: Parameters<SyncedCompany['syncHere']>[0], settings?: Environment): Promise<string[]>
}

async function watch(company: SyncedCompany): Promise<Watched> {
  const webhook = await startWebhook()
  const redis = await openRedis()
  const alerts = startAlerter({ redis, webhookUrl: webhook.url, now: () => new Date() })
  return {
    ...company,
    alerts,
    webhook,
    async run(request, settings = {}) {
      webhook.messages.length = 0
      await syncHere({ ...company.environment, ...settings }, request)
      const known = configured(company.environment)
      await alertAfterRun(alerts, known, (await readState(known.paths)) as CompanyState)
      await alerts.deliver()
      return received(webhook)
    },
  }
}

test('a refused key stays alerted until a run reads the list with the key', async () => {
  const { run, faults, webhook } = await watch(await startCompany(notices(1, 3)))
  expect(await run()).toEqual([])
  const wrong = { API_KEY: OTHER_KEY }
  expect(await run({}, wrong)).toEqual(['key_refused raised'])
  expect(webhook.messages[0]?.text).toMatch(/^\[editais-sync\] acme: .*\(401\).*Create a new key/)
  expect(await run({}, wrong)).toEqual([])
  // The API is down or rejects the request: this does not show whether the key is valid.
  for (const status of [500, 400]) {
    faults.plan = [{ fault: 'status', status }]
    expect(await run()).toEqual([])
  }
  faults.plan = []
  expect(await run({}, wrong)).toEqual([])
  expect(await run()).toEqual(['key_refused recovered'])
  expect(await run()).toEqual([])
})

test('a key that is refused in the middle of a run raises an alert', async () => {
  const { run, faults } = await watch(await startCompany(notices(1, 3)))
  faults.plan = [{ fault: 'status', status: 401, kinds: ['analysis'] }]
  expect(await run()).toEqual(['key_refused raised'])
  expect(await run()).toEqual([])
  faults.plan = [{ fault: 'status', status: 500, kinds: ['analysis'] }]
  expect(await run()).toEqual(['key_refused recovered'])
})

test('the key of another company raises an alert, though the API accepts it', async () => {
  const { run, faults, world } = await watch(await startCompany(notices(1, 25)))
  await run()
  faults.plan = [{ fault: 'status', status: 401 }]
  expect(await run()).toEqual(['key_refused raised'])
  faults.plan = []
  const ids = world.ids()
  for (const id of ids) world.remove(id)
  expect((await run()).sort()).toEqual(['identity_guard raised', 'key_refused recovered'])
  expect(await run()).toEqual([])
  faults.plan = [{ fault: 'status', status: 500 }]
  expect(await run()).toEqual([])
  faults.plan = []
  for (const entry of notices(1, 25)) world.put(entry)
  expect(await run()).toEqual(['identity_guard recovered'])
})

test('a blocked mass deletion stays alerted until the notices return or the deletion is allowed', async () => {
  const { run, faults, world, webhook } = await watch(
    await startCompany(notices(1, 60), { API_RETRIES: '0' }),
  )
  await run()
  for (let n = 1; n <= 30; n += 1) world.remove(idOf(n))
  expect(await run()).toEqual(['identity_guard raised'])
  expect(webhook.messages[0]?.message).toContain('editais sync --company acme --allow-mass-delete')
  expect(await run()).toEqual([])
  // The list is complete, but the missing notices cannot be checked.
  faults.plan = [{ fault: 'status', status: 500, kinds: ['notice'] }]
  expect(await run()).toEqual([])
  faults.plan = []
  // A filtered run does not check them.
  expect(await run({ ids: [idOf(40)] })).toEqual([])
  expect(await run({ statuses: ['analysis'] })).toEqual([])
  expect(await run()).toEqual([])
  expect(await run({ allowMassDelete: true })).toEqual(['identity_guard recovered'])
  expect(await run()).toEqual([])
})

test('a growing quarantine alerts once, until it is back at its baseline', async () => {
  const { run, faults, webhook } = await watch(await startCompany(notices(1, 6)))
  const broken = (...numbers: number[]) => {
    faults.plan = [{ fault: 'truncate', kinds: ['analysis'], ids: numbers.map(idOf) }]
  }
  broken(1)
  expect(await run()).toEqual(['quarantine_growing raised'])
  expect(webhook.messages[0]?.details).toEqual({ open: 1, baseline: 0 })
  broken()
  expect(await run({ ids: [idOf(1)] })).toEqual(['quarantine_growing recovered'])
  broken(1, 2)
  expect(await run({ ids: [idOf(1), idOf(2)] })).toEqual(['quarantine_growing raised'])
  // One of the two is repaired, another breaks, nothing is sent: it stays above the baseline.
  broken(2)
  expect(await run({ ids: [idOf(1), idOf(2)] })).toEqual([])
  broken(2, 3)
  expect(await run({ ids: [idOf(3)] })).toEqual([])
  expect(await run()).toEqual([])
  broken()
  expect(await run({ ids: [idOf(2)] })).toEqual([])
  expect(await run({ ids: [idOf(3)] })).toEqual(['quarantine_growing recovered'])
})

test('an object store that stays behind raises an alert, until it has the latest snapshot', async () => {
  const remote = await startRemote()
  const { run, webhook } = await watch(remote)
  remote.s3.fault = () => 403
  expect(await run()).toEqual([])
  expect(await run()).toEqual([])
  const path = join(companyDirectory(remote.environment), 'remote.json')
  const state = JSON.parse(await readFile(path, 'utf8')) as { behind_since: string }
  const earlier = new Date(Date.parse(state.behind_since) - 11 * 60_000).toISOString()
  await writeFile(path, JSON.stringify({ ...state, behind_since: earlier }))
  expect(await run()).toEqual(['store_behind raised'])
  expect(webhook.messages[0]?.text).toMatch(
    new RegExp(
      `acme: The object store has not had the latest snapshot since ${earlier}\\. The last attempt: .* Check the keys.* Each tick`,
    ),
  )
  remote.s3.fault = () => null
  expect(await run()).toEqual(['store_behind recovered'])
})

test('a run that ends before it reads the list leaves the quarantine alert unchanged', async () => {
  const { run, faults } = await watch(await startCompany(notices(1, 3)))
  faults.plan = [{ fault: 'truncate', kinds: ['analysis'], ids: [idOf(1)] }]
  expect(await run()).toEqual(['quarantine_growing raised'])
  faults.plan = [{ fault: 'status', status: 500 }]
  expect(await run()).toEqual([])
})
