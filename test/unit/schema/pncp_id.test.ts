import fc from 'fast-check'
import { expect, it } from 'vitest'
import { readPncpId } from '#schema/pncp_id.ts'
import { editais } from '#schema/tables.ts'
import type { Row } from '#src/core/warehouse/database.ts'
import { literal } from '#src/core/warehouse/quoted.ts'
import { flatten } from '#src/core/warehouse/sql.ts'
import { identifierOf } from '#test/support/oracle/identifier.ts'
import { openScratch } from '#test/support/worker_database.ts'

/** fast-check names it with the case that fails. */
const SEED = 36

const CHARACTER = fc.constantFrom(...'0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ')
const UNSEEN = fc.constantFrom('', '', '', ' ', '\u00a0', '\u200b', '\u00ad', '\t', '\u202f', '\ufeff')

type Parts = { readonly cnpj: string; readonly year: number; readonly sequence: number }

const parts: fc.Arbitrary<Parts> = fc.record({
  cnpj: fc
    .tuple(fc.string({ unit: CHARACTER, minLength: 12, maxLength: 12 }), fc.integer({ min: 10, max: 99 }))
    .map(([base, digits]) => `${base}${digits}`),
  year: fc.integer({ min: 2021, max: 2060 }),
  sequence: fc.nat({ max: 2_000_000 }),
})

/** A spelling of an identifier. */
const spelled = parts.chain(one =>
  fc
    .record({
      isPortal: fc.boolean(),
      isPunctuated: fc.boolean(),
      isLower: fc.boolean(),
      dash: fc.constantFrom('-', '\u2011', '\u2013'),
      zeros: fc.nat({ max: 6 }),
      unseen: fc.array(UNSEEN, { minLength: 60, maxLength: 60 }),
    })
    .map(how => ({ ...one, text: spell(one, how) })),
)

type How = {
  readonly isPortal: boolean
  readonly isPunctuated: boolean
  readonly isLower: boolean
  readonly dash: string
  readonly zeros: number
  readonly unseen: readonly string[]
}

function spell({ cnpj, year, sequence }: Parts, how: How): string {
  const punctuated = cnpj.replace(/^(..)(...)(...)(....)(..)$/, '$1.$2.$3/$4-$5')
  const buyer = how.isPunctuated ? punctuated : cnpj
  const number = String(sequence).padStart(how.zeros, '0')
  const text = how.isPortal ? `${buyer}-1-${number}/${year}` : `${buyer}-${year}-${number}`
  const written = (how.isLower ? text.toLowerCase() : text).replaceAll('-', how.dash)
  return [...written].map((character, index) => (how.unseen[index] ?? '') + character).join('')
}

/** The columns that DuckDB makes of these texts. */
async function columnsOf(texts: readonly string[]): Promise<Row[]> {
  const db = await openScratch()
  const { columns } = editais
  const table = { ...editais, columns: columns.filter(({ from }) => 'pncpIdPart' in from) }
  const rows = texts.map((text, index) => `(${index}, {'pncp_id': ${literal(text)}})`)
  return await db.rows(
    `SELECT * EXCLUDE (place) FROM (${flatten(table, `(FROM (VALUES ${rows.join(', ')}) t(place, notice))`, 'UTC', ['place'])}) ORDER BY place`,
  )
}

const asColumns = (text: string) => {
  const { cnpj, year, sequence } = readPncpId(text)
  return { orgao_cnpj: cnpj, pncp_ano: year, pncp_sequencial: sequence === null ? null : Number(sequence) }
}

it('an identifier has the same parts in every spelling, in TypeScript and in SQL', async () => {
  const all = fc.sample(spelled, { numRuns: 300, seed: SEED })
  const expected = all.map(({ cnpj, year, sequence }) => ({
    ...{ orgao_cnpj: cnpj, pncp_ano: year, pncp_sequencial: sequence },
  }))
  const texts = all.map(({ text }) => text)
  expect(texts.map(asColumns)).toEqual(expected)
  expect(await columnsOf(texts)).toEqual(expected)
})

it('texts of any kind are read alike in TypeScript and in SQL, and as another reader does', async () => {
  const piece = fc.constantFrom(
    '1',
    '12',
    '-',
    '/',
    '.',
    '2026',
    '12ABC34501DE35',
    '12.345.678/0001-95',
    'é',
    ' ',
    '0'.repeat(30),
  )
  const texts = fc
    .sample(fc.array(piece, { maxLength: 9 }), { numRuns: 600, seed: SEED })
    .map(all => all.join(''))
  expect(await columnsOf(texts)).toEqual(texts.map(asColumns))
  expect(texts.map(readPncpId)).toEqual(texts.map(identifierOf))
})

it('a text without end is read in time that grows with its length alone', () => {
  const started = performance.now()
  for (const character of ['-', '/', '1', ' ', '1-', '1/'])
    expect(readPncpId(character.repeat(1_000_000))).toEqual({ cnpj: null, year: null, sequence: null })
  expect(performance.now() - started).toBeLessThan(1000)
})
