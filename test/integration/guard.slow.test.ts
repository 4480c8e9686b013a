import { expect, test } from 'vitest'
import { World } from '#src/sandbox/world.ts'
import { bareNotice, idOf, notices } from '#test/support/notices.ts'
import { companyAt, startCompany } from '#test/support/synced.ts'
import { listDeleted, OTHER_KEY, readTables, startTwo } from '#test/support/two_companies.ts'

test('the key of another company adds nothing with a filtered list either', async () => {
  const { acme, other } = await startTwo(new World(notices(1, 20)), new World(notices(101, 130)))
  await acme.syncHere()
  const before = await readTables(acme)
  const mistaken = companyAt(acme.sandbox, other.world, { ...acme.environment, API_KEY: OTHER_KEY })
  const [{ status }] = (await acme.query('SELECT status FROM editais LIMIT 1')) as [{ status: string }]
  for (const args of [
    ['--status', status],
    ['--id', idOf(101)],
  ]) {
    const report = await mistaken.sync(args, 1)
    expect(report).toMatchObject({ status: 'failed', added: 0, loaded: 0 })
    expect(report.error).toMatch(/another company/)
  }
  expect(await readTables(acme)).toEqual(before)
})

test('checks of missing notices stop after twenty failures in a row, and delete nothing', async () => {
  const company = await startCompany(notices(1, 60), { API_RETRIES: '0', API_CONCURRENCY: '2' })
  await company.syncHere()
  for (let n = 1; n <= 40; n += 1) company.world.remove(idOf(n))
  company.faults.plan = [{ fault: 'status', status: 500, kinds: ['notice'] }]
  company.sandbox.requests.reset()
  const report = await company.syncHere()
  expect(report).toMatchObject({ status: 'partial', listed: 20, tombstoned: 0 })
  expect(report.error).toMatch(/could not be checked/)
  // Twenty, and what the other worker had under way.
  expect(company.sandbox.requests.byKind.notice).toBeGreaterThanOrEqual(20)
  expect(company.sandbox.requests.byKind.notice).toBeLessThanOrEqual(21)
  expect(await listDeleted(company)).toEqual([])
})

test('an empty list is not believed with 20 live notices, unless it is allowed', async () => {
  const company = await startCompany(Array.from({ length: 20 }, (_, index) => bareNotice(index + 1)))
  const { world } = company
  await company.syncHere()
  const before = await readTables(company)
  for (const id of world.ids()) world.remove(id)
  const report = await company.syncHere()
  expect(report).toMatchObject({ status: 'failed', tombstoned: 0, listed: 0, requests: 1 })
  expect(report.error).toMatch(/the list is incomplete/)
  expect(await readTables(company)).toEqual(before)

  expect(await company.syncHere({ allowMassDelete: true })).toMatchObject({ status: 'ok', tombstoned: 20 })
  expect(await listDeleted(company)).toEqual(world.removedIds().sort())
})

test('an empty list is believed with fewer, once each notice answers 404', async () => {
  const company = await startCompany(Array.from({ length: 19 }, (_, index) => bareNotice(index + 1)))
  const { world, faults } = company
  await company.syncHere()
  faults.respond = ({ kind }) =>
    kind === 'list'
      ? { status: 200, body: JSON.stringify({ editais: [], count: 0, total: 0, limit: 200, offset: 0 }) }
      : undefined
  expect(await company.syncHere()).toMatchObject({ listed: 19, unchanged: 19, tombstoned: 0, requests: 20 })
  expect(await listDeleted(company)).toEqual([])

  faults.respond = undefined
  for (const id of world.ids()) world.remove(id)
  expect(await company.syncHere()).toMatchObject({ status: 'ok', listed: 0, tombstoned: 19, requests: 20 })
  expect(await listDeleted(company)).toEqual(world.removedIds().sort())
})

test('of many notices 5 % may be deleted at once, and the checks stop beyond that', async () => {
  const company = await startCompany(
    Array.from({ length: 600 }, (_, index) => bareNotice(index + 1)),
    { ANALYSIS_STATUSES: 'ready' },
  )
  const { world, sandbox } = company
  await company.syncHere()
  for (const id of world.ids().slice(0, 30)) world.remove(id)
  expect(await company.syncHere()).toMatchObject({ status: 'ok', tombstoned: 30 })
  for (const id of world.ids().slice(0, 300)) world.remove(id)
  expect(await company.syncHere()).toMatchObject({ status: 'partial', listed: 270, tombstoned: 0 })
  // 5 % of 570 and one more, plus what was under way with it.
  expect(sandbox.requests.byKind.notice).toBeGreaterThan(28)
  expect(sandbox.requests.byKind.notice).toBeLessThanOrEqual(29 + 8)
  expect(await listDeleted(company)).toHaveLength(30)
})
