import { z } from 'zod'
import { readPncpId } from '#schema/pncp_id.ts'
import { cleanText, makeTextKey } from '#schema/text_key.ts'
import { identifier } from '#src/core/warehouse/quoted.ts'
import { FatalError } from '#src/lib/errors.ts'
import { type Mart, type MartColumn, VIEWS } from '#src/marts/marts.ts'
import { MAX_SQL_LENGTH, makeRecords } from '#src/server/read/order.ts'
import { getResult, type List, tool } from './tool.ts'

/** The tools that read marts: what is due, what is new, buyers, prices, any mart, and SQL. */

const MAX_DAYS = 90
const MAX_LISTED = 60
const NAMED = 'edital_id, left(numero, 60) AS numero, left(orgao, 120) AS orgao, uf'
const ABOUT = `${NAMED}, left(objeto, 240) AS objeto`

const DUE = z.strictObject({
  days: z.int().min(0).max(MAX_DAYS).default(7).describe('Days from today; 0 is today only.'),
})

/** Lists of what is due, each from the mart that knows it. `$days` is the last day. */
const DUE_LISTS = {
  sessions: `SELECT ${ABOUT}, fase, participation_confirmed, recomendacao, data_sessao_local, dias_ate_sessao,
      valor_estimado_informado, requisitos_vermelhos, alertas_criticos
    FROM agenda_sessoes WHERE dias_ate_sessao BETWEEN 0 AND $days::INTEGER
    ORDER BY data_sessao_local, edital_id`,
  contest_deadlines: `SELECT ${ABOUT}, fase, recomendacao, ultimo_dia_impugnacao, dias_ate_impugnacao, regra_impugnacao,
      certeza_impugnacao, data_sessao_local
    FROM edital_resumo WHERE em_andamento AND dias_ate_impugnacao BETWEEN 0 AND $days::INTEGER
    ORDER BY dias_ate_impugnacao, edital_id`,
  question_deadlines: `SELECT ${ABOUT}, fase, recomendacao, ultimo_dia_esclarecimento, dias_ate_esclarecimento,
      regra_esclarecimento, certeza_esclarecimento, data_sessao_local
    FROM edital_resumo WHERE em_andamento AND dias_ate_esclarecimento BETWEEN 0 AND $days::INTEGER
    ORDER BY dias_ate_esclarecimento, edital_id`,
  alerts_with_deadline: `SELECT ${NAMED}, prazo, dias_ate_prazo, regra_prazo, certeza_prazo, acao, tipo, severidade,
      left(titulo, 240) AS titulo
    FROM alertas_juridicos WHERE em_andamento AND dias_ate_prazo BETWEEN 0 AND $days::INTEGER
    ORDER BY dias_ate_prazo, severidade_ordem, edital_id, ordinal`,
} as const

export const LIST_DUE = tool({
  name: 'list_due',
  scope: 'read',
  title: 'List what is due',
  description:
    'Sessions, last days to contest a notice and to ask questions about it, and legal alerts with a deadline in the next days, of notices in progress. Holidays of cities are unknown, and a day that is "a confirmar" is the earliest of several possible ones: check the notice.',
  input: DUE,
  async find({ days }, { read }) {
    const values = { days: String(days) }
    const answer = await read(Object.values(DUE_LISTS).map(sql => ({ sql, values, maxRows: MAX_LISTED })))
    const lists = Object.keys(DUE_LISTS).map((name, index): List => {
      const more = (shown: number) =>
        `More ${name} than shown: ${shown < MAX_LISTED ? 'use a larger max_kb, or fewer days' : 'use fewer days'}.`
      return makeList(name, answer.results[index], more)
    })
    return { source: answer, data: { days }, lists }
  },
})

const KINDS = [
  'Sessão antecipada',
  'Sessão remarcada',
  'Parecer alterado',
  'Objeto alterado',
  'Valor alterado',
  'Saiu da lista',
  'Novo edital',
  'Mudou de fase',
] as const

const NEWS = z.strictObject({
  since: z.iso.date().optional().describe('First local day, as 2026-12-31; without it, yesterday.'),
  kinds: z.array(z.enum(KINDS)).max(KINDS.length).optional().describe('Kinds of changes; without them, all.'),
  offset: z.int().min(0).max(100_000).default(0).describe('Changes to skip.'),
})

export const LIST_NEWS = tool({
  name: 'list_news',
  scope: 'read',
  title: 'List what is new',
  description:
    'New and changed notices, one row for each change: new and gone notices, phase, session, object, value and verdict, each with what was there before and after. The latest day first, and in a day what matters most.',
  input: NEWS,
  async find({ since, kinds, offset }, { read }) {
    const chosen = kinds?.length ? kinds : KINDS
    const values = Object.fromEntries(chosen.map((kind, index) => [`kind${index}`, kind]))
    const from = since === undefined ? 'local_time(company, agora())::DATE - 1' : '$since::DATE'
    const answer = await read([
      {
        sql: `SELECT observado_dia, mudanca, de, para, retificacao, ${ABOUT}, impugnar_ate FROM novidades
          WHERE observado_dia >= ${from} AND mudanca IN (${Object.keys(values).map(name => `$${name}`)})
          ORDER BY observado_dia DESC, mudanca_ordem, observado_em DESC, edital_id LIMIT ${MAX_ROWS + 1} OFFSET ${offset}`,
        values: { ...values, ...(since !== undefined && { since }) },
        maxRows: MAX_ROWS,
      },
    ])
    const more = (shown: number) => `More changes: use offset ${offset + shown}, a later day or fewer kinds.`
    return { source: answer, lists: [makeList('news', answer.results[0], more)] }
  },
})

/** Words of names of buyers that distinguish none. */
const GENERIC =
  'prefeitura municipal municipio governo estado estadual secretaria de do da dos das e a o'.split(' ')
const MAX_BUYERS = 15
/** How near words must be: "campina" is 0.97 of "campinas", and "santos" 0.9 of "santo". */
const NEAR = 0.88

const BUYERS = z.strictObject({
  name: z.string().min(1).max(200).describe('The name of a buyer, roughly: "prefeitura de campinas".'),
})

export const FIND_BUYERS = tool({
  name: 'find_buyers',
  scope: 'read',
  title: 'Find buyers by name',
  description:
    'Buyers whose name is like this one, also if it is misspelled or incomplete, with their notices, values, next session and payment risk. search_notices finds the notices of one by its orgao_cnpj.',
  input: BUYERS,
  async find({ name }, { read }) {
    const all = makeTextKey(name).split(' ').filter(Boolean)
    const words = all.filter(word => !GENERIC.includes(word))
    const named = (words.length > 0 ? words : all).slice(0, 8)
    if (named.length === 0) throw new FatalError('name has no word.')
    const values = Object.fromEntries(named.map((word, index) => [`word${index}`, word]))
    const near = Object.keys(values).map(
      word => `list_max([jaro_winkler_similarity($${word}, own) FOR own IN palavras])`,
    )
    const answer = await read([
      {
        sql: `SELECT * EXCLUDE (palavras, perto) FROM (
            SELECT orgao_cnpj, orgao, uf, editais, editais_em_andamento, descartados, valor_em_andamento, proxima_sessao_dia,
              risco_pagamento_rotulo AS risco_pagamento, string_split(chave(orgao), ' ') AS palavras, least(${near}) AS perto
            FROM orgaos)
          WHERE perto >= ${NEAR} ORDER BY round(perto, 1) DESC, editais DESC, orgao LIMIT ${MAX_BUYERS + 1}`,
        values,
        maxRows: MAX_BUYERS,
      },
    ])
    const more = () => 'More buyers have a like name: give more of it.'
    return { source: answer, lists: [makeList('buyers', answer.results[0], more)] }
  },
})

const PRICES = z.strictObject({
  item: z.string().min(2).max(200).describe('Words of the item, such as "papel sulfite a4".'),
  uf: z
    .string()
    .overwrite(cleanText)
    .regex(/^[A-Za-z]{2}$/)
    .optional()
    .describe('State of the buyers, such as SP.'),
})

/** The words of an item, each with a space in front: "cola" begins none of "caderno escolar". */
const ITEM_WORDS = "' ' || regexp_replace(chave(item), '[^a-z0-9]+', ' ', 'g')"
const MAX_UNITS = 10
const MAX_EXAMPLES = 15

export const COMPARE_PRICES = tool({
  name: 'compare_prices',
  scope: 'read',
  title: 'Compare prices of an item',
  description:
    'Estimated unit prices of items whose description has these words, by unit: number, lowest, tenth, median, ninetieth percentile and highest; and the latest such items. Items under one description can still differ: compare like with like.',
  input: PRICES,
  async find({ item, uf }, { read }) {
    // Loaded for the first prices: they bring a stemmer.
    const { removeNumber, splitWords } = await import('#src/server/search/words.ts')
    const words = splitWords(item).map(removeNumber).slice(0, 8)
    if (words.length === 0) throw new FatalError('item has no word.')
    const values = {
      ...Object.fromEntries(words.map((word, index) => [`word${index}`, ` ${word}`])),
      ...(uf !== undefined && { uf }),
    }
    const found = `SELECT i.*, coalesce(descricao_limpa, descricao) AS item, orgao, e.uf,
        local_time(e.company, created_at)::DATE AS dia
      FROM items i JOIN editais e USING (company, edital_id)
      WHERE valor_unitario_estimado > 0 AND NOT valor_suspeito(valor_unitario_estimado)
        ${words.map((_, index) => `AND contains(${ITEM_WORDS}, $word${index})`).join(' ')}
        ${uf === undefined ? '' : 'AND chave(e.uf) = chave($uf)'}`
    const price = 'valor_unitario_estimado'
    const answer = await read([
      {
        sql: `SELECT unidade_comparavel(unidade_medida) AS unidade, count(*) AS itens, count(DISTINCT edital_id) AS editais,
            min(${price}) AS preco_min, round(quantile_cont(${price}, 0.1), 4) AS preco_p10,
            round(median(${price}), 4) AS preco_mediano, round(quantile_cont(${price}, 0.9), 4) AS preco_p90,
            max(${price}) AS preco_max, min(dia) AS primeiro_dia, max(dia) AS ultimo_dia
          FROM (${found}) GROUP BY ALL ORDER BY itens DESC, unidade LIMIT ${MAX_UNITS + 1}`,
        values,
        maxRows: MAX_UNITS,
      },
      {
        sql: `SELECT left(item, 200) AS item, unidade_medida, ${price}, quantidade, orgao, uf, dia, edital_id
          FROM (${found}) ORDER BY dia DESC NULLS LAST, edital_id, ordinal LIMIT ${MAX_EXAMPLES + 1}`,
        values,
        maxRows: MAX_EXAMPLES,
      },
    ])
    const more = () => 'There are more: use more words of the item, or a state.'
    const lists = ['prices_by_unit', 'latest_items'].map((name, index) =>
      makeList(name, answer.results[index], more),
    )
    return { source: answer, lists }
  },
})

const MAX_ROWS = 200
const MAX_FILTERS = 10
const IDENTIFIERS = ['company', 'edital_id', 'pncp_id', 'orgao_cnpj', 'pncp_url', 'snapshot']

const ASKED = z.strictObject({
  mart: z.string().max(60).optional().describe('Name of a mart. Without it: the list of all marts.'),
  filters: z
    .record(z.string().max(60), z.union([z.string().max(500), z.number(), z.boolean(), z.null()]))
    .optional()
    .describe(
      `Columns and the values that they must equal, at most ${MAX_FILTERS}; null for empty. Case, accents and spaces of texts do not matter, nor how a CNPJ or an identifier of the portal is written. Example: {"uf": "SP", "em_andamento": true}.`,
    ),
  limit: z.int().min(1).max(MAX_ROWS).default(50).describe('Rows to return.'),
  offset: z.int().min(0).max(1_000_000).default(0).describe('Rows to skip.'),
})

type Filters = z.output<typeof ASKED>['filters']

export const ASK_MART = tool({
  name: 'ask_mart',
  scope: 'read',
  title: 'Read a mart',
  description:
    'Rows of a mart: a view that answers a common question, such as the funnel, what to decide, pending requirements, payment risk or price ranges. Without a name: the marts and what each holds. The resource editais://dictionary/{relation} describes its columns.',
  input: ASKED,
  async find({ mart: name, filters, limit, offset }, { read }) {
    if (name === undefined) return { source: null, lists: [MART_LIST] }
    const mart = VIEWS.find(view => view.name === name)
    if (!mart) throw new FatalError(`There is no mart ${shown(name)}. ask_mart without a name lists them.`)
    const { sql, values } = condition(mart, filters ?? {})
    // One more shows whether there are others. Marts with an order of their own keep it.
    const asked = `SELECT * FROM ${identifier(mart.name)} WHERE ${sql} LIMIT ${limit + 1} OFFSET ${offset}`
    const answer = await read([{ sql: asked, values, maxRows: limit }])
    const more = (count: number) => `There are more rows: use offset ${offset + count}, or filters.`
    const rows = makeList('rows', answer.results[0], more)
    return { source: answer, data: { mart: mart.name, description: mart.portuguese[1] }, lists: [rows] }
  },
})

const MART_LIST: List = {
  name: 'marts',
  rows: VIEWS.map(({ name, portuguese: [title, meaning] }) => ({ name, title, meaning })),
  isCut: false,
  more: count => `${VIEWS.length - count} more marts: use a larger max_kb, or the resource editais://marts.`,
}

const ASKED_IN_SQL = z.strictObject({
  sql: z.string().min(1).max(MAX_SQL_LENGTH).describe('One SELECT statement of DuckDB.'),
  limit: z.int().min(1).max(1000).default(200).describe('Rows to return.'),
})

export const QUERY = tool({
  name: 'query',
  scope: 'sql',
  title: 'Query in SQL',
  description:
    'Runs one read-only SELECT of DuckDB on the tables and marts of the snapshot (also WITH, DESCRIBE, SUMMARIZE), for at most 5 seconds. The resource editais://dictionary lists tables and marts. Join by edital_id; live notices have deleted_at IS NULL.',
  input: ASKED_IN_SQL,
  async find({ sql, limit }, { read }) {
    const answer = await read([{ sql, maxRows: limit }], { isForeign: true })
    const { columns, rows, isCut } = getResult(answer, 0)
    const more = (count: number) =>
      `There are more rows than these ${count}: use a larger max_kb, fewer columns, or OFFSET.`
    return { source: answer, data: { columns }, lists: [{ name: 'rows', rows, isCut, more }] }
  },
})

function makeList(
  name: string,
  rows: Parameters<typeof makeRecords>[0] | undefined,
  more: List['more'],
): List {
  return { name, rows: rows ? makeRecords(rows) : [], isCut: rows?.isCut ?? false, more }
}

/** A condition of SQL, and the values of its parameters. */
type SqlCondition = { readonly sql: string; readonly values: Readonly<Record<string, string>> }

/** Makes the condition for filters. Column names are ours, after they were found in the mart; values are parameters. */
function condition(mart: Mart, filters: NonNullable<Filters>) {
  const pairs = Object.entries(filters)
  if (pairs.length > MAX_FILTERS) throw new FatalError(`At most ${MAX_FILTERS} filters are allowed.`)
  const values: Record<string, string> = {}
  const parts = pairs.map(([name, value], index) => {
    const column = mart.columns.find(one => one.name === name)
    if (!column) {
      const names = mart.columns.map(one => one.name).join(', ')
      throw new FatalError(`${mart.name} has no column ${shown(name)}. It has ${names}.`)
    }
    if (value === null) return `${identifier(column.name)} IS NULL`
    const { sql, values: given } = equal(column, String(value), `value${index}`)
    Object.assign(values, given)
    return sql
  })
  return { sql: ['true', ...parts].join(' AND '), values }
}

/**
 * Returns SQL that compares a value. Texts are equal if they have the same key, identifiers to the letter; those of the portal
 * and CNPJs in any spelling.
 * @param name of the parameter.
 */
function equal({ name: column, type }: MartColumn, value: string, name: string): SqlCondition {
  const at = identifier(column)
  const id = readPncpId(value)
  if (column === 'pncp_id' && id.cnpj !== null && id.year !== null && id.sequence !== null) {
    const values = {
      [`${name}_cnpj`]: id.cnpj,
      [`${name}_ano`]: String(id.year),
      [`${name}_seq`]: String(id.sequence),
    }
    const same = `orgao_cnpj = $${name}_cnpj AND pncp_ano = $${name}_ano::INTEGER AND pncp_sequencial = $${name}_seq::BIGINT`
    return { sql: `edital_id IN (SELECT edital_id FROM editais WHERE ${same})`, values }
  }
  const values = { [name]: column === 'orgao_cnpj' ? (id.cnpj ?? value) : value }
  if (type !== 'VARCHAR' || IDENTIFIERS.includes(column))
    return { sql: `${at} = CAST($${name} AS ${type})`, values }
  const key = column === 'modalidade' ? 'chave_modalidade' : 'chave'
  return { sql: `${key}(${at}) IS NOT DISTINCT FROM ${key}($${name})`, values }
}

function shown(name: string): string {
  return JSON.stringify(name)
}
