import { z } from 'zod'
import { type Mart, type MartColumn, VIEWS } from '#schema/marts/marts.ts'
import { readPncpId } from '#schema/pncp_id.ts'
import { identifier } from '#src/core/warehouse/quoted.ts'
import { FatalError } from '#src/lib/errors.ts'
import { records } from '#src/server/read/order.ts'
import { identified, MAX_BYTES, RECORDS, resultOf, type SqlCondition, type ToolResult, tool } from './tool.ts'

const MAX_ROWS = 200
const MAX_TEXT = 1000
const MAX_FILTERS = 10
const IDENTIFIERS = ['company', 'edital_id', 'pncp_id', 'orgao_cnpj', 'pncp_url', 'snapshot']

const INPUT = z.strictObject({
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

type Filters = z.output<typeof INPUT>['filters']

export const ASK_MART = tool({
  name: 'ask_mart',
  scope: 'read',
  title: 'Read a mart',
  description:
    'Rows of a mart: a view that answers a common question, such as the funnel, sessions, pending requirements, payment risk or price ranges. Without a name: the marts and what each holds. The resource editais://dictionary/{relation} describes its columns.',
  input: INPUT,
  output: { mart: { type: 'string' }, rows: RECORDS, marts: RECORDS },
  async find({ mart: name, filters, limit, offset }, read) {
    if (name === undefined) return listed()
    const mart = VIEWS.find(view => view.name === name)
    if (!mart) throw new FatalError(`There is no mart ${shown(name)}. ask_mart without a name lists them.`)
    const { sql, values } = condition(mart, filters ?? {})
    const answer = await read({
      statements: [
        {
          // One more shows whether there are others. Marts with an order of their own keep it.
          sql: `SELECT * FROM ${identifier(mart.name)} WHERE ${sql} LIMIT ${limit + 1} OFFSET ${offset}`,
          values,
          maxRows: limit,
        },
      ],
      isForeign: false,
      maxBytes: MAX_BYTES,
      maxText: MAX_TEXT,
    })
    const rows = resultOf(answer, 0)
    return {
      answer,
      data: { mart: mart.name, description: mart.portuguese[1], rows: records(rows) },
      leftOut: rows.isCut
        ? [`There are more rows: use offset ${offset + rows.rows.length}, or filters.`]
        : [],
    }
  },
})

function listed(): ToolResult {
  const marts = VIEWS.map(({ name, description, portuguese: [title, meaning] }) => {
    return { name, title, description, descricao: meaning }
  })
  return { answer: null, data: { marts }, leftOut: [] }
}

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
  const isWhole = id.cnpj !== null && id.year !== null && id.sequence !== null
  if (column === 'pncp_id' && isWhole) return identified(value, name) as SqlCondition
  const values = { [name]: column === 'orgao_cnpj' ? (id.cnpj ?? value) : value }
  if (type !== 'VARCHAR' || IDENTIFIERS.includes(column))
    return { sql: `${at} = CAST($${name} AS ${type})`, values }
  const key = column === 'modalidade' ? 'chave_modalidade' : 'chave'
  return { sql: `${key}(${at}) IS NOT DISTINCT FROM ${key}($${name})`, values }
}

function shown(name: string): string {
  return JSON.stringify(name)
}
