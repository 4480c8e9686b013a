import { expect, test } from 'vitest'
import { World } from '#src/sandbox/world.ts'
import { startCompanies } from '#test/support/companies.ts'
import { syncHere } from '#test/support/here.ts'
import { idOf, noticeEntry, notices } from '#test/support/notices.ts'
import { startSynced } from '#test/support/synced.ts'
import { dataTables, warehouseTables } from '#test/support/tables.ts'
import { snapshots } from '#test/support/truth.ts'
import { listDeleted, startTwo } from '#test/support/two_companies.ts'

const NOON = new Date('2026-11-20T12:00:00Z')

test('companies whose notices have the same ids do not affect each other', async () => {
  const theirs = notices(1, 20, { objeto: 'Da outra', created_at: '2026-09-01T00:00:00Z' })
  const { acme, other } = await startTwo(new World(notices(1, 20)), new World(theirs))
  await acme.syncHere()
  const before = await warehouseTables(acme.environment)
  expect(await other.syncHere()).toMatchObject({ added: 20, loaded: 20 })
  expect(await warehouseTables(acme.environment)).toEqual(before)
  const about = `SELECT company, count(*) AS n, count(DISTINCT objeto) AS objects,
    (SELECT count(*) FROM items WHERE company = any_value(e.company)) AS items FROM editais e GROUP BY ALL`
  expect(await acme.query(about)).toEqual([{ company: 'acme', n: 20, objects: 20, items: 60 }])
  expect(await other.query(about)).toEqual([{ company: 'other', n: 20, objects: 1, items: 60 }])
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

test.each([
  [
    'ids of their own',
    () => notices(101, 120),
    [{}, { statuses: ['analysis'] }, { statuses: ['ready'] }, { ids: [idOf(1)] }],
  ],
  [
    'the same ids',
    () => notices(1, 20, { created_at: '2026-09-01T00:00:00Z' }),
    [{}, { full: true }, { statuses: ['analysis'] }, { ids: [idOf(1), idOf(2)] }],
  ],
])('the key of a company with %s changes nothing, whatever the request', async (_, others, requests) => {
  const companies = await startCompanies(['acme', 'boreal'], slug =>
    slug === 'acme' ? notices(1, 20) : others(),
  )
  const { environment } = companies.company('acme')
  await syncHere(environment)
  const before = dataTables(await warehouseTables(environment))
  const written = await snapshots(environment)
  const swapped = { ...environment, API_KEY: companies.keyOf('boreal') }
  for (const request of requests) {
    const { report } = await syncHere(swapped, request)
    expect(report, JSON.stringify(request)).toMatchObject({ status: 'failed', loaded: 0 })
    expect(report.error).toMatch(/another company.*API_KEY/)
  }
  expect(await snapshots(environment)).toEqual(written)
  expect(dataTables(await warehouseTables(environment))).toEqual(before)
})
