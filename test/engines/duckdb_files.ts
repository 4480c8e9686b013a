import { execFile } from 'node:child_process'
import { cp, realpath, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { isDeepStrictEqual, promisify } from 'node:util'
import { PLACE_VARIABLE } from '#src/core/lake/catalog.ts'
import { Database } from '#src/core/warehouse/database.ts'
import { identifier } from '#src/core/warehouse/quoted.ts'
import { pluralize } from '#src/lib/count.ts'
import { CATALOG } from '#src/marts/marts.ts'
import { countDaysFrom } from '#src/marts/open.ts'
import type { Servers } from '#test/api/servers.ts'
import { obtainPython } from '#test/support/python_environment.ts'
import { type Result, reasonOf } from './result.ts'

/** The oldest DuckDB that reads what is published. */
const OLDEST = '1.1.3'
/** Both count days from it. */
const NOW = new Date()

type Contents = Readonly<Record<string, { readonly rows: number; readonly values: string }>>

/** An exported file and a moved snapshot, read by the oldest DuckDB. */
export async function* testDuckDbFiles(servers: Servers, directory: string): AsyncGenerator<Result> {
  const python = await obtainPython({
    name: `duckdb ${OLDEST}`,
    requirements: join(import.meta.dirname, 'duckdb_requirements.txt'),
    module: 'duckdb, pytz',
    least: '3.11',
    below: '3.14',
    user: 'The test with other engines',
  })
  const { exported, moved } = await publish(servers, directory)
  const expected = await contentsOf(exported)
  const place = `SET VARIABLE ${PLACE_VARIABLE} = '${moved}'`
  const moment = `SET VARIABLE editais_agora = TIMESTAMPTZ '${NOW.toISOString()}'`
  yield await compare('an exported file', expected, python, [exported, moment])
  yield await compare('a moved snapshot', expected, python, [join(moved, 'catalog.duckdb'), moment, place])
}

/** What a company published, as an exported file and as a snapshot that was moved. */
async function publish(servers: Servers, directory: string): Promise<{ exported: string; moved: string }> {
  const { url, key } = await servers.startSandbox()
  const data = join(directory, 'data')
  const environment = { API_BASE_URL: url, API_KEY: key, COMPANY: 'acme', DATA_DIR: data }
  await servers.run(['sync', '--full'], environment)
  const [exported, moved] = [join(directory, 'exported.duckdb'), join(directory, 'moved')]
  await servers.run(['export', '--to', exported], environment)
  await cp(await realpath(join(data, 'acme/lake/latest')), moved, { recursive: true })
  await rm(data, { recursive: true })
  return { exported, moved }
}

/** As this program's DuckDB reads it. */
async function contentsOf(path: string): Promise<Contents> {
  const db = await Database.open(path, { readOnly: true })
  try {
    await countDaysFrom(db, NOW)
    const contents: Record<string, { rows: number; values: string }> = {}
    for (const { name, columns } of CATALOG) {
      const texts = columns.map(column => `coalesce(${identifier(column.name)}::VARCHAR, '~')`)
      const row = `concat_ws('|', ${texts.join(', ')})`
      contents[name] = await db.row<{ rows: number; values: string }>(
        `SELECT count(*) AS rows, coalesce(md5(string_agg(${row}, chr(10) ORDER BY ${row})), '') AS "values"
         FROM ${identifier(name)}`,
      )
    }
    return contents
  } finally {
    db.close()
  }
}

async function compare(
  what: string,
  expected: Contents,
  python: string,
  args: readonly string[],
): Promise<Result> {
  const script = join(import.meta.dirname, 'duckdb_contents.py')
  const title = `DuckDB ${OLDEST}, ${what}: ${pluralize(Object.keys(expected).length, 'relation')}`
  const { stdout } = await promisify(execFile)(python, [script, ...args], { maxBuffer: 16 << 20 }).catch(
    error => ({ stdout: JSON.stringify({ error: reasonOf(String(error.stderr)) }) }),
  )
  const read = JSON.parse(stdout) as { version?: string; contents?: Contents; error?: string }
  if (!read.contents || read.version !== OLDEST)
    return { title, wrong: [`  ${read.error ?? read.version}\n`] }
  const names = new Set([...Object.keys(expected), ...Object.keys(read.contents)])
  const isSame = (name: string) => isDeepStrictEqual({ ...expected[name] }, { ...read.contents?.[name] })
  const wrong = [...names].filter(name => !isSame(name))
  return { title, wrong: wrong.map(name => `  ${name} differs\n`) }
}
