import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { Database } from '#src/core/warehouse/database.ts'
import { idOf, noticeEntry, notices } from '#test/support/notices.ts'
import { temporaryDirectory } from '#test/support/project.ts'
import {
  analysisLine,
  metaOf,
  noticeLine,
  openWarehouseCase,
  type WarehouseCase,
} from '#test/support/warehouse.ts'

describe('a segment that needs more memory than there is', () => {
  /** An analysis of many short values: nothing of it can be cut. */
  const wide = (n: number, items: number) => {
    const descricao = 'a description of usual length '.repeat(3)
    return noticeEntry(
      n,
      {},
      { items: Array.from({ length: items }, (_, at) => ({ numero_item: at, descricao })) },
    )
  }

  /** A warehouse in a file, as that of a company. */
  async function openFile(memory: string): Promise<WarehouseCase> {
    const directory = await temporaryDirectory()
    const options = { threads: 1, temporaryDirectory: join(directory, 'spilled') }
    const db = await Database.openProjection(join(directory, 'warehouse.duckdb'), options)
    onTestFinished(() => db.close())
    await db.run(`SET memory_limit = '${memory}'`)
    return await openWarehouseCase({}, db)
  }

  it('is applied in batches if its lines fit one by one', async () => {
    const warehouse = await openFile('60MB')
    const entries = Array.from({ length: 16 }, (_, n) => wide(n + 1, 5000))
    const { setAside } = await warehouse.apply(
      ...entries.flatMap(one => [noticeLine(one), analysisLine(one)]),
    )
    expect(setAside).toEqual([])
    expect(await warehouse.db.row('SELECT count(*) AS n FROM analyses')).toEqual({ n: 16 })
    expect(await metaOf(warehouse)).toMatchObject({ applied_segment: 1, log: 'r1' })
    expect(await warehouse.db.rows('FROM applied_segments')).toEqual([{ segment: 1, lines: 33 }])
  }, 60_000)

  it('loses only the line that causes it, which is named', async () => {
    const warehouse = await openFile('60MB')
    const [small, large] = [notices(1, 6), wide(7, 100_000)]
    const { setAside } = await warehouse.apply(
      ...[...small, large].flatMap(one => [noticeLine(one), analysisLine(one)]),
    )
    expect(setAside).toEqual([idOf(7)])
    expect(await warehouse.db.rows('SELECT edital_id FROM analyses ORDER BY 1')).toHaveLength(6)
    expect(await warehouse.db.rows('SELECT edital_id, kind, reason FROM quarantine')).toEqual([
      {
        edital_id: idOf(7),
        kind: 'analysis',
        reason: 'could not be loaded: it needs more memory than there is',
      },
    ])
  }, 60_000)
})
