import { z } from 'zod'
import { MAX_SQL_LENGTH } from '#src/server/read/order.ts'
import { MAX_BYTES, resultOf, tool } from './tool.ts'

const MAX_ROWS = 1000
const MAX_TEXT = 2000

const INPUT = z.strictObject({
  sql: z.string().min(1).max(MAX_SQL_LENGTH).describe('One SELECT statement of DuckDB.'),
  limit: z.int().min(1).max(MAX_ROWS).default(200).describe('Rows to return.'),
})

export const QUERY = tool({
  name: 'query',
  scope: 'sql',
  title: 'Query in SQL',
  description:
    'Runs one read-only SELECT of DuckDB on the tables and marts of the snapshot (also WITH, DESCRIBE, SUMMARIZE), for at most 5 seconds. The resource editais://dictionary lists tables and marts. Join by edital_id; live notices have deleted_at IS NULL.',
  input: INPUT,
  output: {
    columns: { type: 'array', items: { type: 'string' } },
    rows: { type: 'array', items: { type: 'array' } },
  },
  async find({ sql, limit }, read) {
    const answer = await read({
      statements: [{ sql, maxRows: limit }],
      isForeign: true,
      maxBytes: MAX_BYTES,
      maxText: MAX_TEXT,
    })
    const { columns, rows, isCut } = resultOf(answer, 0)
    return { answer, data: { columns, rows }, leftOut: isCut ? [more(rows.length)] : [] }
  },
})

function more(shown: number): string {
  if (shown === 0) return 'The first row is too long to be shown: select fewer columns, or parts of texts.'
  return `There are more rows than these ${shown}: aggregate, filter or use OFFSET.`
}
