import { existsSync } from 'node:fs'
import { readlink } from 'node:fs/promises'
import { expect, onTestFinished, test, vi } from 'vitest'
import { companyPaths } from '#src/core/company/company.ts'
import { latestLink } from '#src/core/lake/manifest.ts'
import { listSealedSegments } from '#src/core/rawlog/files.ts'
import { Database } from '#src/core/warehouse/database.ts'
import { type DurableStep, type Operation, observeSteps } from '#src/lib/durable.ts'
import { syncHere } from '#test/support/here.ts'
import { bareNotice, idOf, noticeEntry } from '#test/support/notices.ts'
import { type SyncedCompany, startCompany } from '#test/support/synced.ts'
import { expectTruth, snapshots } from '#test/support/truth.ts'

const MONTHS = ['2026-06', '2026-07', '2026-08', '2026-09', '2026-10']
/** Every month is written as soon as some analyses of the next one came. */
const HASTY = { pace: { documents: 4, rows: 1, latest: 2 } }
/** From so many notices on, a snapshot is written while the warehouse becomes durable. */
const MANY = 2001

function openMonths(): Promise<SyncedCompany> {
  return startCompany(
    MONTHS.flatMap((month, index) =>
      Array.from({ length: 10 }, (_, n) =>
        noticeEntry(index * 10 + n + 1, { created_at: `${month}-15T12:00:00Z` }),
      ),
    ),
  )
}

function pathsOf({ environment }: SyncedCompany) {
  return companyPaths(environment.DATA_DIR ?? '', 'acme')
}

/** @param see may throw, as a disk does. */
function onSteps(see: (step: DurableStep, operation: Operation) => void): void {
  observeSteps((step, when, operation) => {
    if (when === 'before') see(step, operation)
  })
  onTestFinished(() => observeSteps(null))
}

function fullDisk(): Error {
  return Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' })
}

function isEarly(operation: Operation): boolean {
  return 'path' in operation && operation.path.includes('/tmp/early/')
}

test('months that are complete are written while others are fetched, and the snapshot links these files', async () => {
  const company = await openMonths()
  let [early, linked, asked] = [0, 0, 0]
  const begun = Promise.withResolvers<void>()
  // The last analyses come only when a month was written.
  company.faults.onRequest = async ({ kind }) => {
    if (kind === 'analysis') asked += 1
    if (asked > 40) await begun.promise
  }
  onSteps((step, operation) => {
    if (step === 'parquet.sync' && isEarly(operation)) {
      early += 1
      begun.resolve()
    }
    if (step === 'parquet.link' && 'from' in operation && operation.from.includes('/tmp/early/')) linked += 1
  })
  expect((await syncHere(company.environment, {}, HASTY)).report).toMatchObject({ status: 'ok', loaded: 50 })
  // Of three months at least: editais, analyses, and the four tables of their versions.
  expect(early).toBeGreaterThanOrEqual(3 * 6)
  expect(linked).toBeGreaterThanOrEqual(3 * 6)
  expect(existsSync(pathsOf(company).temporary)).toBe(false)
  await expectTruth(company)
})

test('a month that cannot be written early costs nothing but its time', async () => {
  const company = await openMonths()
  let failed = 0
  onSteps((step, operation) => {
    if (step !== 'parquet.sync' || !isEarly(operation)) return
    failed += 1
    throw fullDisk()
  })
  expect((await syncHere(company.environment, {}, HASTY)).report).toMatchObject({ status: 'ok', loaded: 50 })
  expect(failed).toBeGreaterThan(0)
  expect(existsSync(pathsOf(company).temporary)).toBe(false)
  await expectTruth(company)
})

/** Replaces how the warehouse is made durable, except at its start. */
function onCheckpoint(make: (real: () => Promise<void>) => Promise<void>): void {
  const { checkpoint } = Database.prototype
  const spy = vi.spyOn(Database.prototype, 'checkpoint').mockImplementation(function (this: Database) {
    return make(() => checkpoint.call(this))
  })
  onTestFinished(() => spy.mockRestore())
}

async function startMany(): Promise<SyncedCompany> {
  const company = await startCompany(Array.from({ length: MANY }, (_, index) => bareNotice(index + 1)))
  expect(await company.syncHere()).toMatchObject({ status: 'ok', loaded: MANY })
  company.world.update(idOf(7), { edital: { objeto: 'Outro' } })
  return company
}

test('nor do rows of a month that cannot be written early', async () => {
  const company = await openMonths()
  const { row } = Database.prototype
  let failed = 0
  const spy = vi.spyOn(Database.prototype, 'row').mockImplementation(function (this: Database, ...asked) {
    // In the middle of a transaction: a table of the first month is there already.
    if (/^COPY .*\/items\/\d+\.parquet/s.test(asked[0]) && failed++ < 2) throw fullDisk()
    return row.apply(this, asked) as never
  })
  onTestFinished(() => spy.mockRestore())
  expect((await syncHere(company.environment, {}, HASTY)).report).toMatchObject({ status: 'ok', loaded: 50 })
  expect(failed).toBeGreaterThan(2)
  await expectTruth(company)
})

test('a snapshot is written while the warehouse becomes durable, and is complete only afterwards', async () => {
  const company = await startMany()
  const steps: string[] = []
  const written = Promise.withResolvers<void>()
  onCheckpoint(async real => {
    await written.promise
    await real()
    steps.push('durable')
  })
  onSteps(step => {
    steps.push(step)
    if (step === 'snapshot.directory') written.resolve()
  })
  expect(await company.syncHere()).toMatchObject({ status: 'ok', changed: 1 })
  const order = [
    'catalog.sync',
    'snapshot.directory',
    'durable',
    'manifest.sync',
    'latest.rename',
    'state.rename',
  ]
  expect(steps.filter(step => order.includes(step))).toEqual(order)
  await expectTruth(company)
})

test('if the warehouse cannot be made durable, the run fails, readers keep the last snapshot, and the next run has all', async () => {
  const company = await startMany()
  const latest = latestLink(pathsOf(company).lake)
  const before = await readlink(latest)
  const written = Promise.withResolvers<void>()
  onCheckpoint(async () => {
    await written.promise
    throw fullDisk()
  })
  onSteps(step => {
    if (step === 'snapshot.directory') written.resolve()
  })
  await expect(company.syncHere()).rejects.toThrow('ENOSPC')
  expect(await readlink(latest)).toBe(before)
  vi.restoreAllMocks()
  observeSteps(null)
  expect(await company.syncHere()).toMatchObject({ status: 'ok', changed: 0, loaded: 0 })
  expect(await readlink(latest)).not.toBe(before)
  expect(await snapshots(company.environment)).toHaveLength(2)
  await expectTruth(company)
})

test('a run that dies keeps what became durable in its middle, and the next one has all', async () => {
  const company = await openMonths()
  const { warehouse, raw } = pathsOf(company)
  let applied = 0
  onSteps(step => {
    if (step === 'applied.commit') applied += 1
  })
  // How many segments each checkpoint holds. The first one is of the empty warehouse.
  const held: number[] = []
  onCheckpoint(async real => {
    if (held.length === 3) throw fullDisk()
    held.push(applied)
    await real()
  })
  const eager = { pace: { ...HASTY.pace, unsavedBytes: 0 } }
  await expect(syncHere(company.environment, {}, eager)).rejects.toThrow('ENOSPC')
  vi.restoreAllMocks()
  const db = await Database.open(warehouse, { readOnly: true })
  const { kept } = await db.row<{ kept: number }>('SELECT applied_segment AS kept FROM meta')
  db.close()
  expect(held).toHaveLength(3)
  expect(kept).toBe(held.at(-1))
  expect(kept).toBeGreaterThan(held[1] as number)
  expect((await listSealedSegments(raw)).length).toBeGreaterThan(kept)
  expect(await company.syncHere()).toMatchObject({ status: 'ok', added: 0 })
  await expectTruth(company)
})

test('if the snapshot cannot be written, the warehouse is durable before the run ends', async () => {
  const company = await startMany()
  const steps: string[] = []
  onCheckpoint(async real => {
    await new Promise(setImmediate)
    await real()
    steps.push('durable')
  })
  onSteps(step => {
    steps.push(step)
    if (step === 'parquet.sync') throw Object.assign(new Error('EIO: i/o error'), { code: 'EIO' })
  })
  await expect(company.syncHere()).rejects.toThrow('EIO')
  expect(steps.at(-1)).toBe('temporary.remove')
  expect(steps).toContain('durable')
})
