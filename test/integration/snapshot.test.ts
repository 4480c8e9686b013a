import { fork } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { chmod, readdir, readFile, realpath, rename, rm, stat } from 'node:fs/promises'
import { basename, join, relative } from 'node:path'
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet'
import { compressors } from 'hyparquet-compressors'
import { expect, onTestFinished, test } from 'vitest'
import { VIEWS } from '#schema/marts.ts'
import { TABLES } from '#schema/tables.ts'
import { openOptions, publishWarehouse } from '#src/pipeline/run.ts'
import type { Manifest } from '#src/store/lake/manifest.ts'
import { Database } from '#src/store/warehouse/database.ts'
import { listRowFiles, rowsOf } from '#src/store/warehouse/row_list.ts'
import { ROW_TABLES } from '#src/store/warehouse/row_sql.ts'
import { openWarehouse, settleWarehouse, type Warehouse } from '#src/store/warehouse/warehouse.ts'
import { until } from '#test/support/daemon.ts'
import { contextHere, syncHere } from '#test/support/here.ts'
import { idOf, noticeEntry, notices } from '#test/support/notices.ts'
import { companyDirectory, type Environment, filesBelow, surroundings } from '#test/support/project.ts'
import type { Read } from '#test/support/reader.ts'
import { runShared } from '#test/support/shared.ts'
import { startCompany, startSynced } from '#test/support/synced.ts'
import { snapshots } from '#test/support/truth.ts'

const DAY_MS = 24 * 3600 * 1000
const NOON = new Date('2026-11-20T12:00:00Z')

async function latest(environment: Environment): Promise<string> {
  return await realpath(join(companyDirectory(environment), 'lake/latest'))
}

async function manifestOf(directory: string): Promise<Manifest> {
  return JSON.parse(await readFile(join(directory, 'manifest.json'), 'utf8')) as Manifest
}

/** SHA-256 of every file below a directory, by relative path. */
async function hashesBelow(directory: string): Promise<Record<string, string>> {
  const files = await filesBelow(directory)
  return Object.fromEntries([...files].map(([path, bytes]) => [relative(directory, path), sha256(bytes)]))
}

function sha256(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex')
}

test('a snapshot matches its manifest and catalog, and can be read without DuckDB', async () => {
  const company = await startCompany(notices(1, 12))
  await company.syncHere()
  const directory = await latest(company.environment)
  const manifest = await manifestOf(directory)
  expect(manifest).toMatchObject({ snapshot: basename(directory), company: 'acme', directory })

  const files = await filesBelow(directory)
  const listed = Object.values(manifest.tables).flatMap(table => table.files)
  expect([...files.keys()].map(path => relative(directory, path)).sort()).toEqual(
    ['LEIA-ME.txt', 'catalog.duckdb', 'manifest.json', ...listed.map(({ path }) => path)].sort(),
  )
  for (const path of files.keys()) expect((await stat(path)).mode & 0o777, path).toBe(0o444)
  for (const { path, bytes, sha256: expected, rows } of listed) {
    const content = files.get(join(directory, path)) as Buffer
    expect({ bytes: content.length, sha256: sha256(content) }, path).toEqual({ bytes, sha256: expected })
    const file = await asyncBufferFromFile(join(directory, path))
    expect(await parquetReadObjects({ file, compressors }), path).toHaveLength(rows)
  }
  const totals = Object.entries(manifest.tables).map(([name, { rows, bytes, files }]) => {
    expect(rows).toBe(files.reduce((sum, file) => sum + file.rows, 0))
    expect(bytes).toBe(files.reduce((sum, file) => sum + file.bytes, 0))
    return [name, rows]
  })
  expect(Object.fromEntries(totals)).toEqual({
    editais: 12,
    analyses: 12,
    requirements: 24,
    items: 36,
    alerts: 12,
    edital_versions: 12,
    analysis_versions: 12,
    sync_runs: 1,
    quarantine: 0,
    schema_drift: 0,
  })
  expect(manifest.tables.editais?.files.map(({ path }) => path)).toEqual([
    ...['editais/2026-10.parquet', 'editais/2026-11.parquet'],
  ])
})

test('every table and column in the catalog has a comment', async () => {
  const company = await startSynced(notices(1, 3))
  const views = await company.query(
    'SELECT view_name AS name, comment FROM duckdb_views() WHERE NOT internal ORDER BY ALL',
  )
  expect(views.map(({ name }) => name)).toEqual([...TABLES, ...VIEWS].map(({ name }) => name).sort())
  const columns = await company.query(
    'SELECT table_name, column_name, comment FROM duckdb_columns() WHERE NOT internal',
  )
  expect(columns.length).toBeGreaterThan(150)
  expect([...views, ...columns].filter(({ comment }) => !comment)).toEqual([])
  expect(columns).toContainEqual({
    table_name: 'editais',
    column_name: 'valor_estimado',
    comment: expect.stringMatching(
      /^Valor estimado: .* \(Estimated value as published; 0 can mean that it is secret \[BRL\]\)$/,
    ),
  })
})

test('published files never change, and unchanged months are the same files', async () => {
  const company = await startCompany(notices(1, 12))
  const { world, environment } = company
  await company.syncHere()
  const first = await latest(environment)
  const before = await hashesBelow(first)

  // A notice of November, like all odd numbers.
  world.update(idOf(3), { edital: { orgao: 'OUTRO' }, updatedAt: NOON })
  await company.syncHere()
  const second = await latest(environment)
  expect(second).not.toBe(first)
  expect(await hashesBelow(first)).toEqual(before)
  const shared: string[] = []
  for (const path of Object.keys(await hashesBelow(second))) {
    const [old, now] = [await stat(join(first, path)).catch(() => null), await stat(join(second, path))]
    if (old?.ino === now.ino) shared.push(path)
  }
  const monthly = TABLES.filter(({ files }) => files === 'by_month').map(({ name }) => name)
  // The analysis repeats fields of its notice, so its tables of November are rewritten too.
  expect(shared.sort()).toEqual(monthly.map(name => `${name}/2026-10.parquet`).sort())

  world.update(idOf(2), { edital: { discard_reason: 'Sem interesse' } })
  world.put(noticeEntry(13, { created_at: '2026-12-01T00:00:00Z' }))
  await company.syncHere()
  expect(await hashesBelow(first)).toEqual(before)
  const third = await latest(environment)
  const november = await stat(join(third, 'editais/2026-11.parquet'))
  expect(november.ino).toBe((await stat(join(second, 'editais/2026-11.parquet'))).ino)
  expect((await stat(join(third, 'editais/2026-10.parquet'))).ino).not.toBe(
    (await stat(join(first, 'editais/2026-10.parquet'))).ino,
  )
  // Its analysis is unchanged: only the list data was rewritten.
  expect((await stat(join(third, 'items/2026-10.parquet'))).ino).toBe(
    (await stat(join(first, 'items/2026-10.parquet'))).ino,
  )
  expect(await company.query("SELECT count(*) AS n FROM items WHERE edital_id = 'n00013'")).toEqual([
    { n: 3 },
  ])
})

test('a snapshot is removed when its time is over, but never the latest or the one before it', async () => {
  const company = await startCompany(notices(1, 3), { SNAPSHOT_KEEP: '0s' })
  const { world, environment } = company
  const published: string[] = []
  for (let version = 1; version <= 4; version += 1) {
    world.update(idOf(1), { edital: { numero: `${version}/2026` } })
    await company.syncHere()
    published.push(basename(await latest(environment)))
    expect((await snapshots(environment)).sort()).toEqual(published.slice(-2))
  }
  // However long ago the one before the latest was superseded.
  await company.syncHere()
  expect((await snapshots(environment)).sort()).toEqual(published.slice(-2))
  const kept = { ...environment, SNAPSHOT_KEEP: '24h' }
  world.update(idOf(1), { edital: { numero: '5/2026' } })
  await syncHere(kept)
  expect(await snapshots(environment)).toHaveLength(3)
})

/** A settled state of the warehouse in which every row has the same number. */
async function setVersion(warehouse: Warehouse, version: number): Promise<void> {
  const { db, rows } = warehouse
  const files = await listRowFiles(db)
  await db.transaction(async () => {
    for (const table of ROW_TABLES)
      await db.run(
        `INSERT INTO waiting_${table.name} SELECT t.*, month FROM (${rowsOf(table, rows.directory, files)}) t JOIN row_places USING (edital_id)`,
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
  await settleWarehouse(warehouse)
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

test('the next publish rewrites a file that was lost from the latest snapshot', async () => {
  const company = await startSynced(notices(1, 6))
  const { environment } = company
  const [month] = (await readdir(join(await latest(environment), 'analyses'))) as [string]
  await rm(join(await latest(environment), 'analyses', month))
  company.world.put(noticeEntry(7))
  expect(await company.syncHere()).toMatchObject({ status: 'ok', added: 1 })
  expect(await company.query('SELECT count(*) AS n FROM analyses')).toEqual([{ n: 7 }])
})

test('changes made to a catalog are not in the next one', async () => {
  const company = await startSynced(notices(1, 3))
  const catalog = join(await latest(company.environment), 'catalog.duckdb')
  await chmod(catalog, 0o644)
  const db = await Database.open(catalog)
  await db.run('DROP VIEW funil')
  await db.run('CREATE TABLE meus_dados AS SELECT 42 AS x')
  db.close()
  company.world.put(noticeEntry(4))
  await company.syncHere()
  expect(await company.query('SELECT sum(editais)::INT AS n FROM funil')).toEqual([{ n: 4 }])
  await expect(company.query('FROM meus_dados')).rejects.toThrow('does not exist')
})

test('a moved data directory is published again for its new place', async () => {
  const company = await startSynced(notices(1, 4))
  const old = company.environment.DATA_DIR ?? ''
  await rename(join(old, 'acme'), join(old, 'moved'))
  const moved = { ...company.environment, COMPANY: 'moved' }
  const query = ['query', '--json', 'SELECT count(*) AS n FROM items']
  const refused = await runShared(query, moved)
  expect(refused).toMatchObject({ code: 1, stdout: '' })
  expect(refused.stderr).toMatch(/was moved since.*npm run publish/)
  expect((await runShared(['publish'], moved)).code).toBe(0)
  expect(JSON.parse((await runShared(query, moved)).stdout)).toEqual([{ n: 12 }])
})
