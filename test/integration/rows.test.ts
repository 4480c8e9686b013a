import { mkdir, readdir, rm, symlink, truncate } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it, onTestFinished, test } from 'vitest'
import { companyPaths } from '#src/core/company/company.ts'
import { observeSteps } from '#src/lib/durable.ts'
import { idOf, noticeEntry, notices } from '#test/support/notices.ts'
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

test('a month whose analyses have no rows does not keep old files of another month', async () => {
  const nothing = { requirements: [], items: [], alerts: [] }
  const company = await startCompany([
    noticeEntry(1, { created_at: '2026-10-15T12:00:00Z' }),
    noticeEntry(2, { created_at: '2026-12-15T12:00:00Z' }, nothing),
  ])
  await company.syncHere()
  for (const hour of [1, 2]) {
    const updatedAt = new Date(NOON.getTime() + hour * 3_600_000)
    company.world.update(idOf(1), { analysis: { alerts: [{ title: `Outro ${hour}` }] }, updatedAt })
    await company.syncHere()
  }
  expect(await company.query('SELECT title FROM alerts')).toEqual([{ title: 'Outro 2' }])
  await expectTruth(company)
})

const DAMAGES: readonly [string, (path: string) => Promise<void>][] = [
  ['is missing', path => rm(path)],
  ['is cut short', path => truncate(path, 100)],
]

it.each(DAMAGES)(
  'if a file of a lake on another disk %s, the next snapshot has it again',
  async (_, damage) => {
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
    await damage(join(lake, 'latest', 'items', '2026-10.parquet'))
    company.world.update(idOf(1), { edital: { objeto: 'Outro' } })
    await company.syncHere()
    expect(await company.query('SELECT DISTINCT edital_id FROM items')).toHaveLength(6)
    await expectTruth(company)
  },
)

it.each(DAMAGES)(
  'if a file of rows %s, the next run rebuilds the warehouse from the log',
  async (_, damage) => {
    const company = await startSynced(notices(1, 6))
    const before = await rowsOf(company)
    const [file = ''] = await readdir(join(before, 'items'))
    await damage(join(before, 'items', file))
    expect(await company.syncHere()).toMatchObject({ status: 'ok', loaded: 0, unchanged: 6 })
    expect(await rowsOf(company)).not.toBe(before)
    await expectTruth(company)
  },
)

test('rows that a link leads elsewhere are refused, and nothing there is removed', async () => {
  const company = await startCompany(notices(1, 3))
  await company.syncHere()
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
