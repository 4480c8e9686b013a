import type { Mart, MartColumn } from '#schema/marts/marts.ts'
import { PLAUSIBLE_YEARS } from '#schema/times.ts'
import type { Database } from '#src/store/warehouse/database.ts'
import { identifier, literal } from '#src/store/warehouse/quoted.ts'
import { CSV_TEXT_MACROS } from './csv_text.ts'
import { inOrder } from './in_order.ts'

/** Excel recognizes UTF-8 by this mark. */
const BYTE_ORDER_MARK = '\uFEFF'

/**
 * Writes a mart as CSV in the form that spreadsheet programs expect in Brazil: semicolons, decimal commas, days before
 * months, labels in Portuguese. Texts stay texts: see `csv_text.ts`.
 */
export async function writeBrazilianCsv(db: Database, mart: Mart, path: string): Promise<void> {
  for (const macro of CSV_TEXT_MACROS) await db.run(macro)
  const texts = mart.columns.filter(({ type }) => type === 'VARCHAR').map(({ name }) => name)
  const values = mart.columns.map((column, index) => {
    // DuckDB writes no mark of its own.
    const label = `${index === 0 ? BYTE_ORDER_MARK : ''}${column.portuguese[0]}`
    return `${writtenValue(column, texts)} AS ${identifier(label)}`
  })
  // One list, so that its expressions are compiled once.
  const list = `csv_texts([${texts.map(identifier).join(', ')}])`
  const relation = `(SELECT *, ${list} AS "texts" FROM ${identifier(mart.name)})`
  await db.run(
    `COPY (SELECT ${values.join(', ')} ${inOrder(mart, relation)}) TO ${literal(path)}
     (FORMAT csv, DELIMITER ';', HEADER)`,
  )
}

/** Returns SQL for a value as it is written. @param texts the columns in the list "texts". */
function writtenValue({ name, type }: MartColumn, texts: readonly string[]): string {
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
    case 'VARCHAR':
      return `"texts"[${texts.indexOf(name) + 1}]`
    default:
      return column
  }
}

/** Returns SQL that is empty for an implausible time, which spreadsheet programs do not know. */
function ofPlausible(time: string, text: string): string {
  return `CASE WHEN year(${time}) BETWEEN ${PLAUSIBLE_YEARS.first} AND ${PLAUSIBLE_YEARS.last} THEN ${text} END`
}
