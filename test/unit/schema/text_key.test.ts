import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  cleanIfOtherSql,
  cleanText,
  makeModalityKey,
  makePrintable,
  makeTextKey,
  TEXT_MACROS,
} from '#schema/text_key.ts'
import { Database } from '#src/core/warehouse/database.ts'
import { KEYS, spellingsOf } from '#test/support/spelled_entries.ts'

const SEED = 3607
const UNIT_MACRO = join(import.meta.dirname, '../../../src/marts/macros/unidade_comparavel.sql')

type Read = {
  readonly limpo: string | null
  readonly chave: string | null
  readonly modalidade: string | null
  readonly guardado: string | null
}

let db: Database
beforeAll(async () => {
  db = await Database.open(':memory:', { threads: 1 })
  for (const { name, parameters, sql } of TEXT_MACROS)
    await db.run(`CREATE MACRO ${name}(${parameters}) AS ${sql}`)
  await db.run(`CREATE MACRO unidade_comparavel(unidade) AS ${await readFile(UNIT_MACRO, 'utf8')}`)
})
afterAll(() => db.close())

/** The same texts as DuckDB reads them. */
async function inSql(texts: readonly string[]): Promise<Read[]> {
  return await db.rows<Read>(
    `SELECT texto_limpo(t) AS limpo, chave(t) AS chave, chave_modalidade(t) AS modalidade, ${cleanIfOtherSql('t')} AS guardado
     FROM (SELECT unnest(from_json($texts, '["VARCHAR"]')) AS t, unnest(range(${texts.length})) AS n) ORDER BY n`,
    { texts: JSON.stringify(texts) },
  )
}

function inProgram(text: string): Read {
  const clean = cleanText(text)
  const isNothing = clean === ''
  return {
    limpo: isNothing ? null : clean,
    chave: isNothing ? null : makeTextKey(text),
    modalidade: isNothing ? null : makeModalityKey(text),
    guardado: clean === text ? null : clean,
  }
}

test.each(KEYS.clean.map(([text, clean]) => [JSON.stringify(text), text, clean] as const))(
  '%s is shown as it should be',
  (_, text, clean) => {
    expect(cleanText(text)).toBe(clean ?? '')
  },
)

describe.each([
  ['texts', KEYS, makeTextKey],
  ['modalities', KEYS.modalities, makeModalityKey],
] as const)('%s', (_, { same, different }, key) => {
  test.each(same.map(one => [one[0], one] as const))('%s is one in all its spellings', (__, spellings) => {
    expect([...new Set(spellings.map(key))]).toHaveLength(1)
  })

  test.each(different.map(each => [each.join(', '), each] as const))('%s are several', (__, each) => {
    expect(new Set(each.map(key)).size).toBe(each.length)
  })
})

test('units are one in all their spellings, and others stay apart', async () => {
  const keys = async (texts: readonly string[]) => {
    const rows = await db.rows<{ key: string }>(
      `SELECT unidade_comparavel(unnest(from_json($texts, '["VARCHAR"]'))) AS key`,
      { texts: JSON.stringify(texts) },
    )
    return new Set(rows.map(({ key }) => key))
  }
  for (const spellings of KEYS.units.same) expect((await keys(spellings)).size, spellings.join()).toBe(1)
  for (const units of KEYS.units.different) expect((await keys(units)).size, units.join()).toBe(units.length)
})

/** The texts that SQL reads in another way. */
async function readOtherwise(texts: readonly string[]): Promise<string[]> {
  const read = await inSql(texts)
  return texts.filter((text, n) => JSON.stringify(read[n]) !== JSON.stringify(inProgram(text)))
}

test('SQL and the program read each text of the corpus alike', async () => {
  const { clean, same, different, modalities } = KEYS
  const texts = [
    ...clean.map(([text]) => text),
    ...[same, different, modalities.same, modalities.different].flat(2),
  ]
  expect(await readOtherwise(texts)).toEqual([])
})

test('SQL and the program read each character alike, of those that both know', async () => {
  // Unassigned in the Unicode of one of them, or given case since.
  const known = /[\p{L}\p{N}\p{P}\p{S}\p{Z}\p{M}\p{Cf}\p{Cc}]/u
  const texts = Array.from({ length: 0x3100 }, (__, code) => String.fromCodePoint(code))
    .filter(one => one !== '\0' && known.test(one))
    .filter(one => !NEW_TO_DUCKDB.test(one))
    .map(one => `a${one}B ${one}`)
  expect(await readOtherwise(texts)).toEqual([])
})

/** Letters, marks and cases of Unicode 15 and later. */
const NEW_TO_DUCKDB = /[\u088f\u0c5c\u0cdc]|\u0897|[\u1acf-\u1add]|[\u1ae0-\u1aeb]|[\u1c89\u1c8a]/u

test(`however a text is written, it has one key, in SQL as well (seed ${SEED})`, async () => {
  const texts = [
    'Pregão - Eletrônico',
    'São Paulo',
    'Órgão de Água e Energia',
    'Luva nº 7 (látex)',
    'İstanbul ΟΔΟΣ',
  ]
  const spelled = texts.map(text => fc.sample(spellingsOf(text), { seed: SEED, numRuns: 200 }))
  expect(await readOtherwise(spelled.flat())).toEqual([])
  for (const [n, text] of texts.entries())
    for (const key of [makeTextKey, makeModalityKey])
      expect(spelled[n]?.filter(spelling => key(spelling) !== key(text))).toEqual([])
})

test(`what is clean stays as it is, and any text is cleaned alike (seed ${SEED})`, async () => {
  const texts = fc.sample(fc.string({ unit: unitOf() }), { seed: SEED, numRuns: 1000 })
  expect(texts.filter(text => cleanText(cleanText(text)) !== cleanText(text))).toEqual([])
  expect(texts.filter(text => makeTextKey(cleanText(text)) !== makeTextKey(text))).toEqual([])
  expect(await readOtherwise(texts)).toEqual([])
})

/** Characters in which something happens: spaces, marks, letters that compose, Hangul. */
function unitOf(): fc.Arbitrary<string> {
  return fc.constantFrom(
    ...[
      ' ',
      ' ',
      'a',
      'e',
      'Ç',
      'ã',
      '\u0303',
      '\u0323',
      '\u0301',
      '\u200b',
      '\u00ad',
      '\u00a0',
      '\n',
      '-',
      'ß',
      'Σ',
    ],
    ...['\u1112', '\u1161', '\u11ab', '\u202e', '5', '\ufe0f', '\u2028', '\u212b', 'ﬁ', 'И\u0306', '😀'],
  )
}

test('long texts are read in time that grows with their length alone', () => {
  const started = performance.now()
  for (const part of [' ', 'a ', '\u200b', '\u00a0x', 'ã', 'a\u0303', '  a'])
    expect(cleanText(part.repeat(200_000)).length).toBeGreaterThanOrEqual(0)
  expect(performance.now() - started).toBeLessThan(4000)
})

test('a terminal gets no character that it would obey, and keeps spaces', () => {
  expect(makePrintable('a\u001b[31m\u202eb\u200b  c\r\nd\u0085e')).toBe('a [31mb  c d e')
})
