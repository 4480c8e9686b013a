import type { Mart, MartColumn } from '#schema/marts.ts'
import { PLAUSIBLE_YEARS } from '#schema/times.ts'
import type { Database } from '#src/store/warehouse/database.ts'
import { identifier, literal } from '#src/store/warehouse/quoted.ts'
import { inOrder } from './in_order.ts'

/** Excel recognizes UTF-8 by this mark. */
const BYTE_ORDER_MARK = '\uFEFF'
/** A text that begins like this could be a formula of a spreadsheet program. */
const FORMULA = '^[\\s\\p{Cc}]*[=+@＝＋＠－-]'

/**
 * Writes a mart as CSV in the form that spreadsheet programs expect in Brazil: semicolons, decimal commas, days before
 * months, labels in Portuguese. An apostrophe before a text that could be a formula keeps it text.
 */
export async function writeBrazilianCsv(db: Database, mart: Mart, path: string): Promise<void> {
  const values = mart.columns.map((column, index) => {
    // DuckDB writes no mark of its own.
    const label = `${index === 0 ? BYTE_ORDER_MARK : ''}${column.portuguese[0]}`
    return `${textOf(column)} AS ${identifier(label)}`
  })
  await db.run(
    `COPY (SELECT ${values.join(', ')} ${inOrder(mart)}) TO ${literal(path)}
     (FORMAT csv, DELIMITER ';', HEADER)`,
  )
}

function textOf({ name, type }: MartColumn): string {
  const column = identifier(name)
  switch (type) {
    case 'DATE':
      return ofPlausible(column, `strftime(${column}, '%d/%m/%Y')`)
    case 'TIMESTAMP':
      return ofPlausible(column, `strftime(${column}, '%d/%m/%Y %H:%M:%S')`)
    case 'TIMESTAMPTZ':
      return ofPlausible(column, `strftime(${column} AT TIME ZONE 'UTC', '%d/%m/%Y %H:%M:%S')`)
    case 'BOOLEAN':
      return `CASE ${column} WHEN true THEN 'sim' WHEN false THEN 'não' END`
    case 'DOUBLE':
      return `replace(${column}::VARCHAR, '.', ',')`
    case 'BIGINT':
    case 'INTEGER':
      return column
    default:
      return `CASE WHEN regexp_matches(${column}, ${literal(FORMULA)}) THEN '''' || ${column} ELSE ${column} END`
  }
}

/** Empty for an implausible time, which spreadsheet programs do not know. */
function ofPlausible(time: string, text: string): string {
  return `CASE WHEN year(${time}) BETWEEN ${PLAUSIBLE_YEARS.first} AND ${PLAUSIBLE_YEARS.last} THEN ${text} END`
}
