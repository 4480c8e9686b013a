import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ANALYSIS } from '#schema/analysis.ts'
import { NOTICE, OPEN_STATUSES, STATUSES } from '#schema/notice.ts'
import { listFieldPaths } from '#schema/record.ts'
import { goodRunSql, isGoodRun } from '#schema/sync_runs.ts'
import { Database } from '#src/core/warehouse/database.ts'
import { MARTS, type Mart } from '#src/marts/marts.ts'
import { readMartSql } from '#src/marts/open.ts'

const sqlOf = (mart: string) => readMartSql(MARTS.find(({ name }) => name === mart) as Mart)

let db: Database
beforeAll(async () => {
  db = await Database.open(':memory:', { threads: 1 })
})
afterAll(() => db.close())

describe('fases', () => {
  it('has the phases of the contract in their order, and which of them are open', async () => {
    const rows = await db.rows<{ status: string; em_andamento: boolean }>(
      `SELECT status, em_andamento FROM (${await sqlOf('fases')}) ORDER BY fase_ordem`,
    )
    expect(rows).toEqual(STATUSES.map(status => ({ status, em_andamento: OPEN_STATUSES.includes(status) })))
    expect(OPEN_STATUSES).toEqual(['screening', 'analysis', 'pricing', 'ready'])
  })
})

describe('rotulos', () => {
  const rotulos = async () =>
    await db.rows<{ coluna: string; codigo: string; rotulo: string }>(
      `SELECT coluna, codigo, rotulo FROM (${await sqlOf('rotulos')}) ORDER BY coluna, ordem`,
    )

  it('has a label for each code of the analysis, in the order of the contract', async () => {
    const codes = [...listFieldPaths(ANALYSIS)].flatMap(([path, field]) => {
      if (!('values' in field) || !field.values || field.column === false) return []
      const coluna = path.includes('[].') ? path.replace('[]', '') : `analyses.${path.replace('.', '_')}`
      return field.values.filter(codigo => codigo !== '').map(codigo => ({ coluna, codigo }))
    })
    const columns = new Set(codes.map(({ coluna }) => coluna))
    const labelled = (await rotulos()).filter(({ coluna }) => columns.has(coluna))
    expect(columns.size).toBeGreaterThan(5)
    expect(labelled.map(({ coluna, codigo }) => ({ coluna, codigo }))).toEqual(
      [...Map.groupBy(codes, ({ coluna }) => coluna)]
        .toSorted(([a], [b]) => (a < b ? -1 : 1))
        .flatMap(([, those]) => those),
    )
    expect(labelled.filter(({ rotulo }) => rotulo.includes('_'))).toEqual([])
  })

  it('has a name for each field whose changes are recorded', async () => {
    const fields = Object.keys(NOTICE).filter(name => name !== 'id' && name !== 'updated_at')
    const named = (await rotulos()).filter(({ coluna }) => coluna === 'mudancas.campo')
    expect(named.map(({ codigo }) => codigo)).toEqual(fields)
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

  it('is what marts count as good', async () => {
    expect((await sqlOf('leituras')).replaceAll(/\s+/g, ' ')).toContain(`${goodRunSql()} AS boa FROM`)
  })
})
