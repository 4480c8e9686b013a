import { mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { Command } from 'commander'
import { loadCompanyEnvironment } from '#config/companies.ts'
import { type Environment, readSettings } from '#config/settings.ts'
import { PLAUSIBLE_YEARS } from '#schema/times.ts'
import { companyPaths } from '#src/core/company/company.ts'
import { type CatalogSource, createRelations } from '#src/core/lake/catalog.ts'
import { requireLatest } from '#src/core/lake/manifest.ts'
import { makeSource, readLatestSources } from '#src/core/lake/read.ts'
import { Database } from '#src/core/warehouse/database.ts'
import { identifier, literal } from '#src/core/warehouse/quoted.ts'
import type { CommandTools } from '#src/extras/extra.ts'
import { pluralize } from '#src/lib/count.ts'
import { writeBeside } from '#src/lib/durable.ts'
import { EXIT, FatalError, getMessage } from '#src/lib/errors.ts'
import { MARTS, type Mart, type MartColumn } from '#src/marts/marts.ts'
import { loadMarts } from '#src/marts/open.ts'
import {
  BYTE_ORDER_MARK,
  FORBIDDEN,
  FORMULA,
  findDecimals,
  inOrder,
  isForPeople,
  isTechnical,
  MAX_CELL_TEXT,
} from '#src/present/text/cells.ts'

const ANOTHER_FILE = 'Name another file with --to.'

type Options = { to: string; company?: string; all?: true; xlsx?: true; csv?: true }

export function createExportCommand(
  environment: Environment,
  { listLakes }: Pick<CommandTools, 'listLakes'>,
): Command {
  return new Command('export')
    .description(
      'Write the latest snapshot as one DuckDB file that can be copied anywhere: tables, marts, comments.',
    )
    .requiredOption('--to <path>', 'file to write, or with --csv a directory; existing files are replaced')
    .option('--xlsx', 'write a workbook instead: one sheet per mart')
    .option('--csv', 'write CSV files instead, for people: one per mart, with semicolons and decimal commas')
    .option('--company <slug>', 'company to export, instead of COMPANY')
    .option('--all', 'export the latest snapshots of all configured companies together')
    .action(async (options: Options) => {
      if (options.all && options.company)
        throw new FatalError('Use --all or --company, not both.', EXIT.usage)
      if (options.xlsx && options.csv) throw new FatalError('Use --xlsx or --csv, not both.', EXIT.usage)
      const sources = options.all
        ? await readLatestSources(await listLakes(environment))
        : [await latestSource(environment, options.company)]
      const path = resolve(options.to)
      if (options.csv) await exportCsv(path, sources)
      else if (options.xlsx) {
        // Each company may have pages of its own.
        const pagesUrl = options.all
          ? null
          : readSettings(await loadCompanyEnvironment(environment, options.company)).pagesUrl
        await exportWorkbook(path, sources, pagesUrl)
      } else await exportDatabase(path, sources)
    })
}

async function latestSource(environment: Environment, company?: string): Promise<CatalogSource> {
  const settings = readSettings(await loadCompanyEnvironment(environment, company))
  return makeSource(await requireLatest(companyPaths(settings.dataDir, settings.company).lake))
}

/** DuckDB 1.1 is the earliest that has all that marts use. */
const PORTABLE_STORAGE = 'v1.0.0'

/** Writes a database that needs no other file: a catalog with the rows of each table instead of views of its files. */
async function exportDatabase(path: string, sources: readonly CatalogSource[]): Promise<void> {
  const marts = await loadMarts()
  await writeBeside(path, ANOTHER_FILE, temporary =>
    withDatabase(dirname(temporary), db => {
      const create = () => createRelations(db, sources, marts, { tablesAs: 'TABLE', dailyAs: 'TABLE' })
      return db.inFile(temporary, create, PORTABLE_STORAGE)
    }),
  )
  print(`${path}: ${describe(sources)} (${await megabytes(path)})`)
}

async function exportWorkbook(
  path: string,
  sources: readonly CatalogSource[],
  pagesUrl: string | null,
): Promise<void> {
  // Loaded only here, because only this needs its library.
  const { buildWorkbook, checkWorkbook, MAX_SHEET_ROWS } = await import('./workbook.ts')
  const { sheets, leftOut } = await writeBeside(path, ANOTHER_FILE, temporary =>
    withDatabase(dirname(temporary), async db => {
      await createRelations(db, sources, await loadMarts(), { dailyAs: 'TABLE' })
      const { bytes, rows, ...about } = await buildWorkbook(db, pagesUrl)
      await writeFile(temporary, bytes)
      await checkWorkbook(temporary, rows)
      return about
    }),
  )
  print(`${path}: ${describe(sources)}, ${pluralize(sheets, 'mart')} (${await megabytes(path)})`)
  for (const { mart, rows } of leftOut) {
    const other = isTechnical(mart) ? `editais query --csv "FROM ${mart.name}"` : '--csv'
    process.stderr.write(
      `${mart.name} was left out: it has ${pluralize(rows, 'row')}, and a sheet takes at most ${MAX_SHEET_ROWS}. Use ${other} for it.\n`,
    )
  }
}

async function exportCsv(directory: string, sources: readonly CatalogSource[]): Promise<void> {
  await mkdir(directory, { recursive: true }).catch(error => {
    throw new FatalError(
      `${directory} cannot be created: ${getMessage(error)}. Name another directory with --to.`,
      EXIT.usage,
    )
  })
  const written = MARTS.filter(mart => !isTechnical(mart))
  await withDatabase(directory, async db => {
    await createRelations(db, sources, await loadMarts())
    for (const mart of written)
      await writeBeside(join(directory, `${mart.name}.csv`), ANOTHER_FILE, temporary =>
        writeBrazilianCsv(db, mart, temporary, sources.length > 1),
      )
  })
  print(`${directory}: ${describe(sources)}, ${pluralize(written.length, 'mart')}`)
}

/**
 * Runs `work` with a database in memory.
 * @param near where temporary files may be written: the system's temporary directory may be in memory.
 */
async function withDatabase<T>(near: string, work: (db: Database) => Promise<T>): Promise<T> {
  const temporaryDirectory = await mkdtemp(join(near, 'spill-'))
  const db = await Database.open(':memory:', { temporaryDirectory })
  try {
    return await work(db)
  } finally {
    db.close()
    await rm(temporaryDirectory, { recursive: true, force: true })
  }
}

function describe(sources: readonly CatalogSource[]): string {
  const notices = sources.flatMap(({ files }) => files.get('editais') ?? [])
  const rows = notices.reduce((sum, file) => sum + file.rows, 0)
  return `${pluralize(rows, 'notice')} of ${sources.map(({ company }) => company).join(', ')}`
}

async function megabytes(path: string): Promise<string> {
  return `${Math.ceil((await stat(path)).size / 1e6)} MB`
}

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}

/*
 * Texts that Excel and LibreOffice take for numbers, dates or times, in Portuguese or in English; case is ignored. The
 * expression is wider than what they convert: what is in it without need costs nothing but the form `="…"`, what is
 * missing loses characters.
 */

const SPACE = '[\\s\\p{Zs}]*'
const SIGNS = '(?:[-+()%$€£¥\\s\\p{Zs}]|R\\$|US\\$|BRL|USD|EUR)*'
/** `00394494000136`, `3E5`, `R$ 1.234,5`, `(5)`, `10%`. */
const NUMBER = `${SIGNS}[0-9.,][0-9.,\\s\\p{Zs}]*(?:e${SPACE}[-+]?[0-9]+)?${SIGNS}`
const MONTH =
  '(?:jan(?:eiro|uary)?|fev(?:ereiro)?|feb(?:ruary)?|mar(?:[cç]o|ch)?|abr(?:il)?|apr(?:il)?|maio?|may|jun(?:ho|e)?|jul(?:ho|y)?|ago(?:sto)?|aug(?:ust)?|set(?:embro)?|sept?(?:ember)?|out(?:ubro)?|oct(?:ober)?|nov(?:embro|ember)?|dez(?:embro)?|dec(?:ember)?)'
const NUMBER_OF_DATE = '0*[0-9]{1,4}'
const DATE_PART = `(?:${NUMBER_OF_DATE}|(?:${NUMBER_OF_DATE})?${MONTH}(?:${NUMBER_OF_DATE})?)`
const BETWEEN = `(?:[\\s\\p{Zs}]+|\\.?${SPACE}(?:de|[-/.,])${SPACE})`
/** `12/2026`, `1-2`, `2026-12-09`, `9.12.26`, `dez26`, `9 de dezembro de 2026`. */
const DATE = `${DATE_PART}(?:${BETWEEN}${DATE_PART}){0,2}`
/** `10:30`, `9:00:15.5`, `10 am`, `09:00Z`. */
const TIME = `[0-9][0-9\\s\\p{Zs}]*[-+,]?${SPACE}(?::[0-9:.,\\s\\p{Zs}]*[apm.]*|[ap]\\.?m?\\.?)(?:z|[-+][0-9:]+)?`
const WEEKDAY =
  '(?:seg(?:unda)?|ter(?:[cç]a)?|qua(?:rta)?|qui(?:nta)?|sex(?:ta)?|s[aá]b(?:ado)?|dom(?:ingo)?|(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?)(?:-feira)?\\.?'
/** Booleans and errors. */
const WORD = `(?i)${SPACE}(?:verdadeiro|falso|true|false|#(?:n/[ad]|ref!|div/0!|valor!|value!|nome\\?|name\\?|n[uú]m!|nulo!|null!))${SPACE}`
const CONVERTED = `(?i)${SPACE}(?:${NUMBER}|(?:${DATE}|${TIME}|${WEEKDAY})(?:(?:t|[,\\s\\p{Zs}]+)(?:${DATE}|${TIME}|${WEEKDAY}))*)${SPACE}`
/** A whole number that programs show as it was written. */
const SHOWN_ALIKE = '0|[1-9][0-9]{0,10}'
/** Excel's limit for a text in a formula. */
const MAX_FORMULA_TEXT = 255
/** Two UTF-16 units each. No text has the mark: it is one of the forbidden characters. */
const WIDE = '[\\x{10000}-\\x{10FFFF}]'
const MARK = '\uFFFF'

/**
 * Macros of a connection, for `csv_texts(list)`: the texts in a form that Excel and LibreOffice show as they are. Texts that
 * they would convert become `="…"`, an apostrophe precedes those that could be a formula, and those that are too long for
 * a cell are cut. Step by step, because a macro repeats its argument: nested ones take four times as long.
 */
export const CSV_TEXT_MACROS: readonly string[] = [
  `CREATE OR REPLACE TEMP MACRO shown_as_it_is(t) AS CASE
    WHEN regexp_full_match(t, ${literal(SHOWN_ALIKE)}) THEN t
    WHEN regexp_full_match(t, ${literal(WORD)}) OR (regexp_matches(t, '[0-9]') AND regexp_full_match(t, ${literal(CONVERTED)}))
      -- LibreOffice takes no line breaks in a formula.
      THEN CASE WHEN length(t) <= ${MAX_FORMULA_TEXT} AND NOT regexp_matches(t, '[\\r\\n]') THEN '="' || t || '"' ELSE '''' || t END
    WHEN regexp_matches(t, ${literal(FORMULA)}) THEN '''' || t
    ELSE t END`,
  `CREATE OR REPLACE TEMP MACRO cut_for_a_cell(t) AS CASE
    WHEN strlen(t) <= ${MAX_CELL_TEXT} THEN t
    WHEN length(t) + length(regexp_replace(t, '[^\\x{10000}-\\x{10FFFF}]', '', 'g')) <= ${MAX_CELL_TEXT} THEN t
    ELSE replace(left(regexp_replace(t, '(${WIDE})', '${MARK}\\1', 'g'), ${MAX_CELL_TEXT - 1}), '${MARK}', '') || '…' END`,
  `CREATE OR REPLACE TEMP MACRO csv_texts(list) AS list_transform(
    list_transform(
      list_transform(list, lambda t: regexp_replace(t, ${literal(FORBIDDEN)}, '', 'g')),
      lambda t: shown_as_it_is(t)),
    lambda t: cut_for_a_cell(t))`,
]

/**
 * Writes a mart as CSV in the form that spreadsheet programs expect in Brazil: semicolons, decimal commas, days before
 * months, labels in Portuguese; only what people read. Texts stay texts (`CSV_TEXT_MACROS`).
 */
export async function writeBrazilianCsv(
  db: Database,
  mart: Mart,
  path: string,
  hasCompanies: boolean,
): Promise<void> {
  for (const macro of CSV_TEXT_MACROS) await db.run(macro)
  const columns = mart.columns.filter(column => isForPeople(column, hasCompanies))
  const texts = columns.filter(({ type }) => type === 'VARCHAR').map(({ name }) => name)
  const values = columns.map((column, index) => {
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
function writtenValue(of: MartColumn, texts: readonly string[]): string {
  const column = identifier(of.name)
  switch (of.type) {
    case 'DATE':
      return ofPlausible(column, `strftime(${column}, '%d/%m/%Y')`)
    case 'TIMESTAMP':
      return ofPlausible(column, `strftime(${column}, '%d/%m/%Y %H:%M')`)
    case 'BOOLEAN':
      return `CASE ${column} WHEN true THEN 'sim' WHEN false THEN 'não' END`
    case 'DOUBLE': {
      const decimals = findDecimals(of)
      const text = decimals === null ? `${column}::VARCHAR` : `printf('%.${decimals}f', ${column})`
      return `replace(${text}, '.', ',')`
    }
    case 'VARCHAR':
      return `"texts"[${texts.indexOf(of.name) + 1}]`
    default:
      return column
  }
}

/** Returns SQL that is empty for an implausible time, which spreadsheet programs do not know. */
function ofPlausible(time: string, text: string): string {
  return `CASE WHEN year(${time}) BETWEEN ${PLAUSIBLE_YEARS.first} AND ${PLAUSIBLE_YEARS.last} THEN ${text} END`
}
