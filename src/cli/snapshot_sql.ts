import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadCompanyEnvironment, readCompanies } from '#config/companies.ts'
import { type Environment, readSettings } from '#config/settings.ts'
import { companyPaths } from '#src/core/company/company.ts'
import { listFiles, makeSource, openSnapshot } from '#src/core/lake/read.ts'
import type { Database, Form, Stream, WrittenRow } from '#src/core/warehouse/database.ts'
import { closing } from '#src/lib/closing.ts'
import { pluralize } from '#src/lib/count.ts'
import { EXIT, FatalError } from '#src/lib/errors.ts'
import { openSnapshots, openWithOurMarts } from '#src/marts/open.ts'
import { askFenced, askFreely, type ForeignSql, fence } from '#src/present/sql/fence.ts'
import { formatCsvLine, renderCells } from '#src/present/terminal/table.ts'
import { formatWritten, withEqualDecimals } from '#src/present/text/format.ts'

/** More is of no use in a terminal; `--csv` and `--json` print all rows. */
const MAX_TABLE_ROWS = 200
/** Rows are written together until their text is at least this long. */
const WRITE_CHARACTERS = 65_536

/** A text of any number of rows. */
type Layout = {
  readonly form: Form
  readonly open: string
  readonly row: (values: WrittenRow) => string
  readonly between: string
  readonly close: string
}

/** Prints rows as CSV, as they are read. */
async function printCsv(answer: Stream): Promise<void> {
  const open = formatCsvLine(answer.columns.map(({ name }) => name))
  await printRows(answer, { form: 'text', open, row: formatCsvLine, between: '', close: '' })
}

/** Prints a JSON array of objects, as they are read: one line each. */
async function printJson(answer: Stream): Promise<void> {
  const names = answer.columns.map(({ name }) => JSON.stringify(name))
  const row = (values: WrittenRow) =>
    `{${values.map((value, index) => `${names[index]}:${value}`).join(',')}}`
  await printRows(answer, { form: 'json', open: '[', row, between: ',\n', close: ']\n' })
}

/** Prints the first rows as a table for people, with values as the database writes them, and reads no further. */
export async function printTable(answer: Stream): Promise<void> {
  await printFirst(answer, await firstRows(answer, MAX_TABLE_ROWS + 1))
}

/** Prints them with values in Brazilian form, for saved questions: their columns have Portuguese names. */
export async function printInPortuguese(answer: Stream): Promise<void> {
  const rows = await firstRows(answer, MAX_TABLE_ROWS + 1)
  const kinds = answer.columns.map(({ kind }) => kind)
  const columns = kinds.map((kind, index) => {
    const column = rows.map(row => formatWritten(row[index] ?? null, kind))
    return kind === 'number' ? withEqualDecimals(column) : column
  })
  await printFirst(
    answer,
    rows.map((_, index) => columns.map(column => column[index] as string)),
  )
}

async function printFirst({ columns }: Stream, rows: readonly WrittenRow[]): Promise<void> {
  const end =
    rows.length > MAX_TABLE_ROWS
      ? `The first ${pluralize(MAX_TABLE_ROWS, 'row')}; --csv and --json print all`
      : pluralize(rows.length, 'row')
  await print(`${renderCells(columns, rows.slice(0, MAX_TABLE_ROWS))}${end}\n`)
}

async function firstRows({ rows }: Stream, limit: number): Promise<WrittenRow[]> {
  const first: WrittenRow[] = []
  for await (const group of rows('text')) {
    for (const row of group) {
      first.push(row)
      if (first.length === limit) return first
    }
  }
  return first
}

/**
 * Prints nothing if the query fails within the first rows, and no end if it fails later.
 * @throws FatalError of the query.
 */
async function printRows({ rows }: Stream, { form, open, row, between, close }: Layout): Promise<void> {
  let text = open
  let separator = ''
  let hasPrinted = false
  try {
    for await (const group of rows(form)) {
      for (const values of group) {
        text += separator + row(values)
        separator = between
        if (text.length < WRITE_CHARACTERS) continue
        await print(text)
        hasPrinted = true
        text = ''
      }
    }
  } catch (error) {
    if (!hasPrinted || !(error instanceof FatalError)) throw error
    throw new FatalError(`${error.message}. The output is incomplete.`, error.exitCode, { cause: error })
  }
  await print(text + close)
}

/** Waits while the reader is behind. */
async function print(text: string): Promise<void> {
  if (!process.stdout.write(text)) await once(process.stdout, 'drain')
}

/** The options of the commands that ask the latest snapshot. */
export type SnapshotOptions = {
  readonly company?: string
  readonly all?: true
  readonly csv?: true
  readonly json?: true
  readonly allowFiles?: true
}

/** The version of the marts: the one that the snapshot was published with, or this program's. */
type Marts = 'published' | 'ours'

export type SnapshotQuery = {
  readonly db: Database
  readonly ask: (sql: ForeignSql) => Promise<Stream>
}

/** Chooses how to print answers. @throws FatalError (usage) for options that exclude each other. */
export function choosePrinter(
  { csv, json, all, company }: SnapshotOptions,
  printPlain = printTable,
): (answer: Stream) => Promise<void> {
  if (csv && json) throw new FatalError('Use --csv or --json, not both.', EXIT.usage)
  if (all && company) throw new FatalError('Use --all or --company, not both.', EXIT.usage)
  return json ? printJson : csv ? printCsv : printPlain
}

/** Opens the latest snapshot, or with `all` those of all companies, behind the fence unless `allowFiles` is set. */
export async function withOpenSnapshot(
  environment: Environment,
  options: SnapshotOptions,
  use: (asked: SnapshotQuery) => Promise<void>,
  marts: Marts = 'published',
): Promise<void> {
  // A directory of its own: DuckDB spills there what does not fit into memory, and the SQL may use it.
  const temporary = await mkdtemp(join(tmpdir(), 'editais-sync-query-'))
  const remove = () => rmSync(temporary, { recursive: true, force: true })
  // A reader that closes the pipe ends the process at once.
  process.once('exit', remove)
  try {
    const { db, sources } = await openFor(environment, options, { temporary, marts })
    using _ = closing(db)
    if (!options.allowFiles) await fence(db, sources.flatMap(listFiles))
    await use({ db, ask: sql => (options.allowFiles ? askFreely(db, sql) : askFenced(db, sql)) })
  } finally {
    process.off('exit', remove)
    remove()
  }
}

async function openFor(
  environment: Environment,
  { all, company }: SnapshotOptions,
  { temporary, marts }: { readonly temporary: string; readonly marts: Marts },
) {
  if (all) return await openSnapshots(await listLakes(environment), temporary)
  const settings = readSettings(await loadCompanyEnvironment(environment, company))
  const { lake } = companyPaths(settings.dataDir, settings.company)
  if (marts === 'ours') return await openWithOurMarts(lake, temporary)
  const { db, manifest } = await openSnapshot(lake, temporary)
  return { db, sources: [makeSource(manifest)] }
}

/** Returns the lakes of all configured companies. */
export async function listLakes(environment: Environment): Promise<string[]> {
  const { environments, places, problem, warnings } = await readCompanies(environment)
  for (const line of problem === null ? warnings : [problem, ...warnings]) process.stderr.write(`${line}\n`)
  // A mistake in a company's entry does not affect what it has published: sums must include it.
  return [...environments.values(), ...places.values()].map(own => {
    const { dataDir, company } = readSettings(own)
    return companyPaths(dataDir, company).lake
  })
}
