import { fork } from 'node:child_process'
import { once } from 'node:events'
import { cp, realpath, rename, rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { openOptions, publishWarehouse } from '#src/core/pipeline/run.ts'
import { listRowFiles, storedRows } from '#src/core/warehouse/row_files.ts'
import { ROW_TABLES } from '#src/core/warehouse/row_sql.ts'
import { openWarehouse, settleWarehouse, type Warehouse } from '#src/core/warehouse/warehouse.ts'
import { until } from '#test/support/daemon.ts'
import { contextHere } from '#test/support/here.ts'
import { idOf, notices } from '#test/support/notices.ts'
import { companyDirectory, type Environment, surroundings } from '#test/support/project.ts'
import type { Read } from '#test/support/reader.ts'
import { startCompany } from '#test/support/synced.ts'
import { snapshots } from '#test/support/truth.ts'

const DAY_MS = 24 * 3600 * 1000

/** A settled state of the warehouse in which every row has the same number. */
async function setVersion(warehouse: Warehouse, version: number): Promise<void> {
  const { db, rows } = warehouse
  const files = await listRowFiles(db)
  await db.transaction(async () => {
    for (const table of ROW_TABLES)
      await db.run(
        `INSERT INTO waiting_${table.name} SELECT t.*, month FROM (${storedRows(table, rows.directory, files)}) t JOIN row_places USING (edital_id)`,
      )
    for (const sql of [
      `UPDATE row_places SET file = NULL`,
      `UPDATE editais SET valor_estimado = ${version}`,
      `UPDATE waiting_items SET quantidade = ${version}`,
      `UPDATE waiting_alerts SET title = '${version}'`,
      // As the segment with this number does.
      `UPDATE month_versions SET version = ${version} WHERE table_name IN ('editais', 'items', 'alerts')`,
      `UPDATE meta SET data_version = ${version}, applied_segment = ${version}`,
    ]) {
      await db.run(sql)
    }
  })
  await settleWarehouse(warehouse, durable => durable)
}

type Reader = { readonly reads: Read[]; stop(): void }

/** A process that has read once and keeps reading. */
async function startReader(lake: string, how: 'patient' | 'reopening'): Promise<Reader> {
  const reader = join(import.meta.dirname, '../support/reader.ts')
  const child = fork(reader, [lake, how], { env: surroundings() })
  onTestFinished(() => void child.kill())
  const reads: Read[] = []
  child.on('message', (read: Read) => reads.push(read))
  child.on('exit', (code, signal) => {
    if (signal !== 'SIGTERM') reads.push({ wrong: `the end of its process (${code})` })
  })
  await once(child, 'message')
  return { reads, stop: () => void child.kill('SIGTERM') }
}

/** Resolves once each has read again. */
async function readsOn(readers: readonly Reader[]): Promise<void> {
  const counts = readers.map(({ reads }) => reads.length)
  const isFurther = ({ reads }: Reader, index: number) => reads.length > (counts[index] ?? 0)
  await until(() => readers.every(isFurther), { what: 'another read of each' })
}

test('processes that read continuously see complete snapshots and no error while 60 are published', async () => {
  const { environment, syncHere } = await startCompany(notices(1, 6, { created_at: '2026-10-01T00:00:00Z' }))
  await syncHere()
  const context = contextHere(environment)
  const warehouse = await openWarehouse(openOptions(context))
  // Thirty per day, all of which are kept.
  const startMs = Date.now()
  const publishVersion = async (version: number) => {
    await setVersion(warehouse, version)
    const now = () => new Date(startMs + (version - 1000) * (DAY_MS / 30))
    expect(await publishWarehouse({ ...context, now }, warehouse)).toMatchObject({ written: true })
  }
  await publishVersion(1000)
  const lake = join(companyDirectory(environment), 'lake')
  const [patient, ...reopening] = (await Promise.all(
    (['patient', 'reopening', 'reopening'] as const).map(how => startReader(lake, how)),
  )) as [Reader, Reader, Reader]
  let most = 0
  for (let version = 1001; version <= 1060; version += 1) {
    await publishVersion(version)
    // Whether the publisher or the readers are faster.
    if (version % 4 === 0) await readsOn(reopening)
    // A connection may be as old as the snapshot that it reads.
    if (version === 1028) {
      await until(() => patient.reads.length > 10, { what: 'reads of the patient one' })
      patient.stop()
    }
    most = Math.max(most, (await snapshots(environment)).length)
  }
  warehouse.db.close()
  await until(() => reopening.every(({ reads }) => versionsOf(reads).at(-1) === 1060), {
    what: 'the last version at each reader',
  })

  expect(new Set(versionsOf(patient.reads))).toEqual(new Set([1000]))
  expect(patient.reads.length).toBeGreaterThan(10)
  for (const { reads } of reopening) {
    const versions = versionsOf(reads)
    expect(versions).toEqual(versions.toSorted((a, b) => a - b))
    expect(new Set(versions).size).toBeGreaterThan(10)
  }
  // However many were published.
  expect(most).toBeLessThanOrEqual(33)
}, 170_000)

/** @throws Error if a reader saw something wrong. */
function versionsOf(reads: readonly Read[]): number[] {
  return reads.map(read => {
    if ('wrong' in read) throw new Error(`a reader saw ${read.wrong}`)
    return read.version
  })
}

async function latest(environment: Environment): Promise<string> {
  return await realpath(join(companyDirectory(environment), 'lake/latest'))
}

test('snapshots of a log that was longer before it was restored from a backup expire as others', async () => {
  const company = await startCompany(notices(1, 3), { SNAPSHOT_KEEP: '0s' })
  const { world, environment } = company
  const raw = join(companyDirectory(environment), 'raw')
  const change = async (version: number) => {
    world.update(idOf(1), { edital: { numero: `${version}/2026` } })
    await company.syncHere()
    return basename(await latest(environment))
  }
  await change(1)
  const backup = join(environment.DATA_DIR as string, 'backup')
  await cp(raw, backup, { recursive: true })
  for (const version of [2, 3, 4, 5]) await change(version)
  await rm(raw, { recursive: true })
  await rename(backup, raw)
  await rm(join(companyDirectory(environment), 'warehouse.duckdb'))
  const published = [await change(6), await change(7)]
  expect((await snapshots(environment)).sort()).toEqual(published)
})
