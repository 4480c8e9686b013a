import { expect, test } from 'vitest'
import { syncHere } from '#test/support/here.ts'
import { idOf, notices } from '#test/support/notices.ts'
import { runShared } from '#test/support/shared.ts'
import { startCompany } from '#test/support/synced.ts'
import { queryWarehouse } from '#test/support/tables.ts'
import { asked, expectTruth, snapshots } from '#test/support/truth.ts'

const NOON = new Date('2026-11-20T12:00:00Z')

test('an analysis is pending until it is fetched, and quarantined until its notice changes', async () => {
  const company = await startCompany(notices(1, 6))
  const [failing, broken, fine] = [1, 2, 3].map(idOf) as [string, string, string]
  company.faults.plan = [
    { fault: 'status', status: 500, kinds: ['analysis'], ids: [failing] },
    { fault: 'truncate', kinds: ['analysis'], ids: [broken] },
  ]
  const states = () =>
    company.query(
      `SELECT edital_id, analysis_state AS state FROM editais WHERE edital_id <= '${fine}' ORDER BY ALL`,
    )
  expect(await company.syncHere()).toMatchObject({ loaded: 4, failed: 1, quarantined: 1, status: 'partial' })
  expect(await states()).toEqual([
    { edital_id: failing, state: 'pending' },
    { edital_id: broken, state: 'quarantined' },
    { edital_id: fine, state: 'current' },
  ])

  company.faults.plan = []
  company.world.update(fine, { edital: { status: 'pricing' }, updatedAt: NOON })
  company.faults.respond = ({ kind, id }) =>
    kind === 'analysis' && id === fine ? { status: 200, body: '{"id":1}' } : undefined
  expect(await company.syncHere()).toMatchObject({ loaded: 1, deferred: 1, quarantined: 1, changed: 1 })
  expect(asked(company, 'analysis')).toEqual([failing, fine])
  expect(await states()).toEqual([
    { edital_id: failing, state: 'current' },
    { edital_id: broken, state: 'quarantined' },
    { edital_id: fine, state: 'quarantined' },
  ])
  // The previous good version stays.
  expect(await company.query(`SELECT count(*) AS n FROM items WHERE edital_id = '${fine}'`)).toEqual([
    { n: 3 },
  ])

  company.faults.respond = undefined
  company.world.update(broken, { updatedAt: NOON })
  // Dated back, and not fetched at once: it must not count as older than what is stored.
  company.world.update(failing, { updatedAt: new Date('2020-01-01T00:00:00Z') })
  company.faults.plan = [{ fault: 'status', status: 500, kinds: ['analysis'], ids: [failing] }]
  expect(await company.syncHere()).toMatchObject({ loaded: 1, deferred: 1, failed: 1, changed: 2 })
  expect(asked(company, 'analysis')).toEqual([failing, failing, failing, broken])
  company.faults.plan = []
  expect(await company.syncHere()).toMatchObject({ loaded: 1, deferred: 1, unchanged: 4, changed: 0 })
  expect(asked(company, 'analysis')).toEqual([failing])
  expect(await company.syncHere({ ids: [fine] })).toMatchObject({ listed: 1, loaded: 1 })
  expect(await states()).toEqual([failing, broken, fine].map(edital_id => ({ edital_id, state: 'current' })))
  expect(await company.query('SELECT edital_id FROM quarantine WHERE resolved_at IS NULL')).toEqual([])
  await expectTruth(company)
})

test('a change under the same updated_at is found by the age of the analysis; an equal one only gets a new date', async () => {
  const company = await startCompany(notices(1, 10), { ANALYSIS_MAX_AGE: '1m,1m' })
  await company.syncHere()
  const syncIn = async (minutes: number) => {
    const at = new Date(Date.now() + minutes * 60_000)
    return (await syncHere(company.environment, {}, { now: () => at })).report
  }
  const analyses = () =>
    queryWarehouse<{ fetched_at: Date }>(company.environment, 'FROM analyses ORDER BY edital_id')
  const before = await analyses()
  const months = await queryWarehouse(company.environment, 'FROM month_versions ORDER BY ALL')
  expect(await syncIn(1)).toMatchObject({ loaded: 10, changed: 0, unchanged: 0, silent_changes: 0 })
  const after = await analyses()
  const undated = (row: object) => ({ ...row, fetched_at: null, _segment: null, run_id: null })
  expect(after.map(undated)).toEqual(before.map(undated))
  after.forEach((row, index) => {
    expect(row.fetched_at.getTime()).toBeGreaterThanOrEqual(
      (before[index]?.fetched_at.getTime() ?? 0) + 60_000,
    )
  })
  expect(await snapshots(company.environment)).toHaveLength(1)
  expect(months).not.toEqual(await queryWarehouse(company.environment, 'FROM month_versions ORDER BY ALL'))

  company.world.update(idOf(4), { analysis: { alerts: [] } })
  expect(await syncIn(2)).toMatchObject({ loaded: 10, changed: 0, silent_changes: 1 })
  expect(
    await company.query(
      'SELECT edital_id, count(*) AS n FROM analysis_versions GROUP BY ALL HAVING count(*) > 1',
    ),
  ).toEqual([{ edital_id: idOf(4), n: 2 }])
  expect(await snapshots(company.environment)).toHaveLength(2)
  await expectTruth(company)
})

test('a filtered run concludes nothing about notices that it did not list', async () => {
  const company = await startCompany(notices(1, 12))
  const { world } = company
  const [removed, changed, ready, unknown] = [1, 2, 3, 99].map(idOf) as [string, string, string, string]
  world.update(ready, { edital: { status: 'ready' } })
  await company.syncHere()
  world.remove(removed)
  world.update(changed, { edital: { objeto: 'Outro objeto' }, updatedAt: NOON })
  world.update(ready, { edital: { objeto: 'Pronto' }, updatedAt: NOON })

  const planned = await runShared(['sync', '--plan', '--id', unknown], company.environment)
  expect(planned.code).toBe(3)
  expect(planned.stdout).toContain(`attention The API has no notice ${unknown} for this company. Check --id;`)

  const byStatus = await company.sync(['--status', 'ready,expired'])
  expect(byStatus).toMatchObject({ mode: 'filtered', listed: 1, changed: 1, loaded: 1, tombstoned: 0 })
  expect(company.sandbox.requests.byKind).toMatchObject({ list: 1, notice: 0, analysis: 1 })
  const byId = await company.sync(['--id', ready, '--id', unknown, '--id', removed], 3)
  expect(byId).toMatchObject({ mode: 'filtered', listed: 3, changed: 0, loaded: 1, gone: 2, tombstoned: 0 })
  expect(byId).toMatchObject({
    status: 'partial',
    error: expect.stringContaining(
      `The API has no notice ${unknown}, ${removed} for this company. Check --id;`,
    ),
  })
  expect(asked(company, 'analysis')).toEqual([ready])
  expect(company.sandbox.requests.byKind).toMatchObject({ list: 0, notice: 3, analysis: 1 })
  expect(
    await company.query(
      `SELECT edital_id, objeto, deleted_at FROM editais WHERE edital_id <= '${ready}' ORDER BY ALL`,
    ),
  ).toEqual([
    { edital_id: removed, objeto: 'Objeto 1', deleted_at: null },
    { edital_id: changed, objeto: 'Objeto 2', deleted_at: null },
    { edital_id: ready, objeto: 'Pronto', deleted_at: null },
  ])
  expect(await company.syncHere()).toMatchObject({
    mode: 'incremental',
    tombstoned: 1,
    changed: 1,
    loaded: 1,
  })
  await expectTruth(company)
})
