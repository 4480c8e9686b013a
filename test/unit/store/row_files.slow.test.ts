import { readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { alerts, items, listPublishedColumns, requirements } from '#schema/tables.ts'
import { literal } from '#src/core/warehouse/quoted.ts'
import { listRowFiles, RowFiles, rowPath } from '#src/core/warehouse/row_files.ts'
import { ROW_TABLES } from '#src/core/warehouse/row_sql.ts'
import { hashContent } from '#src/lib/hash.ts'
import type { Entry } from '#src/sandbox/world.ts'
import { idOf, noticeEntry } from '#test/support/notices.ts'
import {
  analysisLine,
  noticeLine,
  openApplied,
  sameLine,
  type WarehouseCase,
} from '#test/support/warehouse.ts'

const [OCTOBER, NOVEMBER] = ['2026-10', '2026-11']
const OF_ONE = { requirements: 2, items: 3, alerts: 1 }
const NONE = { requirements: [], items: [], alerts: [] }

function entryOf(number: number, month: string, analysis = {}): Entry {
  return noticeEntry(number, { created_at: `${month}-15T12:00:00Z` }, analysis)
}

async function openStored(...entries: readonly Entry[]): Promise<WarehouseCase> {
  return await openApplied(...entries.flatMap(entry => [noticeLine(entry), analysisLine(entry)]))
}

async function openSettled(...entries: readonly Entry[]): Promise<WarehouseCase> {
  const warehouse = await openStored(...entries)
  await settle(warehouse)
  return warehouse
}

async function settle({ rows }: WarehouseCase): Promise<void> {
  await rows.settle()
  await rows.removeOld()
}

/** The notices in each file that is listed, by table and month; a notice appears once for each of its rows. */
async function contents({ db, rows }: WarehouseCase): Promise<Record<string, unknown>> {
  const found: [string, unknown][] = []
  for (const file of await listRowFiles(db)) {
    const path = literal(rowPath(rows.directory, file))
    const ids = await db.rows<{ id: string }>(
      `SELECT edital_id AS id FROM read_parquet(${path}) ORDER BY ALL`,
    )
    found.push([`${file.table_name} ${file.month}`, ids.map(({ id }) => id)])
  }
  return Object.fromEntries(found)
}

function times(count: number, ...ids: readonly string[]): string[] {
  return ids.flatMap(id => Array.from({ length: count }, () => id))
}

async function namesIn({ rows }: WarehouseCase): Promise<string[]> {
  return (await readdir(rows.directory, { recursive: true })).filter(name => name.endsWith('.parquet')).sort()
}

async function waiting({ db }: WarehouseCase): Promise<number[]> {
  const counts = ROW_TABLES.map(({ name }) => db.row<{ n: number }>(`SELECT count(*) AS n FROM ${name}`))
  return (await Promise.all(counts)).map(({ n }) => n)
}

describe('rows of analyses', () => {
  it('wait until they are settled, and then are in one file of each table for each month', async () => {
    const warehouse = await openStored(entryOf(1, OCTOBER), entryOf(2, NOVEMBER), entryOf(3, OCTOBER))
    expect(await waiting(warehouse)).toEqual([6, 9, 3])
    expect(await contents(warehouse)).toEqual({})
    await settle(warehouse)
    expect(await waiting(warehouse)).toEqual([0, 0, 0])
    expect(await contents(warehouse)).toEqual(
      Object.fromEntries(
        Object.entries(OF_ONE).flatMap(([table, count]) => [
          [`${table} ${OCTOBER}`, times(count, idOf(1), idOf(3))],
          [`${table} ${NOVEMBER}`, times(count, idOf(2))],
        ]),
      ),
    )
    expect(await namesIn(warehouse)).toHaveLength(6)
  })

  it('have the published columns in their order and a compression that every engine reads, and are listed with size and checksum', async () => {
    const { db, rows } = await openSettled(entryOf(1, OCTOBER))
    const files = await listRowFiles(db)
    for (const file of files) {
      const bytes = await readFile(rowPath(rows.directory, file))
      expect(file).toMatchObject({ bytes: bytes.length, sha256: hashContent(bytes), month: OCTOBER })
    }
    for (const table of [requirements, items, alerts]) {
      const file = files.find(({ table_name }) => table_name === table.name)
      if (!file) throw new Error(`no file of ${table.name}`)
      const path = literal(rowPath(rows.directory, file))
      const columns = await db.rows<{ column_name: string }>(`DESCRIBE FROM read_parquet(${path})`)
      expect(columns.map(({ column_name }) => column_name)).toEqual(
        listPublishedColumns(table).map(({ name }) => name),
      )
      expect(await db.rows(`SELECT DISTINCT company FROM read_parquet(${path})`)).toEqual([
        { company: 'acme' },
      ])
      // A codec is named only where it made the values smaller.
      expect(
        await db.rows(
          `SELECT DISTINCT compression FROM parquet_metadata(${path}) WHERE compression <> 'UNCOMPRESSED'`,
        ),
      ).toEqual([{ compression: 'ZSTD' }])
    }
  })

  it('of a newer analysis replace the previous ones; other months keep their files', async () => {
    const warehouse = await openSettled(entryOf(1, OCTOBER), entryOf(2, OCTOBER), entryOf(3, NOVEMBER))
    const before = await listRowFiles(warehouse.db)
    const { edital } = entryOf(1, OCTOBER)
    const { analysis } = noticeEntry(1, {}, { requirements: [], items: [{ numero_item: 9 }] })
    await warehouse.apply(analysisLine({ edital, analysis }))
    await settle(warehouse)
    expect(await contents(warehouse)).toMatchObject({
      [`requirements ${OCTOBER}`]: times(2, idOf(2)),
      [`items ${OCTOBER}`]: [idOf(1), ...times(3, idOf(2))],
      [`alerts ${OCTOBER}`]: [idOf(1), idOf(2)],
    })
    const after = await listRowFiles(warehouse.db)
    const ofNovember = (files: typeof before) => files.filter(({ month }) => month === NOVEMBER)
    expect(ofNovember(after)).toEqual(ofNovember(before))
    expect(await namesIn(warehouse)).toHaveLength(6)
  })

  it('are written again only if they changed, also if their number is the same', async () => {
    const entry = entryOf(1, OCTOBER)
    const warehouse = await openSettled(entry)
    const before = await namesIn(warehouse)
    await warehouse.apply(sameLine(entry), noticeLine(noticeEntry(1, { ...entry.edital, status: 'ready' })))
    await settle(warehouse)
    expect(await namesIn(warehouse)).toEqual(before)
    await warehouse.apply(analysisLine(entry))
    await settle(warehouse)
    expect(await namesIn(warehouse)).not.toEqual(before)
  })

  it('follow their notice to another month, whether they are in a file or wait', async () => {
    const warehouse = await openSettled(entryOf(1, OCTOBER), entryOf(2, OCTOBER))
    await warehouse.apply(noticeLine(entryOf(3, OCTOBER)), analysisLine(entryOf(3, OCTOBER)))
    await warehouse.apply(noticeLine(entryOf(1, NOVEMBER)), noticeLine(entryOf(3, NOVEMBER)))
    await settle(warehouse)
    expect(await contents(warehouse)).toMatchObject({
      [`items ${OCTOBER}`]: times(3, idOf(2)),
      [`items ${NOVEMBER}`]: times(3, idOf(1), idOf(3)),
    })
    await warehouse.apply(noticeLine(entryOf(2, NOVEMBER)))
    await settle(warehouse)
    expect(Object.keys(await contents(warehouse)).sort()).toEqual(
      Object.keys(OF_ONE)
        .map(table => `${table} ${NOVEMBER}`)
        .sort(),
    )
    expect(await namesIn(warehouse)).toHaveLength(3)
  })

  it('leave no old file behind if an analysis without rows moved to another month', async () => {
    const warehouse = await openSettled(entryOf(1, OCTOBER), entryOf(2, OCTOBER, NONE))
    await warehouse.apply(noticeLine(entryOf(2, NOVEMBER)))
    await settle(warehouse)
    await warehouse.apply(analysisLine(entryOf(1, OCTOBER, { items: [{ numero_item: 9 }] })))
    await settle(warehouse)
    expect(await contents(warehouse)).toMatchObject({ [`items ${OCTOBER}`]: [idOf(1)] })
    expect(await namesIn(warehouse)).toHaveLength(3)
  })

  it('are not written unless their number is that of their analyses', async () => {
    const warehouse = await openStored(entryOf(1, OCTOBER))
    await warehouse.db.run('UPDATE row_places SET items = 4')
    await expect(warehouse.rows.settle()).rejects.toThrow(
      /items\/000001\.parquet: 3 rows written, but its analyses have 4/,
    )
    expect(await listRowFiles(warehouse.db)).toEqual([])
  })
})

describe('rows that are saved in the middle of a run', () => {
  const filed = async ({ db }: WarehouseCase) =>
    (await listRowFiles(db))
      .filter(({ table_name }) => table_name === items.name)
      .map(({ month, rows }) => [month, rows])

  it('are in files in whatever order they arrive, and in one for each month when they are settled', async () => {
    const warehouse = await openStored(entryOf(1, OCTOBER), entryOf(2, NOVEMBER))
    await warehouse.rows.save()
    expect(await waiting(warehouse)).toEqual([0, 0, 0])
    await warehouse.apply(noticeLine(entryOf(3, OCTOBER)), analysisLine(entryOf(3, OCTOBER)))
    await warehouse.rows.save()
    expect(await filed(warehouse)).toEqual([
      [OCTOBER, 3],
      [OCTOBER, 3],
      [NOVEMBER, 3],
    ])
    await settle(warehouse)
    expect(await filed(warehouse)).toEqual([
      [OCTOBER, 6],
      [NOVEMBER, 3],
    ])
    expect(await namesIn(warehouse)).toHaveLength(6)
  })

  it.each(['the same process', 'a later one'])(
    'and left their month are not published with it by %s, though their number is the same',
    async who => {
      const warehouse = await openSettled(entryOf(1, OCTOBER))
      await warehouse.apply(
        ...[2, 3].flatMap(n => [noticeLine(entryOf(n, OCTOBER)), analysisLine(entryOf(n, OCTOBER))]),
      )
      await warehouse.rows.save()
      await warehouse.apply(noticeLine(entryOf(3, NOVEMBER)))
      const rows =
        who === 'a later one'
          ? await RowFiles.open(warehouse.db, { directory: warehouse.rows.directory, company: 'acme' })
          : warehouse.rows
      await settle({ ...warehouse, rows })
      expect(await contents(warehouse)).toMatchObject({
        [`items ${OCTOBER}`]: times(3, idOf(1), idOf(2)),
        [`items ${NOVEMBER}`]: times(3, idOf(3)),
      })
      expect(await namesIn(warehouse)).toHaveLength(6)
    },
  )
})

describe('a warehouse that is opened again', () => {
  const place = ({ rows }: WarehouseCase) => ({ directory: rows.directory, company: 'acme' })

  it('has all rows, and removes what a killed run left, but not if a file is cut short or missing', async () => {
    const warehouse = await openSettled(entryOf(1, OCTOBER))
    const areThere = async () => await (await RowFiles.open(warehouse.db, place(warehouse))).areThere()
    const before = await namesIn(warehouse)
    await writeFile(join(warehouse.rows.directory, 'items', '000009.parquet'), 'half of some')
    expect(await areThere()).toBe(true)
    expect(await namesIn(warehouse)).toEqual(before)
    const alerts = join(warehouse.rows.directory, 'alerts', '000001.parquet')
    await truncate(alerts, 100)
    expect(await areThere()).toBe(false)
    await rm(alerts)
    expect(await areThere()).toBe(false)
  })

  it('has one file of each table for a changed month, even if an analysis without rows has its number', async () => {
    const warehouse = await openSettled(entryOf(1, OCTOBER), entryOf(2, NOVEMBER, NONE))
    const opened = { ...warehouse, rows: await RowFiles.open(warehouse.db, place(warehouse)) }
    for (const numero_item of [8, 9]) {
      await opened.apply(analysisLine(entryOf(1, OCTOBER, { items: [{ numero_item }] })))
      await settle(opened)
      expect(await contents(opened)).toMatchObject({ [`items ${OCTOBER}`]: [idOf(1)] })
      expect(await namesIn(opened)).toHaveLength(3)
    }
  })

  it('is settled unless a run died after it saved some', async () => {
    const warehouse = await openSettled(entryOf(1, OCTOBER))
    const reopen = async () => await RowFiles.open(warehouse.db, place(warehouse))
    expect((await reopen()).wereSettled).toBe(true)
    await warehouse.apply(noticeLine(entryOf(2, OCTOBER)), analysisLine(entryOf(2, OCTOBER)))
    await warehouse.rows.save()
    const later = await reopen()
    expect([await later.areThere(), later.wereSettled]).toEqual([true, false])
    await settle({ ...warehouse, rows: later })
    expect(await contents(warehouse)).toMatchObject({ [`items ${OCTOBER}`]: times(3, idOf(1), idOf(2)) })
    expect((await reopen()).wereSettled).toBe(true)
  })

  it('lacks rows if some were in no file yet', async () => {
    const warehouse = await openSettled(entryOf(1, OCTOBER))
    await warehouse.apply(noticeLine(entryOf(2, OCTOBER)), analysisLine(entryOf(2, OCTOBER)))
    expect(await (await RowFiles.open(warehouse.db, place(warehouse))).areThere()).toBe(false)
  })
})
