import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { readSettings } from '#config/settings.ts'
import { type Column, TABLES, type Table } from '#schema/tables.ts'
import { createSyncCommand } from '#src/cli/sync.ts'
import { companyPaths } from '#src/core/company/company.ts'
import { Database, type Row } from '#src/core/warehouse/database.ts'
import { identifier } from '#src/core/warehouse/quoted.ts'
import { writeReport } from '#src/extras/report/page.ts'
import { EXIT, FatalError } from '#src/lib/errors.ts'
import { CATALOG } from '#src/marts/marts.ts'
import { openSnapshots } from '#src/marts/open.ts'
import type { AnalysisDocument, Edital, Entry } from '#src/sandbox/world.ts'
import { syncHere } from '#test/support/here.ts'
import { noticeEntry } from '#test/support/notices.ts'
import { runCommand, temporaryDirectory } from '#test/support/project.ts'
import { startCompany } from '#test/support/synced.ts'

/** Texts that somewhere end a literal, a name, a parameter, a comment, a pattern or a template. */
const HOSTILE = [
  ...["'); DROP TABLE editais; --", '"); DROP TABLE items; --', "' OR '1'='1", "'", "''", '"', '`', ';'],
  ...['$1', '$company', ':1', '?', '%', '%s', '_', '*', '{{x}}', '$'.concat('{x}'), '\\', "\\'", '\\n'],
  ...["\u0000'", "ʼ'", 'NULL', 'null', 'DEFAULT', "read_text('/etc/passwd')", '[1]', '{"a":1}', '--', '/*'],
]
/** Hostile ids that the contract allows in a URL. */
const IDS = ['--', '1=1--', '-1', '0', 'null', '@x', ':1', '+', '...', '~', '_', 'a.b']

type Tree = { [name: string]: unknown }

/** The columns of a document, with the path of each. */
function fieldsOf(table: Table): { column: Column; path: string[] }[] {
  return table.columns.flatMap(column => {
    const { from } = column
    if ('field' in from) return [{ column, path: from.field.split('.') }]
    return 'freeForm' in from ? [{ column, path: [from.freeForm, from.property] }] : []
  })
}

function setAt(tree: Tree, [name, ...rest]: readonly string[], value: unknown): void {
  if (name === undefined) return
  if (rest.length > 0) tree[name] ??= {}
  if (rest.length > 0) setAt(tree[name] as Tree, rest, value)
  else tree[name] = value
}

/** Sets every text with a column to this one: in the list, the analysis and its children. */
function hostileEntry(number: number, text: string): Entry {
  const { edital, analysis } = noticeEntry(number)
  const id = IDS[number] ?? edital.id
  const notice: Tree = { ...edital, id, [text]: text }
  const document: Tree = { ...analysis, id, overview: {}, [text]: [text] }
  for (const { document: kind, each, columns, rows, ...table } of TABLES) {
    if (kind === 'kept' || rows === 'history') continue
    const root = kind === 'notice' ? notice : document
    const target: Tree = each ? {} : root
    for (const { column, path } of fieldsOf({ ...table, document: kind, columns, rows })) {
      // The whole object; its parts have columns of their own.
      if (path.length === 1 && path[0] === 'overview') continue
      if (column.type === 'VARCHAR') setAt(target, path, 'json' in column.from ? { [text]: [text] } : text)
    }
    if (each) root[each] = [target]
  }
  setAt(document, ['verdict', 'bullets'], [text])
  return { edital: notice as Edital, analysis: document as AnalysisDocument }
}

test('text in any field is never run as SQL, whatever the path of DATA_DIR', async () => {
  const odd = join(await temporaryDirectory(), `a'b "c" d\\e;--`, 'ç日 %41 {x,y} $1 ~', 'status=ready')
  const company = await startCompany(
    HOSTILE.map((text, number) => hostileEntry(number, text)),
    { DATA_DIR: odd },
  )
  const { environment, world } = company
  const texts = new Map(world.ids().map((id, at) => [id, HOSTILE[at] as string]))
  expect((await syncHere(environment)).report).toMatchObject({ status: 'ok', loaded: HOSTILE.length })
  expect(await company.syncHere()).toMatchObject({ unchanged: HOSTILE.length, requests: 1 })

  for (const table of TABLES.filter(({ document }) => document !== 'kept')) {
    const rows = await company.query<Row & { edital_id: string }>(`FROM ${table.name}`)
    expect(rows.length, table.name).toBe(HOSTILE.length)
    for (const row of rows) {
      const text = texts.get(row.edital_id) as string
      for (const { column, path } of fieldsOf(table)) {
        if (column.type !== 'VARCHAR' || path.at(-1) === 'overview') continue
        const whole = path.at(-1) === 'bullets' ? [text] : { [text]: [text] }
        const expected = 'json' in column.from ? whole : text
        const value = 'json' in column.from ? JSON.parse(String(row[column.name])) : row[column.name]
        expect(value, `${table.name}.${column.name}: ${text}`).toEqual(expected)
      }
    }
  }
  const drift = await company.query<{ path: string }>('FROM schema_drift')
  for (const text of HOSTILE) expect(drift.map(({ path }) => path)).toContain(`notice.${text}`)

  await expectReadable(companyPaths(odd, 'acme').lake)
  const catalog = join(odd, "it's ; $1.duckdb")
  const written = await runCommand(['catalog', '--output', catalog], environment)
  expect(written).toMatchObject({ code: 0, stderr: '' })
  const db = await Database.open(catalog, { readOnly: true })
  expect(await db.rows('SELECT count(*) AS n FROM editais')).toEqual([{ n: HOSTILE.length }])
  db.close()
})

/** Reads every table and mart, and writes the report. */
async function expectReadable(lake: string): Promise<void> {
  const { db } = await openSnapshots([lake])
  for (const { name, columns } of CATALOG) {
    const list = columns.map(column => `count(${identifier(column.name)})`)
    await db.rows(`SELECT ${list.join(', ')} FROM ${name}`)
  }
  db.close()
  const { bytes } = await writeReport(lake, join(lake, 'o\'r "x" $1.html'), {
    now: new Date(),
    pagesUrl: null,
  })
  expect(bytes).toBeGreaterThan(50_000)
}

test('no option or setting is run as SQL: an invalid value is refused with its name', async () => {
  const environment = { API_BASE_URL: 'http://127.0.0.1:9', API_KEY: 'edk_of_nobody_1234', DATA_DIR: '/none' }
  // `null` is a valid name of a company.
  for (const text of HOSTILE.filter(text => text !== 'null')) {
    for (const option of ['--status', '--id', '--wait', '--company']) {
      // These are valid in an id.
      if (option === '--id' && /^[\w.~:@+=-]+$/.test(text)) continue
      const command = createSyncCommand(environment, () => Promise.reject(new Error('no daemon')))
        .exitOverride()
        .configureOutput({ writeErr: () => {} })
      const refusal = command.parseAsync([`${option}=${text}`], { from: 'user' })
      await expect(refusal, `${option} ${text}`).rejects.toThrow(option)
    }
    for (const name of ['COMPANY', 'SOURCE_TIMEZONE', 'ANALYSIS_STATUSES', 'ANALYSIS_MAX_AGE', 'LOG_LEVEL']) {
      expect(refusalOf({ ...environment, [name]: text }), text).toContain(`${name}=`)
    }
  }
})

test('a DATA_DIR that DuckDB would read as a pattern is refused before anything is written', async () => {
  const parent = await temporaryDirectory()
  for (const name of ['a*', '*', '**', 'a?', 'a[b]', '[', 'x/a[!b]/y']) {
    const company = { DATA_DIR: join(parent, name), COMPANY: 'acme' }
    expect(refusalOf(company)).toMatch(/^DATA_DIR=.*: must have no \*, \? or \[ in its absolute path/)
  }
  expect(readSettings({ DATA_DIR: 'a b' }).dataDir).toBe(join(process.cwd(), 'a b'))
  expect(await readdir(parent)).toEqual([])
})

function refusalOf(environment: Readonly<Record<string, string>>): string {
  try {
    readSettings(environment)
  } catch (error) {
    expect(error).toBeInstanceOf(FatalError)
    expect((error as FatalError).exitCode).toBe(EXIT.usage)
    return (error as FatalError).message
  }
  throw new Error(`${JSON.stringify(environment)} was accepted`)
}
