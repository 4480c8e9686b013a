import { expect, test } from 'vitest'
import { DASHBOARDS } from '#config/metabase/dashboards.ts'
import { CATALOG, MARTS } from '#src/marts/marts.ts'
import { readCard } from '#src/present/questions.ts'

/** Words of this program, of statistics and of databases, which a bid team does not use. */
const TECHNICAL =
  /\b(?:snapshots?|instantâneos?|marts?|percenti[ls]|p\d\d|null|boolean|string|array|timestamp|sql|sha256|hash|payload|endpoint)\b/i
/** Marts are read by people, who know a list of notices. */
const API = /\bAPI\b/
/** As the API writes codes and keys: nobody reads `nao_recomendado`. */
const CODE = /\b[a-z]+_[a-z_]+\b/

type Text = readonly [where: string, text: string]

function catalogTexts(): Text[] {
  return CATALOG.flatMap(({ name, portuguese, columns }): Text[] => [
    ...portuguese.map((text): Text => [name, text]),
    ...columns.flatMap(column => column.portuguese.map((text): Text => [`${name}.${column.name}`, text])),
  ])
}

async function cardTexts(): Promise<Text[]> {
  const cards = DASHBOARDS.flatMap(({ cards }) => cards)
  const read = await Promise.all(cards.map(async ({ key }) => [key, await readCard(key)] as const))
  return [
    ...DASHBOARDS.flatMap(({ key, name, description }): Text[] => [
      [key, name],
      [key, description],
    ]),
    ...read.flatMap(([key, { name, description, sql }]): Text[] => [
      [key, name],
      [key, description],
      ...[...sql.matchAll(/AS "([^"]+)"/g)].map(([, column = '']): Text => [key, column]),
    ]),
  ]
}

test('what people read of tables, marts and dashboards has no technical word', async () => {
  const texts = [...catalogTexts(), ...(await cardTexts())]
  expect(texts.length).toBeGreaterThan(1500)
  expect(texts.filter(([, text]) => TECHNICAL.test(text))).toEqual([])
})

test('what people read of marts names the list, not the API that it comes from', () => {
  const marts = new Set(MARTS.map(({ name }) => name))
  const texts = catalogTexts().filter(([where]) => marts.has(where.split('.')[0] as string))
  expect(texts.length).toBeGreaterThan(500)
  expect(texts.filter(([, text]) => API.test(text))).toEqual([])
})

test('dashboards and cards show no code', async () => {
  expect((await cardTexts()).filter(([, text]) => CODE.test(text))).toEqual([])
})
