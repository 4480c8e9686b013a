import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { OPEN_STATUSES, STATUSES } from '#schema/notice.ts'
import { goodRunSql, isGoodRun } from '#schema/sync_runs.ts'
import { Database } from '#src/store/warehouse/database.ts'

const sqlOf = (mart: string) =>
  readFileSync(new URL(`../../../schema/marts/${mart}.sql`, import.meta.url), 'utf8')

let db: Database
beforeAll(async () => {
  db = await Database.open(':memory:', { threads: 1 })
})
afterAll(() => db.close())

describe('fases', () => {
  it('has the phases of the contract in their order, and which of them are open', async () => {
    const rows = await db.rows<{ status: string; em_andamento: boolean }>(
      `SELECT status, em_andamento FROM (${sqlOf('fases')}) ORDER BY fase_ordem`,
    )
    expect(rows).toEqual(STATUSES.map(status => ({ status, em_andamento: OPEN_STATUSES.includes(status) })))
    expect(OPEN_STATUSES).toEqual(['screening', 'analysis', 'pricing', 'ready'])
  })
})

describe('a good run', () => {
  const runs = ['full', 'incremental', 'filtered', 'replay', 'salvage'].flatMap(mode =>
    ['ok', 'partial', 'failed', 'interrupted'].flatMap(status =>
      [0, 1].map(not_attempted => ({ mode, status, not_attempted })),
    ),
  )

  it('read the whole list, attempted everything, and was ok or partial', () => {
    expect(runs.filter(isGoodRun)).toEqual([
      { mode: 'full', status: 'ok', not_attempted: 0 },
      { mode: 'full', status: 'partial', not_attempted: 0 },
      { mode: 'incremental', status: 'ok', not_attempted: 0 },
      { mode: 'incremental', status: 'partial', not_attempted: 0 },
    ])
  })

  it('is the same in SQL', async () => {
    const rows = runs.map(({ mode, status, not_attempted }) => `('${mode}', '${status}', ${not_attempted})`)
    const good = await db.rows(
      `FROM (VALUES ${rows.join(', ')}) AS run(mode, status, not_attempted) WHERE ${goodRunSql('run.')}`,
    )
    expect(good).toEqual(runs.filter(isGoodRun))
  })

  it('is what frescor counts as good', () => {
    expect(sqlOf('frescor').replaceAll(/\s+/g, ' ')).toContain(`FILTER ( ${goodRunSql()} ) AS ultima_boa_em`)
  })
})
