import { expect, it } from 'vitest'
import { analyses, editais } from '#schema/tables.ts'
import { readStoredInputs, type StoredInputs } from '#src/core/lake/catalog.ts'
import { MARTS } from '#src/marts/marts.ts'
import { loadMarts } from '#src/marts/open.ts'
import { syncHere } from '#test/support/here.ts'
import { openMarts } from '#test/support/marts.ts'
import { idOf, noticeEntry } from '#test/support/notices.ts'
import { runShared } from '#test/support/shared.ts'
import { spelledEntries } from '#test/support/spelled_entries.ts'
import { startCompany } from '#test/support/synced.ts'

const STORED = MARTS.filter(({ storedFrom }) => storedFrom)
const DAY = '2026-11-28'

/** Gives each row the values of the next one. */
function rotate(table: string, columns: readonly string[]): string {
  const next = columns.map(name => `coalesce(lead(${name}) OVER rest, first(${name}) OVER rest) AS ${name}`)
  return `UPDATE ${table} SET ${columns.map(name => `${name} = n.${name}`).join(', ')}
    FROM (SELECT edital_id, ${next.join(', ')} FROM ${table} WINDOW rest AS (ORDER BY edital_id)) n
    WHERE n.edital_id = ${table}.edital_id`
}

/** The marts whose inputs differ. */
function changedIn(before: StoredInputs, after: StoredInputs): string[] {
  return Object.keys(after).filter(name => after[name] !== before[name])
}

function naming(table: string, column: string): string[] {
  return STORED.filter(({ storedFrom }) => storedFrom?.[table]?.includes(column)).map(({ name }) => name)
}

it('stored marts follow from the columns that they name, and from no other', async () => {
  const entries = spelledEntries().map(({ edital, analysis }, n) => ({
    edital: {
      ...edital,
      // Three with a CNPJ; some of these and of the others are published again, in another order than their identifiers.
      ...(n < 3 && { pncp_id: `${'12'.repeat(7)}-2026-${n}` }),
      ...(n % 3 && { objeto: 'Publicado de novo', valor_estimado: 4000 }),
      status: n === 1 ? 'discarded' : 'analysis',
      numero: `${n}`,
      created_at: `2026-${['02', '12', '01', '11', '03', '10'][n]}-01T09:00:00Z`,
      data_sessao: `2026-07-${n + 10}T09:00:00`,
      ...(n === 4 && { uf: 'RJ', modalidade: 'Dispensa' }),
    },
    analysis: {
      ...analysis,
      overview: {
        prazo_impugnacao: n % 4 ? `${n} dias úteis` : null,
        lei_aplicavel: n % 2 ? '14.133' : '13.303',
      },
    },
  }))
  const marts = await openMarts(entries)
  await marts.run(new Date(), { gone: entries.slice(-1) })
  const rows = async () => {
    // Stored marts are computed again after a run.
    await marts.run(new Date(), {})
    const found: object[][] = []
    for (const { name } of STORED) found.push(await marts.query(`FROM ${name} ORDER BY ALL`))
    return found
  }
  for (const { name: table, columns } of [editais, analyses]) {
    const named = new Set(STORED.flatMap(({ storedFrom }) => storedFrom?.[table] ?? []))
    let stored = await rows()
    for (const column of [...named].slice(1)) {
      const inputs = await readStoredInputs(marts.db, await loadMarts(), DAY)
      await marts.db.run(rotate(table, [column]))
      expect(changedIn(inputs, await readStoredInputs(marts.db, await loadMarts(), DAY)), column).toEqual(
        naming(table, column),
      )
      const other = await rows()
      expect(other, column).not.toEqual(stored)
      stored = other
    }
    const others = columns.map(({ name }) => name).filter(name => name !== 'company' && !named.has(name))
    await marts.db.run(rotate(table, others))
    expect(await rows()).toEqual(stored)
  }
})

it('price bands are those of the first snapshot of a day, until a tenth more notices are analysed', async () => {
  const priced = (n: number, price: number) =>
    noticeEntry(
      n,
      {},
      { items: [{ descricao: 'Café moído', unidade_medida: 'UN', valor_unitario_estimado: price }] },
    )
  const company = await startCompany(Array.from({ length: 20 }, (_, n) => priced(n + 1, 10)))
  const noon = new Date().setUTCHours(15, 0, 0, 0)
  const highest = async (hours: number) => {
    await syncHere(company.environment, {}, { now: () => new Date(noon + hours * 3_600_000) })
    return await company.query('SELECT preco_max FROM faixas_de_preco')
  }
  expect(await highest(0)).toEqual([{ preco_max: 10 }])
  company.world.update(idOf(1), { analysis: priced(1, 12).analysis ?? {}, updatedAt: new Date(noon) })
  expect(await highest(1)).toEqual([{ preco_max: 10 }])
  // Tables show the new price at once.
  expect(await company.query('SELECT max(valor_unitario_estimado) AS most FROM items')).toEqual([
    { most: 12 },
  ])
  // A rebuilt warehouse has a catalog of its own.
  expect(await runShared(['rebuild'], company.environment)).toMatchObject({ code: 0 })
  expect(await company.query('SELECT preco_max FROM faixas_de_preco')).toEqual([{ preco_max: 12 }])
  company.world.update(idOf(2), { analysis: priced(2, 13).analysis ?? {}, updatedAt: new Date(noon) })
  expect(await highest(24)).toEqual([{ preco_max: 13 }])
  for (let n = 21; n <= 24; n += 1) company.world.put(priced(n, 14))
  expect(await highest(25)).toEqual([{ preco_max: 14 }])
})
