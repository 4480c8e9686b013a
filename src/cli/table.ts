import Table from 'cli-table3'
import type { Row } from '#src/store/warehouse/database.ts'

const MAX_CELL_CHARACTERS = 60

/** Renders rows as a table for people: numbers right-aligned, long text cut. */
export function renderTable(columns: readonly string[], rows: readonly Row[]): string {
  const numeric = columns.map(name => rows.some(row => typeof row[name] === 'number'))
  const table = new Table({
    head: [...columns],
    colAligns: numeric.map(isNumber => (isNumber ? 'right' : 'left')),
    style: { head: [], border: [], compact: true },
  })
  for (const row of rows) table.push(columns.map(name => cell(row[name])))
  return `${table.toString()}\n`
}

/** RFC 4180: quoted only if necessary, NULL as an empty field. */
export function renderCsv(columns: readonly string[], rows: readonly Row[]): string {
  const lines = [columns, ...rows.map(row => columns.map(name => plainText(row[name])))]
  return lines.map(line => `${line.map(quoted).join(',')}\r\n`).join('')
}

/** A value as plain text: times in ISO 8601 UTC, NULL as an empty text, nested values as JSON. */
function plainText(value: unknown): string {
  if (value === null || value === undefined) return ''
  if (value instanceof Date) return value.toISOString()
  return typeof value === 'object' ? JSON.stringify(value, jsonValue) : String(value)
}

/** For `JSON.stringify`: integers that a double cannot hold stay exact, as text. */
export function jsonValue(_key: string, value: unknown): unknown {
  return typeof value === 'bigint' ? value.toString() : value
}

function cell(value: unknown): string {
  const text =
    typeof value === 'number' ? value.toLocaleString('en-US', { maximumFractionDigits: 4 }) : plainText(value)
  const line = text.replaceAll(/\p{Cc}+/gu, ' ')
  return line.length > MAX_CELL_CHARACTERS ? `${line.slice(0, MAX_CELL_CHARACTERS - 1)}…` : line
}

function quoted(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
