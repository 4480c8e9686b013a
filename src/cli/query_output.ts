import { once } from 'node:events'
import type { Form, Stream, WrittenRow } from '#src/core/warehouse/database.ts'
import { counted } from '#src/lib/count.ts'
import { FatalError } from '#src/lib/errors.ts'
import { csvLine, renderCells } from '#src/present/terminal/table.ts'

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
export async function printCsv(answer: Stream): Promise<void> {
  const open = csvLine(answer.columns.map(({ name }) => name))
  await printRows(answer, { form: 'text', open, row: csvLine, between: '', close: '' })
}

/** Prints a JSON array of objects, as they are read: one line each. */
export async function printJson(answer: Stream): Promise<void> {
  const names = answer.columns.map(({ name }) => JSON.stringify(name))
  const row = (values: WrittenRow) =>
    `{${values.map((value, index) => `${names[index]}:${value}`).join(',')}}`
  await printRows(answer, { form: 'json', open: '[', row, between: ',\n', close: ']\n' })
}

/** Prints the first rows as a table for people, and reads no further. */
export async function printTable(answer: Stream): Promise<void> {
  const rows = await firstRows(answer, MAX_TABLE_ROWS + 1)
  const end =
    rows.length > MAX_TABLE_ROWS
      ? `The first ${counted(MAX_TABLE_ROWS, 'row')}; --csv and --json print all`
      : counted(rows.length, 'row')
  await print(`${renderCells(answer.columns, rows.slice(0, MAX_TABLE_ROWS))}${end}\n`)
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
