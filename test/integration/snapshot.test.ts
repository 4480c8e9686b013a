import { createHash } from 'node:crypto'
import { chmod, readdir, readFile, realpath, rename, rm, stat } from 'node:fs/promises'
import { basename, join, relative } from 'node:path'
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet'
import { compressors } from 'hyparquet-compressors'
import { expect, test } from 'vitest'
import { TABLES } from '#schema/tables.ts'
import type { Manifest } from '#src/core/lake/manifest.ts'
import { Database } from '#src/core/warehouse/database.ts'
import { idOf, noticeEntry, notices } from '#test/support/notices.ts'
import { companyDirectory, type Environment, filesBelow } from '#test/support/project.ts'
import { runShared } from '#test/support/shared.ts'
import { startCompany, startSynced } from '#test/support/synced.ts'
import { snapshots } from '#test/support/truth.ts'

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
    alert_versions: 12,
    analyses: 12,
    requirements: 24,
    items: 36,
    alerts: 12,
    edital_versions: 12,
    analysis_versions: 12,
    sync_runs: 1,
    quarantine: 0,
    requirement_versions: 24,
    schema_drift: 0,
    whole_documents: 0,
  })
  expect(manifest.tables.editais?.files.map(({ path }) => path)).toEqual([
    ...['editais/2026-10.parquet', 'editais/2026-11.parquet'],
  ])
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
  const withRows = monthly.filter(name => name !== 'whole_documents')
  expect(shared.sort()).toEqual(withRows.map(name => `${name}/2026-10.parquet`).sort())

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
  for (let version = 1; version <= 3; version += 1) {
    world.update(idOf(1), { edital: { numero: `${version}/2026` } })
    await company.syncHere()
    published.push(basename(await latest(environment)))
    expect((await snapshots(environment)).sort()).toEqual(published.slice(-2))
  }
})

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

test('a moved data directory is published again for its new place, and keeps nothing of its old name', async () => {
  const company = await startSynced(notices(1, 4))
  const old = company.environment.DATA_DIR ?? ''
  await rename(join(old, 'acme'), join(old, 'moved'))
  const moved = { ...company.environment, COMPANY: 'moved' }
  const names = ['editais', 'requirements', 'prazos_calculados', 'edital_resumo']
  const count = (name: string) => `SELECT company, count(DISTINCT edital_id) AS n FROM ${name} GROUP BY ALL`
  const query = ['query', '--json', names.map(count).join(' UNION ')]
  const refused = await runShared(query, moved)
  expect(refused).toMatchObject({ code: 1, stdout: '' })
  expect(refused.stderr).toMatch(/was moved since.*editais publish/)
  expect((await runShared(['publish'], moved)).code).toBe(0)
  expect(JSON.parse((await runShared(query, moved)).stdout)).toEqual([{ company: 'moved', n: 4 }])
})
