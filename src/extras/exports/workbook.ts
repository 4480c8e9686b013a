import { readFile } from 'node:fs/promises'
import { crc32, createInflateRaw } from 'node:zlib'
import { type Cell, type CellValue, rangeRef, type WriteSheet, writeXlsx } from 'hucre/xlsx'
import { isPlausible } from '#schema/times.ts'
import type { Database, Row } from '#src/core/warehouse/database.ts'
import { identifier } from '#src/core/warehouse/quoted.ts'
import { EXIT, FatalError, getMessage } from '#src/lib/errors.ts'
import { MARTS, type Mart, type MartColumn } from '#src/marts/marts.ts'
import {
  cleanForWorkbook,
  distinguishesOpen,
  findDecimals,
  hasForbidden,
  inOrder,
  isForPeople,
  isTechnical,
  nameRange,
  PRINTED_SHEET,
  printedHeadings,
} from '#src/present/text/cells.ts'
import { findNoticeAddress } from '#src/present/text/format.ts'

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
const LAST = FIRST.length + 1
/** What other sheets are computed from is hidden, and so not printed, but can be used by formulas. */
function findPlace(mart: Mart): number {
  if (isTechnical(mart)) return LAST
  return FIRST.includes(mart.name) ? FIRST.indexOf(mart.name) : FIRST.length
}

const LINE_POINTS = 15
/** Sheets of notices on which one can act print all of these. The others print so many rows; those of changes, only of these days. */
const PRINTED_DAYS = 30
const MAX_PRINTED = 75
const DAY_MS = 86_400_000

const TIME = 'dd/mm/yyyy hh:mm'
/** Written in the reader's own form: a comma in Brazil. */
const FORMATS: Readonly<Partial<Record<MartColumn['type'], string>>> = {
  DATE: 'dd/mm/yyyy',
  TIMESTAMP: TIME,
  TIMESTAMPTZ: TIME,
  BIGINT: '#,##0',
  INTEGER: '0',
}
const DECIMALS = ['0', '#,##0.0', '#,##0.00'] as const

const HEADER = {
  font: { name: 'Calibri', size: 11, bold: true },
  fill: { type: 'pattern', pattern: 'solid', fgColor: { rgb: 'E8EEF4' } },
  alignment: { vertical: 'top', wrapText: true },
} as const

/** The column that describes a mart; its text wraps. */
const DESCRIPTION = {
  width: 90,
  style: {
    font: { name: 'Calibri', size: 11 },
    alignment: { horizontal: 'left', wrapText: true, indent: 1 },
  },
} as const

/** Its address does not run over into other cells. */
const LINK = {
  font: { name: 'Calibri', size: 11, color: { rgb: '0563C1' }, underline: true },
  alignment: { horizontal: 'fill' },
} as const

type Workbook = {
  readonly bytes: Uint8Array
  readonly sheets: number
  /** The number of rows with a value, of each sheet. */
  readonly rows: readonly number[]
  /** Marts with too many rows for a sheet. */
  readonly leftOut: readonly { readonly mart: Mart; readonly rows: number }[]
}

/**
 * Returns a workbook for people: one sheet per mart, with its labels in Portuguese, and one that describes them. Values have
 * their types, so that they can be summed and sorted; texts are never formulas.
 * @param db shows the snapshots.
 */
export async function buildWorkbook(db: Database, pagesUrl: string | null): Promise<Workbook> {
  const published = await db.rows<Published>('SELECT company, publicado_local FROM frescor ORDER BY company')
  const addresses = await readAddresses(db, pagesUrl)
  const sheets: { mart: Mart; sheet: WriteSheet }[] = []
  const counted: Counted[] = []
  for (const mart of MARTS.toSorted((a, b) => findPlace(a) - findPlace(b))) {
    const { rows } = await db.row<{ rows: number }>(`SELECT count(*) AS rows FROM ${identifier(mart.name)}`)
    if (rows > MAX_SHEET_ROWS) {
      counted.push({ mart, rows, printed: 0 })
      continue
    }
    const found = await db.rows(inOrder(mart))
    // Rows of several companies are in order one company after the other.
    const [one, ...others] = published
    const printed = one && others.length === 0 ? countPrinted(mart, found, one.publicado_local) : rows
    counted.push({ mart, rows, printed })
    sheets.push({ mart, sheet: makeSheet(mart, found, { hasCompanies: others.length > 0, addresses }) })
  }
  const all = [
    ...sheets.filter(({ mart }) => !isTechnical(mart)).map(({ sheet }) => sheet),
    about(published, counted),
    ...sheets.filter(({ mart }) => isTechnical(mart)).map(({ sheet }) => ({ ...sheet, hidden: true })),
  ]
  const namedRanges = [...printedHeadings(all), ...counted.flatMap(namePrinted)]
  const bytes = await writeXlsx({ sheets: all, namedRanges })
  const leftOut = counted.filter(({ rows }) => rows > MAX_SHEET_ROWS)
  return { bytes, sheets: sheets.length, rows: all.map(rowsIn), leftOut }
}

type Published = { readonly company: string; readonly publicado_local: Date }

const PRINTED_NOTE = [
  `Nas planilhas de editais, requisitos, alertas e itens, só se imprimem as linhas de editais em andamento cuja sessão ainda não passou; nas outras, as ${MAX_PRINTED} primeiras e, nas do que mudou, só as dos últimos ${PRINTED_DAYS} dias. As demais ficam abaixo.`,
  'Se você ordenar ou filtrar uma delas, limpe antes a área de impressão (Layout da Página, Área de Impressão).',
]

type Counted = {
  readonly mart: Mart
  readonly rows: number
  /** How many are printed: the first ones. */
  readonly printed: number
}

/** @param publishedAt the local time of the snapshot. */
function countPrinted({ columns }: Mart, rows: readonly Row[], publishedAt: Date): number {
  if (distinguishesOpen(columns))
    return rows.filter(row => row.em_andamento && row.situacao_sessao !== 'passada').length
  const isRecent = ({ observado_dia: day }: Row) =>
    day === undefined || publishedAt.getTime() - Number(day) <= PRINTED_DAYS * DAY_MS
  return Math.min(rows.filter(isRecent).length, MAX_PRINTED)
}

/** Returns whether only some rows are printed. Hidden sheets have no printed part: some programs would print it. */
function isCut({ mart, rows, printed }: Counted): boolean {
  return printed < rows && rows <= MAX_SHEET_ROWS && !isTechnical(mart)
}

function namePrinted(counted: Counted) {
  if (!isCut(counted)) return []
  const { mart, printed } = counted
  const { portuguese, columns } = mart
  const range = rangeRef(0, 0, printed, columns.length - 1).replaceAll(/[A-Z]+|\d+/g, '$$$&')
  return [nameRange(portuguese[0], '_xlnm.Print_Area', range)]
}

/** Counts the rows of a sheet that are written: empty ones are not. */
function rowsIn({ rows = [] }: WriteSheet): number {
  return rows.filter(row => row.some(value => value !== null)).length
}

function about(sources: readonly Published[], marts: readonly Counted[]): WriteSheet {
  const published = sources.map(({ company, publicado_local }) => [company, publicado_local])
  const described = marts.map(({ mart, rows, printed }) => [
    mart.portuguese[0],
    rows,
    isTechnical(mart) ? null : printed,
    `${rows > MAX_SHEET_ROWS ? 'Linhas demais para uma planilha; não está nesta pasta. ' : ''}${mart.portuguese[1]}`,
  ])
  const [dates, names] = [
    ['Empresa', 'Publicado em'],
    ['Planilha', 'Linhas', 'Linhas impressas', 'O que é'],
  ] as const
  const notes = marts.some(isCut) ? [[], ...PRINTED_NOTE.map(text => [text])] : []
  const from = published.length + 3
  const texts = described.map(row => String(row.at(-1)))
  return {
    name: 'Sobre',
    columns: [
      ...[{ width: 34 }, { width: 18, numFmt: '#,##0' }, { width: 12, numFmt: '#,##0' }],
      { width: DESCRIPTION.width },
    ],
    rows: [[...dates], ...published, [], [...names], ...described, ...notes],
    cells: new Map<string, Partial<Cell>>([
      ...heading(0, dates),
      ...heading(from - 1, names),
      ...sources.map(
        ({ publicado_local: value }, row) => [`${row + 1},1`, { value, style: { numFmt: TIME } }] as const,
      ),
      ...texts.map((value, row) => [`${from + row},3`, { value, style: DESCRIPTION.style }] as const),
    ]),
    rowDefs: new Map(
      texts.map(({ length }, row) => [
        from + row,
        { height: LINE_POINTS * Math.ceil(length / DESCRIPTION.width) },
      ]),
    ),
    pageSetup: PRINTED_SHEET,
  }
}

function makeSheet(
  { name, portuguese, columns }: Mart,
  rows: readonly Row[],
  { hasCompanies, addresses }: { hasCompanies: boolean; addresses: Addresses },
): WriteSheet {
  const cells = rows.map(row => columns.map(({ name }) => makeCell(row[name])))
  const labels = columns.map(({ portuguese: [label] }) => label)
  const widths = columns.map((column, index) => measureWidth(column, cells, index))
  const lines = labels.map((label, index) => Math.ceil(label.length / ((widths[index] as number) - 2)))
  return {
    name: portuguese[0],
    columns: columns.map((column, index) => ({
      width: widths[index] as number,
      numFmt: chooseFormat(column),
      hidden: !isForPeople(column, hasCompanies),
    })),
    rows: [labels, ...cells],
    cells: new Map<string, Partial<Cell>>([
      ...heading(0, labels),
      ...links(
        columns,
        cells,
        rows.map(row => addresses.get(nameNotice(row)) ?? null),
      ),
    ]),
    freezePane: { rows: 1 },
    rowDefs: new Map([[0, { height: LINE_POINTS * Math.max(...lines) }]]),
    pageSetup: PRINTED_SHEET,
    // A table has filters, and a name for formulas and Power Query. It has at least one row.
    tables: [
      {
        name,
        columns: labels.map(label => ({ name: label })),
        range: rangeRef(0, 0, Math.max(cells.length, 1), columns.length - 1),
        style: 'TableStyleLight1',
      },
    ],
  }
}

/** The address of each notice's page. */
type Addresses = ReadonlyMap<string, string | null>

const nameNotice = ({ company, edital_id }: Row) => JSON.stringify([company, edital_id])

async function readAddresses(db: Database, pagesUrl: string | null): Promise<Addresses> {
  const notices = await db.rows<Parameters<typeof findNoticeAddress>[0] & Row>(
    'SELECT company, edital_id, pncp_url, deleted_at IS NULL AS esta_na_api FROM editais',
  )
  return new Map(notices.map(notice => [nameNotice(notice), findNoticeAddress(notice, pagesUrl)]))
}

/** Links a cell of each row to the notice's page: that of PNCP's link or, in a sheet without one, what names the notice. */
function links(
  columns: readonly MartColumn[],
  cells: readonly CellValue[][],
  targets: readonly (string | null)[],
) {
  const places = ['pncp_url', 'numero', 'objeto', 'orgao'].map(wanted =>
    columns.findIndex(({ name }) => name === wanted),
  )
  return cells.flatMap((row, index) => {
    const column = places.find(place => row[place] != null) ?? -1
    const value = row[column] ?? null
    const target = targets[index] ?? null
    return target && value !== null
      ? [[`${index + 1},${column}`, { value, hyperlink: { target }, style: LINK }] as const]
      : []
  })
}

function heading(row: number, labels: readonly string[]) {
  return labels.map((value, column) => [`${row},${column}`, { value, style: HEADER }] as const)
}

function chooseFormat(column: MartColumn): string {
  const decimals = findDecimals(column)
  return decimals === null ? (FORMATS[column.type] ?? 'General') : (DECIMALS[decimals] as string)
}

/**
 * Numbers that a cell cannot hold become texts, with all their digits.
 */
function makeCell(value: unknown): CellValue {
  if (value === null || value === undefined) return null
  if (typeof value === 'boolean') return value ? 'sim' : 'não'
  // An implausible one may be before the first day that a cell can hold.
  if (value instanceof Date) return isPlausible(value) ? value : null
  if (typeof value === 'number') return Number.isFinite(value) ? value : String(value)
  return cleanForWorkbook(String(value))
}

function measureWidth(column: MartColumn, cells: readonly CellValue[][], index: number): number {
  if (column.name === 'pncp_url') return WIDTHS.link
  const lengths = cells.slice(0, SAMPLE).map(row => measureLength(row[index] ?? null, column))
  // A heading breaks between words.
  const words = column.portuguese[0].split(' ').map(word => word.length)
  return Math.min(WIDTHS.most, Math.max(WIDTHS.least, ...words, ...lengths) + 2)
}

function measureLength(value: CellValue, column: MartColumn): number {
  if (value instanceof Date) return chooseFormat(column).length
  if (typeof value === 'number') return value.toFixed(chooseFormat(column).includes('.') ? 2 : 0).length
  return String(value ?? '').length
}

/** Signature of the end of a ZIP archive, in little-endian numbers. */
const END = Buffer.from('PK\x05\x06', 'latin1')
const END_BYTES = 22
const DEFLATED = 8

type Part = { readonly name: string; readonly crc: number; readonly packed: Buffer }

/**
 * Reads a workbook that was written, as a spreadsheet program would: all its parts must be well-formed XML.
 * @param rows the number of rows with a value, of each sheet.
 * @throws FatalError if a program could not open it, or would find another number of rows.
 */
export async function checkWorkbook(path: string, rows: readonly number[]): Promise<void> {
  try {
    const parts = readParts(await readFile(path))
    const found = new Map<string, number>()
    for (const part of parts) {
      await readPart(part).then(
        count => found.set(part.name, count),
        error => Promise.reject(new Error(`${part.name}: ${getMessage(error)}`)),
      )
    }
    for (const [index, count] of rows.entries()) {
      const name = `xl/worksheets/sheet${index + 1}.xml`
      if (found.get(name) !== count) throw new Error(`${name}: ${found.get(name)} rows instead of ${count}`)
    }
  } catch (error) {
    throw new FatalError(
      `The workbook cannot be opened, so it was not kept: ${getMessage(error)}. This is a bug in editais-sync; use --csv instead.`,
      EXIT.failed,
    )
  }
}

/** Returns the files in the archive, by its directory. */
function readParts(zip: Buffer): Part[] {
  const end = zip.lastIndexOf(END)
  if (end === -1 || end + END_BYTES > zip.length) throw new Error('the archive has no end')
  let at = zip.readUInt32LE(end + 16)
  return Array.from({ length: zip.readUInt16LE(end + 10) }, () => {
    const bytes = zip.readUInt32LE(at + 20)
    const nameBytes = zip.readUInt16LE(at + 28)
    const local = zip.readUInt32LE(at + 42)
    if (zip.readUInt16LE(at + 10) !== DEFLATED) throw new Error('a part is not deflated')
    const start = local + 30 + zip.readUInt16LE(local + 26) + zip.readUInt16LE(local + 28)
    const part = {
      name: zip.toString('utf8', at + 46, at + 46 + nameBytes),
      crc: zip.readUInt32LE(at + 16),
      packed: zip.subarray(start, start + bytes),
    }
    at += 46 + nameBytes + zip.readUInt16LE(at + 30) + zip.readUInt16LE(at + 32)
    return part
  })
}

/** Reads a part. @returns the number of its elements `row`. @throws Error unless it is well-formed XML. */
async function readPart({ crc, packed }: Part): Promise<number> {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  const document = new XmlDocument()
  let sum = 0
  // Chunk by chunk: a sheet can have hundreds of megabytes.
  const inflate = createInflateRaw()
  inflate.end(packed)
  for await (const chunk of inflate as AsyncIterable<Buffer>) {
    sum = crc32(chunk, sum)
    document.add(decoder.decode(chunk, { stream: true }))
  }
  document.add(decoder.decode())
  if (sum !== crc) throw new Error('its checksum is wrong')
  return document.end()
}

/** A tag as the library writes it: double quotes, `>` only at the end of a tag, no comments. */
const TAG = /^<(\/?)([A-Za-z_][\w.:-]*)((?:\s+[\w.:-]+="[^"<]*")*)\s*(\/?)>$/
const DECLARATION = /^<\?xml [^<>?]*\?>$/
const WRONG_REFERENCE = /&(?!(?:amp|lt|gt|quot|apos|#9|#10|#13);)/

/** Checks a document that comes in pieces. */
class XmlDocument {
  #rest = ''
  #hasRoot = false
  #rows = 0
  readonly #open: string[] = []

  add(text: string): void {
    if (hasForbidden(text)) throw new Error('it has a character that XML does not allow')
    this.#rest += text
    // No `<` is within a tag, so all before the last one is complete.
    const end = this.#rest.lastIndexOf('<')
    if (end <= 0) return
    this.#read(this.#rest.slice(0, end))
    this.#rest = this.#rest.slice(end)
  }

  /** Ends the document. @returns the number of elements `row`. @throws Error if an element is not closed. */
  end(): number {
    this.#read(this.#rest)
    if (this.#open.length > 0 || !this.#hasRoot) throw new Error('an element is not closed')
    return this.#rows
  }

  /** Tags and texts, each complete. */
  #read(text: string): void {
    if (WRONG_REFERENCE.test(text)) throw new Error('it has a wrong reference')
    for (let at = 0; at < text.length; ) {
      const isTag = text[at] === '<'
      const end = isTag ? text.indexOf('>', at) + 1 : text.indexOf('<', at)
      const token = text.slice(at, end > 0 ? end : undefined)
      if (isTag) this.#tag(token)
      else if (this.#open.length === 0 && token.trim() !== '') throw new Error('there is text outside')
      at += token.length
    }
  }

  #tag(token: string): void {
    if (!this.#hasRoot && DECLARATION.test(token)) return
    const [, closes, name, , isEmpty] = TAG.exec(token) ?? []
    if (name === undefined) throw new Error('a tag is malformed')
    if (closes) {
      if (this.#open.pop() !== name) throw new Error(`</${name}> closes another element`)
      return
    }
    if (this.#open.length === 0 && this.#hasRoot) throw new Error('there is more than one document')
    this.#hasRoot = true
    if (name === 'row') this.#rows += 1
    if (!isEmpty) this.#open.push(name)
  }
}
