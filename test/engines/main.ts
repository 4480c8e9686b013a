import { execFile } from 'node:child_process'
import { cp, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isDeepStrictEqual, promisify } from 'node:util'
import { Command } from 'commander'
import { CATALOG } from '#schema/marts.ts'
import { counted } from '#src/platform/count.ts'
import { EXIT, messageOf } from '#src/platform/errors.ts'
import { PLACE_VARIABLE } from '#src/store/lake/catalog.ts'
import { Database } from '#src/store/warehouse/database.ts'
import { identifier } from '#src/store/warehouse/quoted.ts'
import { Servers } from '#test/api/servers.ts'
import { obtainPython } from '#test/support/python_environment.ts'

/** The oldest DuckDB that reads what is published. */
const OLDEST = '1.1.3'
/** Their values depend on the present moment. */
const MOVING: ReadonlySet<string> = new Set(['frescor', 'passagens_por_fase', 'funil', 'tempo_por_fase'])

type Contents = Readonly<Record<string, { readonly rows: number; readonly values: string }>>
type Result = { readonly title: string; readonly wrong: readonly string[] }

const program = new Command('npm run test:engines --')
  .description('Reads everything that is published with other engines, and compares every value.')
  .option('--counts <file>', 'write the number of passed and failed readings as JSON')
  .showHelpAfterError('(add --help for the options)')
  .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? EXIT.ok : EXIT.usage))
  .parse()

const options = program.opts<{ readonly counts?: string }>()
const directory = await mkdtemp(join(tmpdir(), 'editais-sync-test-engines-'))
const servers = new Servers(directory)
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => void end().finally(() => process.exit(EXIT.interrupted)))
}
try {
  process.exitCode = (await testAll()) ? EXIT.ok : EXIT.failed
} catch (error) {
  process.stderr.write(`${messageOf(error)}\n`)
  process.exitCode = EXIT.failed
} finally {
  await end()
}

async function end(): Promise<void> {
  await servers.stop()
  await rm(directory, { recursive: true, force: true })
}

async function testAll(): Promise<boolean> {
  const python = await obtainPython({
    name: `duckdb ${OLDEST}`,
    requirements: join(import.meta.dirname, 'requirements.txt'),
    module: 'duckdb, pytz',
    least: '3.11',
    below: '3.14',
    user: 'The test with other engines',
  })
  const { exported, moved } = await publish()
  const expected = await contentsOf(exported)
  const place = `SET VARIABLE ${PLACE_VARIABLE} = '${moved}'`
  const results = [
    await compare('an exported file', expected, python, [exported]),
    await compare('a moved snapshot', expected, python, [join(moved, 'catalog.duckdb'), place]),
  ]
  for (const { title, wrong } of results)
    process.stdout.write(`${wrong.length === 0 ? 'passed' : 'FAILED'}  ${title}\n${wrong.join('')}`)
  const failed = results.filter(({ wrong }) => wrong.length > 0).length
  if (options.counts)
    await writeFile(options.counts, JSON.stringify({ passed: results.length - failed, failed }))
  return failed === 0
}

/** What a company published, elsewhere than where it was: as an exported file, and as a snapshot. */
async function publish(): Promise<{ exported: string; moved: string }> {
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

/** By the DuckDB of this program. */
async function contentsOf(path: string): Promise<Contents> {
  const db = await Database.open(path, { readOnly: true })
  try {
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
  const script = join(import.meta.dirname, 'contents.py')
  const title = `DuckDB ${OLDEST}, ${what}: ${counted(Object.keys(expected).length, 'relation')}`
  const { stdout } = await promisify(execFile)(python, [script, ...args], { maxBuffer: 16 << 20 }).catch(
    error => ({ stdout: JSON.stringify({ error: reasonOf(String(error.stderr)) }) }),
  )
  const read = JSON.parse(stdout) as { version?: string; contents?: Contents; error?: string }
  if (!read.contents || read.version !== OLDEST)
    return { title, wrong: [`  ${read.error ?? read.version}\n`] }
  const names = new Set([...Object.keys(expected), ...Object.keys(read.contents)])
  const wrong = [...names].filter(name => !isSame(name, expected[name], read.contents?.[name]))
  return { title, wrong: wrong.map(name => `  ${name} differs\n`) }
}

/** Python prints a trace before it, and DuckDB the place in the SQL after it. */
function reasonOf(stderr: string): string {
  const lines = stderr.trim().split('\n')
  return lines.find(line => /^\S*(Error|Exception)/.test(line)) ?? lines.at(-1) ?? ''
}

function isSame(name: string, one: Contents[string] | undefined, other: Contents[string] | undefined) {
  return MOVING.has(name) ? one?.rows === other?.rows : isDeepStrictEqual({ ...one }, { ...other })
}
