import { type Cell, type CellValue, type WriteSheet, writeXlsx } from 'hucre/xlsx'
import { hasLabels } from '#schema/labels.ts'
import { MARTS, type Mart, type MartColumn } from '#schema/marts/marts.ts'
import { isPlausible } from '#schema/times.ts'
import type { Database, Row } from '#src/core/warehouse/database.ts'
import { identifier } from '#src/core/warehouse/quoted.ts'
import { usableLink } from '#src/present/text/format.ts'
import { cutText, escapeCodes, inOrder, withoutForbidden } from './cells.ts'

/**
 * All sheets are in memory at once: 20,000 notices take 1.3 GB. Excel's own limit is forty times that, but such a sheet
 * is too large for people.
 */
export const MAX_SHEET_ROWS = 25_000
/** A link is opened, not read. */
const WIDTHS = { least: 8, most: 48, link: 12 }
/** How many rows determine the width of a column. */
const SAMPLE = 200

/** What people open a workbook for comes first. */
const FIRST = ['decisoes', 'agenda_sessoes', 'pendencias_habilitacao', 'alertas_juridicos', 'edital_resumo']
/** What other sheets are computed from is hidden, and so not printed, but can be used by formulas. */
const TECHNICAL = [
  ...['editais_ativos', 'riscos_pagamento', 'prazos_impugnacao', 'passagens_por_fase', 'fases', 'rotulos'],
  ...['feriados', 'calendario', 'grafias', 'prazos_calculados'],
]
const PLACES = [...FIRST, '', ...TECHNICAL]
const placeOf = ({ name }: Pick<Mart, 'name'>) => PLACES.indexOf(PLACES.includes(name) ? name : '')

const PAGE = {
  paperSize: 'a4',
  orientation: 'landscape',
  fitToPage: true,
  fitToWidth: 1,
  // As many as it takes.
  fitToHeight: 0,
  printTitlesRow: '$1:$1',
  margins: { left: 0.3, right: 0.3, top: 0.4, bottom: 0.4 },
} as const
const LINE_POINTS = 15

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

/** Its address does not run over into other cells. */
const LINK = {
  font: { name: 'Calibri', size: 11, color: { rgb: '0563C1' }, underline: true },
  alignment: { horizontal: 'fill' },
} as const

export type Workbook = {
  readonly bytes: Uint8Array
  readonly sheets: number
  /** The number of rows with a value, of each sheet. */
  readonly rows: readonly number[]
  /** Marts with too many rows for a sheet. */
  readonly leftOut: readonly { readonly name: string; readonly rows: number }[]
}

/**
 * Returns a workbook for people: one sheet per mart, with its labels in Portuguese, and one that describes them. Values have
 * their types, so that they can be summed and sorted; texts are never formulas.
 * @param db shows the snapshots.
 */
export async function buildWorkbook(db: Database): Promise<Workbook> {
  const published = await db.rows<Published>('SELECT company, publicado_local FROM frescor ORDER BY company')
  const sheets: { mart: Mart; sheet: WriteSheet }[] = []
  const counted: { mart: Mart; rows: number }[] = []
  for (const mart of MARTS.toSorted((a, b) => placeOf(a) - placeOf(b))) {
    const { rows } = await db.row<{ rows: number }>(`SELECT count(*) AS rows FROM ${identifier(mart.name)}`)
    counted.push({ mart, rows })
    if (rows > MAX_SHEET_ROWS) continue
    sheets.push({ mart, sheet: sheetOf(mart, await db.rows(inOrder(mart)), published.length > 1) })
  }
  const isShown = ({ mart }: { mart: Mart }) => !TECHNICAL.includes(mart.name)
  const all = [
    ...sheets.filter(isShown).map(({ sheet }) => sheet),
    about(published, counted),
    ...sheets.filter(one => !isShown(one)).map(({ sheet }) => ({ ...sheet, hidden: true })),
  ]
  const bytes = await writeXlsx({ sheets: all })
  const leftOut = counted
    .filter(({ rows }) => rows > MAX_SHEET_ROWS)
    .map(({ mart: { name }, rows }) => ({ name, rows }))
  return { bytes, sheets: sheets.length, rows: all.map(rowsIn), leftOut }
}

type Published = { readonly company: string; readonly publicado_local: Date }

/** Counts the rows of a sheet that are written: empty ones are not. */
function rowsIn({ rows = [] }: WriteSheet): number {
  return rows.filter(row => row.some(value => value !== null)).length
}

function about(sources: readonly Published[], marts: readonly { mart: Mart; rows: number }[]): WriteSheet {
  const published = sources.map(({ company, publicado_local }) => [company, publicado_local])
  const described = marts.map(({ mart: { name, portuguese }, rows }) => [
    portuguese[0],
    name,
    rows,
    rows > MAX_SHEET_ROWS ? `Linhas demais para uma planilha; use --csv. ${portuguese[1]}` : portuguese[1],
  ])
  const [dates, names] = [
    ['Empresa', 'Publicado em'],
    ['Planilha', 'Nome da tabela', 'Linhas', 'O que é'],
  ] as const
  return {
    name: 'Sobre',
    columns: [{ width: 34 }, { width: 26, numFmt: TIME }, { width: 12, numFmt: '#,##0' }, { width: 90 }],
    rows: [[...dates], ...published, [], [...names], ...described],
    cells: new Map([...heading(0, dates), ...heading(published.length + 2, names)]),
    pageSetup: PAGE,
  }
}

function sheetOf(
  { name, portuguese, columns }: Mart,
  rows: readonly Row[],
  hasCompanies: boolean,
): WriteSheet {
  const cells = rows.map(row => columns.map(({ name }) => cellOf(row[name])))
  const labels = columns.map(({ portuguese: [label] }) => label)
  const widths = columns.map((column, index) => widthOf(column, cells, index))
  const lines = labels.map((label, index) => Math.ceil(label.length / ((widths[index] as number) - 2)))
  return {
    name: portuguese[0],
    columns: columns.map((column, index) => ({
      width: widths[index] as number,
      numFmt: formatOf(column) ?? 'General',
      hidden: column.name === 'company' ? !hasCompanies : isForPrograms(column),
    })),
    rows: [labels, ...cells],
    cells: new Map<string, Partial<Cell>>([...heading(0, labels), ...links(columns, cells)]),
    freezePane: { rows: 1 },
    rowDefs: new Map([[0, { height: LINE_POINTS * Math.max(...lines) }]]),
    pageSetup: PAGE,
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

/** Returns whether people need no such column: ids, orders, times in UTC, and codes, whose labels are in another column. */
function isForPrograms({ name, type, from }: MartColumn): boolean {
  const isCode = from !== undefined && (hasLabels(from) || from.endsWith('.status'))
  const isId = ['edital_id', 'pncp_id', 'ordinal', 'snapshot'].includes(name)
  return isCode || isId || type === 'TIMESTAMPTZ' || name.endsWith('_ordem')
}

function links(columns: readonly MartColumn[], cells: readonly CellValue[][]) {
  const column = columns.findIndex(({ name }) => name === 'pncp_url')
  return cells.flatMap((row, index) => {
    const value = row[column] ?? null
    const target = usableLink(typeof value === 'string' ? value : null)
    return target ? [[`${index + 1},${column}`, { value, hyperlink: { target }, style: LINK }] as const] : []
  })
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
  if (typeof value === 'boolean') return value ? 'sim' : 'não'
  // An implausible one may be before the first day that a cell can hold.
  if (value instanceof Date) return isPlausible(value) ? value : null
  if (typeof value === 'number') return Number.isFinite(value) ? value : String(value)
  const text = withoutForbidden(String(value)).replaceAll(/\r\n?/g, '\n')
  return escapeCodes(cutText(text))
}

function widthOf(column: MartColumn, cells: readonly CellValue[][], index: number): number {
  if (column.name === 'pncp_url') return WIDTHS.link
  const lengths = cells.slice(0, SAMPLE).map(row => lengthOf(row[index] ?? null, column))
  // A heading breaks between words.
  const words = column.portuguese[0].split(' ').map(word => word.length)
  return Math.min(WIDTHS.most, Math.max(WIDTHS.least, ...words, ...lengths) + 2)
}

function lengthOf(value: CellValue, column: MartColumn): number {
  if (value instanceof Date) return formatOf(column)?.length ?? 0
  if (typeof value === 'number') return value.toFixed(formatOf(column)?.includes('.') ? 2 : 0).length
  return String(value ?? '').length
}

/** Returns the name of the column with this number, from 1: A, Z, AA. */
function lettersOf(column: number): string {
  const before = Math.floor((column - 1) / 26)
  return `${before > 0 ? lettersOf(before) : ''}${String.fromCharCode(65 + ((column - 1) % 26))}`
}
