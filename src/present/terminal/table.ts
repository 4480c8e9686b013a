import Table from 'cli-table3'
import { makePrintable } from '#schema/text_key.ts'
import type { ResultColumn, Row, WrittenRow } from '#src/core/warehouse/database.ts'

const MAX_CELL_CHARACTERS = 60

/** Renders rows as a table for people: numbers right-aligned, long text cut. */
export function renderTable(
  names: readonly string[],
  rows: readonly Row[],
  maxCharacters = MAX_CELL_CHARACTERS,
): string {
  const columns = names.map(name => ({
    name,
    kind: rows.some(row => typeof row[name] === 'number') ? ('number' as const) : ('other' as const),
  }))
  return renderCells(
    columns,
    rows.map(row => names.map(name => plainText(row[name]))),
    maxCharacters,
  )
}

/** Renders what a query returned as a table for people: values as the database writes them, long ones cut. */
export function renderCells(
  columns: readonly ResultColumn[],
  rows: readonly WrittenRow[],
  maxCharacters = MAX_CELL_CHARACTERS,
): string {
  const table = new Table({
    head: columns.map(({ name }) => makePrintable(name)),
    colAligns: columns.map(({ kind }) => (kind === 'number' ? 'right' : 'left')),
    style: { head: [], border: [], compact: true },
  })
  for (const row of rows) table.push(row.map(text => cell(text ?? 'NULL', maxCharacters)))
  return `${table.toString()}\n`
}

/** Returns a line of CSV (RFC 4180): quoted only if necessary, NULL as an empty field. */
export function formatCsvLine(fields: WrittenRow): string {
  return `${fields.map(field => quoted(field ?? '')).join(',')}\r\n`
}

/** Returns a value as plain text: rounded numbers, times in ISO 8601 UTC, nothing for null. */
function plainText(value: unknown): string {
  if (value === null || value === undefined) return ''
  if (value instanceof Date) return value.toISOString()
  if (typeof value === 'number') return value.toLocaleString('en-US', { maximumFractionDigits: 4 })
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

function cell(text: string, maxCharacters: number): string {
  const line = makePrintable(text)
  return line.length > maxCharacters ? `${line.slice(0, maxCharacters - 1)}…` : line
}

function quoted(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
