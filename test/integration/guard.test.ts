import { expect, test } from 'vitest'
import { startCompanies } from '#test/support/companies.ts'
import { syncHere } from '#test/support/here.ts'
import { idOf, noticeEntry, notices } from '#test/support/notices.ts'
import { type SyncedCompany, startSynced } from '#test/support/synced.ts'
import { dataTables, warehouseTables } from '#test/support/tables.ts'
import { snapshots } from '#test/support/truth.ts'

const NOON = new Date('2026-11-20T12:00:00Z')

async function listDeleted(company: SyncedCompany): Promise<unknown[]> {
  const rows = await company.query(
    'SELECT edital_id AS id FROM editais WHERE deleted_at IS NOT NULL ORDER BY ALL',
  )
  return rows.map(({ id }) => id)
}

test('an empty list is not believed with 20 live notices, unless it is allowed', async () => {
  const company = await startSynced(notices(1, 20))
  const { world } = company
  const before = dataTables(await warehouseTables(company.environment))
  for (const id of world.ids()) world.remove(id)
  const report = await company.syncHere()
  expect(report).toMatchObject({ status: 'failed', tombstoned: 0, listed: 0, requests: 1 })
  expect(report.error).toMatch(/the list is incomplete/)
  expect(dataTables(await warehouseTables(company.environment))).toEqual(before)

  expect(await company.syncHere({ allowMassDelete: true })).toMatchObject({ status: 'ok', tombstoned: 20 })
  expect(await listDeleted(company)).toEqual(world.removedIds().sort())
})

test('too many deletions are not applied, while the rest loads', async () => {
  const company = await startSynced(notices(1, 45))
  const { world } = company
  for (const id of world.ids().slice(0, 21)) world.remove(id)
  const [kept] = world.ids() as [string]
  world.update(kept, { edital: { objeto: 'Mudou' }, updatedAt: NOON })
  world.put(noticeEntry(46))

  const report = await company.syncHere()
  expect(report).toMatchObject({
    status: 'partial',
    listed: 25,
    added: 1,
    changed: 1,
    loaded: 2,
    tombstoned: 0,
  })
  expect(report.error).toMatch(/key of this company.*--allow-mass-delete/)
  expect(await listDeleted(company)).toEqual([])
  expect(
    await company.query(
      `SELECT edital_id, objeto, analysis_state FROM editais WHERE edital_id IN ('${kept}', '${idOf(46)}') ORDER BY ALL`,
    ),
  ).toEqual([
    { edital_id: kept, objeto: 'Mudou', analysis_state: 'current' },
    { edital_id: idOf(46), objeto: 'Objeto 46', analysis_state: 'current' },
  ])

  expect(await company.syncHere({ allowMassDelete: true })).toMatchObject({ tombstoned: 21 })
  expect(await listDeleted(company)).toEqual(world.removedIds().sort())
})

const REQUESTS = [{}, { full: true }, { statuses: ['analysis'] }, { ids: [idOf(1), idOf(2)] }]

test('the key of a company with the same ids changes nothing, whatever the request', async () => {
  const companies = await startCompanies(['acme', 'boreal'], slug =>
    notices(1, 20, slug === 'acme' ? {} : { created_at: '2026-09-01T00:00:00Z' }),
  )
  const { environment } = companies.company('acme')
  await syncHere(environment)
  const before = dataTables(await warehouseTables(environment))
  const written = await snapshots(environment)
  const swapped = { ...environment, API_KEY: companies.keyOf('boreal') }
  for (const request of REQUESTS) {
    const { report } = await syncHere(swapped, request)
    expect(report, JSON.stringify(request)).toMatchObject({ status: 'failed', loaded: 0 })
    expect(report.error).toMatch(/another company.*API_KEY/)
  }
  expect(await snapshots(environment)).toEqual(written)
  expect(dataTables(await warehouseTables(environment))).toEqual(before)
})
