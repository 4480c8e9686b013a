import { mkdir, readdir, rm, symlink, truncate } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { companyPaths } from '#src/core/company/company.ts'
import { observeSteps } from '#src/lib/durable.ts'
import { idOf, notices } from '#test/support/notices.ts'
import { type SyncedCompany, startCompany, startSynced } from '#test/support/synced.ts'
import { expectTruth } from '#test/support/truth.ts'

const NOON = new Date('2026-11-20T12:00:00Z')

/** The directory with the rows of the company's warehouse. */
async function rowsOf({ environment }: SyncedCompany): Promise<string> {
  const { rows } = companyPaths(environment.DATA_DIR ?? '', 'acme')
  const [id, ...others] = await readdir(rows)
  if (id === undefined || others.length > 0) throw new Error(`${rows} has ${others.length + 1} warehouses`)
  return join(rows, id)
}

test('a run that fails while rows wait in memory loses none of them', async () => {
  const company = await startSynced(notices(1, 6))
  for (const number of [1, 2])
    company.world.update(idOf(number), { analysis: { alerts: [{ title: 'Outro' }] }, updatedAt: NOON })
  observeSteps((step, when) => {
    if (step === 'applied.commit' && when === 'after')
      throw Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' })
  })
  onTestFinished(() => observeSteps(null))
  await expect(company.syncHere()).rejects.toThrow('ENOSPC')
  observeSteps(null)
  expect(await company.syncHere()).toMatchObject({ status: 'ok', loaded: 0 })
  expect(
    await company.query("SELECT edital_id FROM alerts WHERE title = 'Outro' ORDER BY edital_id"),
  ).toEqual([{ edital_id: idOf(1) }, { edital_id: idOf(2) }])
  await expectTruth(company)
})

test('if a file of a lake on another disk is cut short, the next snapshot has it again', async () => {
  const company = await startCompany(notices(1, 6))
  const { lake, rows } = companyPaths(company.environment.DATA_DIR ?? '', 'acme')
  observeSteps((step, when, operation) => {
    if (
      step === 'parquet.link' &&
      when === 'before' &&
      'from' in operation &&
      operation.from.startsWith(rows)
    )
      throw Object.assign(new Error('EXDEV: cross-device link not permitted'), { code: 'EXDEV' })
  })
  onTestFinished(() => observeSteps(null))
  await company.syncHere()
  await truncate(join(lake, 'latest', 'items', '2026-10.parquet'), 100)
  company.world.update(idOf(1), { edital: { objeto: 'Outro' } })
  await company.syncHere()
  expect(await company.query('SELECT DISTINCT edital_id FROM items')).toHaveLength(6)
  await expectTruth(company)
})

test('if a file of rows is missing, the next run rebuilds the warehouse from the log', async () => {
  const company = await startSynced(notices(1, 6))
  const before = await rowsOf(company)
  const [file = ''] = await readdir(join(before, 'items'))
  await rm(join(before, 'items', file))
  expect(await company.syncHere()).toMatchObject({ status: 'ok', loaded: 0, unchanged: 6 })
  expect(await rowsOf(company)).not.toBe(before)
  await expectTruth(company)
})

test('rows that a link leads elsewhere are refused, and nothing there is removed', async () => {
  const company = await startSynced(notices(1, 3))
  const { root, rows } = companyPaths(company.environment.DATA_DIR ?? '', 'acme')
  const elsewhere = join(root, '..', 'elsewhere')
  await mkdir(join(elsewhere, 'photos'), { recursive: true })
  await rm(rows, { recursive: true })
  await symlink(elsewhere, rows)
  await expect(company.syncHere()).rejects.toThrow(`${rows} is a link, so it is not used. Remove it`)
  expect(await readdir(elsewhere)).toEqual(['photos'])

  await rm(rows)
  expect(await company.syncHere()).toMatchObject({ status: 'ok', loaded: 0, unchanged: 3 })
  await expectTruth(company)
})
