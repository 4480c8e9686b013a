import { cp, readdir, readFile, realpath, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet'
import { compressors } from 'hyparquet-compressors'
import { expect, test } from 'vitest'
import type { Manifest } from '#src/core/lake/manifest.ts'
import { Database } from '#src/core/warehouse/database.ts'
import { identifier } from '#src/core/warehouse/quoted.ts'
import { MARTS } from '#src/marts/marts.ts'
import { syncHere } from '#test/support/here.ts'
import { noticeEntry, notices } from '#test/support/notices.ts'
import { companyDirectory, type Environment, temporaryDirectory } from '#test/support/project.ts'
import { runShared } from '#test/support/shared.ts'
import { startCompany, startSynced } from '#test/support/synced.ts'

const latest = ({ environment }: { environment: Environment }) =>
  realpath(join(companyDirectory(environment), 'lake/latest'))

async function manifestOf(directory: string): Promise<Manifest> {
  return JSON.parse(await readFile(join(directory, 'manifest.json'), 'utf8')) as Manifest
}

test('a snapshot that was moved says how it is read there, and that works', async () => {
  const company = await startCompany(notices(1, 12))
  await company.syncHere()
  const place = await latest(company)
  const elsewhere = join(await temporaryDirectory(), "o'utro lugar")
  await cp(place, elsewhere, { recursive: true })
  await rm(place, { recursive: true })

  const db = await Database.open(join(elsewhere, 'catalog.duckdb'), { readOnly: true })
  await expect(db.rows('FROM editais')).rejects.toThrow(place)
  const text = await readFile(join(elsewhere, 'LEIA-ME.txt'), 'utf8')
  expect(text).toContain(place)
  const [, statement = ''] = /^ {4}(SET VARIABLE .*;)$/m.exec(text) ?? []
  await db.run(statement.replace(/'.*'/, `'${elsewhere.replaceAll("'", "''")}'`))
  expect(await db.rows('SELECT count(*) AS n FROM edital_resumo')).toEqual([{ n: 12 }])
  db.close()
})

test('SQL from others cannot use the place of a snapshot to read another one', async () => {
  const company = await startSynced(notices(1, 2))
  const other = await temporaryDirectory()
  await cp(await latest(company), other, { recursive: true })
  const sql = `SET VARIABLE editais_snapshot = '${other}'; SELECT count(*) FROM editais`
  const { code, stderr } = await runShared(['query', sql], company.environment)
  expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining('only the snapshot') })
})

test('with LAKE_MARTS, each snapshot has its marts as files of the present day', async () => {
  const company = await startSynced(notices(1, 8))
  const environment = { ...company.environment, LAKE_MARTS: 'on' }
  const now = new Date()
  expect((await syncHere(environment)).published.written).toBe(true)
  const first = await latest({ environment })
  expect(await readdir(join(first, 'marts'))).toEqual(MARTS.map(({ name }) => `${name}.parquet`).sort())
  const db = await Database.open(join(first, 'catalog.duckdb'), { readOnly: true })
  for (const { name, columns } of MARTS) {
    const file = await asyncBufferFromFile(join(first, 'marts', `${name}.parquet`))
    const rows = await parquetReadObjects({ file, compressors })
    const expected = await db.rows(`SELECT count(*) AS n FROM ${identifier(name)}`)
    expect([{ n: rows.length }], name).toEqual(expected)
    if (rows[0]) expect(Object.keys(rows[0])).toEqual(columns.map(column => column.name))
  }
  db.close()
  const { marts } = await manifestOf(first)
  expect(marts?.day).toBe(new Date(now.getTime() - 3 * 3600_000).toISOString().slice(0, 10))
  expect((await runShared(['doctor'], environment)).code).toBe(0)

  // The same day, and the next one.
  company.world.put(noticeEntry(9))
  await syncHere(environment)
  const second = await latest({ environment })
  expect(second).not.toBe(first)
  expect((await syncHere(environment)).published.written).toBe(false)
  const tomorrow = new Date(now.getTime() + 24 * 3600_000)
  expect((await syncHere(environment, {}, { now: () => tomorrow })).published.written).toBe(true)

  await rename(join(second, 'marts/funil.parquet'), join(second, 'marts/outro.parquet'))
  await syncHere({ ...environment, LAKE_MARTS: 'off' }, {}, { now: () => tomorrow })
  expect(await readdir(await latest({ environment }))).not.toContain('marts')
  expect((await manifestOf(await latest({ environment }))).marts).toBeUndefined()
})
