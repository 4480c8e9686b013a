import { type CellValue, type WriteSheet, writeXlsx } from 'hucre/xlsx'
import { MARTS, type Mart, type MartColumn } from '#schema/marts/marts.ts'
import { isPlausible } from '#schema/times.ts'
import type { CatalogSource } from '#src/core/lake/catalog.ts'
import type { Database, Row } from '#src/core/warehouse/database.ts'
import { identifier } from '#src/core/warehouse/quoted.ts'
import { cutText, escapeCodes, inOrder, withoutForbidden } from './cells.ts'

/**
 * All sheets are in memory at once: 20,000 notices take 1.3 GB. Excel's own limit is forty times that, but such a sheet
 * is too large for people.
 */
export const MAX_SHEET_ROWS = 25_000
const WIDTHS = { least: 10, most: 60 }
/** How many rows determine the width of a column. */
const SAMPLE = 200

const TIME = 'dd/mm/yyyy hh:mm'
/** Written in the reader's own form: a comma in Brazil. */
const FORMATS: Readonly<Partial<Record<MartColumn['type'], string>>> = {
  DATE: 'dd/mm/yyyy',
  TIMESTAMP: TIME,
  TIMESTAMPTZ: TIME,
  BIGINT: '#,##0',
  INTEGER: '0',
}
const MONEY = '#,##0.00'
const DURATION = '#,##0.0'

const HEADER = {
  font: { name: 'Calibri', size: 11, bold: true },
  fill: { type: 'pattern', pattern: 'solid', fgColor: { rgb: 'E8EEF4' } },
  alignment: { vertical: 'top', wrapText: true },
} as const

export type Workbook = {
  readonly bytes: Uint8Array
  readonly sheets: number
  /** The number of rows with a value, of each sheet: those of the marts come after the one that describes them. */
  readonly rows: readonly number[]
  /** Marts with too many rows for a sheet. */
  readonly leftOut: readonly { readonly name: string; readonly rows: number }[]
}

/**
 * Returns a workbook for people: one sheet per mart, with its labels in Portuguese, after one that describes them. Values have
 * their types, so that they can be summed and sorted; texts are never formulas.
 * @param db shows the snapshots of these sources.
 */
export async function buildWorkbook(db: Database, sources: readonly CatalogSource[]): Promise<Workbook> {
  const sheets: WriteSheet[] = []
  const counted: { mart: Mart; rows: number }[] = []
  for (const mart of MARTS) {
    const { rows } = await db.row<{ rows: number }>(`SELECT count(*) AS rows FROM ${identifier(mart.name)}`)
    counted.push({ mart, rows })
    if (rows <= MAX_SHEET_ROWS) sheets.push(sheetOf(mart, await db.rows(inOrder(mart))))
  }
  const all = [about(sources, counted), ...sheets]
  const bytes = await writeXlsx({ sheets: all })
  const leftOut = counted
    .filter(({ rows }) => rows > MAX_SHEET_ROWS)
    .map(({ mart: { name }, rows }) => ({ name, rows }))
  return { bytes, sheets: sheets.length, rows: all.map(rowsIn), leftOut }
}

/** Counts the rows of a sheet that are written: empty ones are not. */
function rowsIn({ rows = [] }: WriteSheet): number {
  return rows.filter(row => row.some(value => value !== null)).length
}

function about(
  sources: readonly CatalogSource[],
  marts: readonly { mart: Mart; rows: number }[],
): WriteSheet {
  const published = sources.map(({ company, publishedAt }) => [company, new Date(publishedAt)])
  const described = marts.map(({ mart: { name, portuguese }, rows }) => [
    portuguese[0],
    name,
    rows,
    rows > MAX_SHEET_ROWS ? `Linhas demais para uma planilha; use --csv. ${portuguese[1]}` : portuguese[1],
  ])
  return {
    name: 'Sobre',
    columns: [{ width: 34 }, { width: 26, numFmt: TIME }, { width: 12, numFmt: '#,##0' }, { width: 90 }],
    rows: [
      ['Empresa', 'Publicado em (UTC)'],
      ...published,
      [],
      ['Planilha', 'Mart', 'Linhas', 'O que é'],
      ...described,
    ],
    cells: new Map([
      ...heading(0, ['Empresa', 'Publicado em (UTC)']),
      ...heading(published.length + 2, ['Planilha', 'Mart', 'Linhas', 'O que é']),
    ]),
  }
}

function sheetOf({ name, portuguese, columns }: Mart, rows: readonly Row[]): WriteSheet {
  const cells = rows.map(row => columns.map(({ name }) => cellOf(row[name])))
  const labels = columns.map(({ portuguese: [label] }) => label)
  return {
    name: portuguese[0],
    columns: columns.map((column, index) => {
      const format = formatOf(column)
      return { width: widthOf(labels[index] as string, cells, index), ...(format ? { numFmt: format } : {}) }
    }),
    rows: [labels, ...cells],
    cells: new Map(heading(0, labels)),
    freezePane: { rows: 1 },
    // A table has filters, and a name for formulas and Power Query. It has at least one row.
    tables: [
      {
        name,
        columns: labels.map(label => ({ name: label })),
        range: `A1:${lettersOf(columns.length)}${Math.max(cells.length, 1) + 1}`,
        style: 'TableStyleLight1',
      },
    ],
  }
}

function heading(row: number, labels: readonly string[]) {
  return labels.map((value, column) => [`${row},${column}`, { value, style: HEADER }] as const)
}

function formatOf({ type, unit }: MartColumn): string | undefined {
  if (unit === 'BRL') return MONEY
  if (type === 'DOUBLE' && unit === 'days') return DURATION
  return FORMATS[type]
}

/**
 * Numbers that a cell cannot hold become texts, with all their digits. A line ends as in a cell of Excel: a carriage
 * return would be written as `_x000D_`, which many programs show. Characters that XML does not allow are left out.
 */
function cellOf(value: unknown): CellValue {
  if (value === null || value === undefined) return null
  if (typeof value === 'boolean') return value
  // An implausible one may be before the first day that a cell can hold.
  if (value instanceof Date) return isPlausible(value) ? value : null
  if (typeof value === 'number') return Number.isFinite(value) ? value : String(value)
  const text = withoutForbidden(String(value)).replaceAll(/\r\n?/g, '\n')
  return escapeCodes(cutText(text))
}

function widthOf(label: string, cells: readonly CellValue[][], index: number): number {
  const lengths = cells.slice(0, SAMPLE).map(row => lengthOf(row[index] ?? null))
  // A heading breaks between words.
  const words = label.split(' ').map(word => word.length)
  return Math.min(WIDTHS.most, Math.max(WIDTHS.least, ...words, ...lengths) + 2)
}

function lengthOf(value: CellValue): number {
  if (value instanceof Date) return 'dd/mm/yyyy hh:mm'.length
  if (typeof value === 'number') return value.toFixed(2).length
  return String(value ?? '').length
}

/** Returns the name of the column with this number, from 1: A, Z, AA. */
function lettersOf(column: number): string {
  const before = Math.floor((column - 1) / 26)
  return `${before > 0 ? lettersOf(before) : ''}${String.fromCharCode(65 + ((column - 1) % 26))}`
}
