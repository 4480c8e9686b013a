import { execFile } from 'node:child_process'
import { cp, realpath, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { isDeepStrictEqual, promisify } from 'node:util'
import { Command } from 'commander'
import { CATALOG } from '#schema/marts/marts.ts'
import { PLACE_VARIABLE } from '#src/core/lake/catalog.ts'
import { countDaysFrom } from '#src/core/lake/read.ts'
import { Database } from '#src/core/warehouse/database.ts'
import { identifier } from '#src/core/warehouse/quoted.ts'
import { counted } from '#src/lib/count.ts'
import { EXIT } from '#src/lib/errors.ts'
import { wholeNumber } from '#src/present/terminal/options.ts'
import { runWithServers, type Servers } from '#test/api/servers.ts'
import { obtainPython } from '#test/support/python_environment.ts'
import { testFeed } from './feed/test_feed.ts'
import { testKubernetes } from './kubernetes/test_kubernetes.ts'
import { testLake } from './lake/test_lake.ts'
import { testMcp } from './mcp/test_mcp.ts'
import { type Result, reasonOf } from './result.ts'
import { testTraces } from './traces/test_traces.ts'

const program = new Command('npm run test:engines --')
  .description('Reads everything that is published with other engines, and compares every value.')
  .option('--snapshots <count>', 'publish this many snapshots while a reader reads', wholeNumber(1), 10)
  .option(
    '--heavy',
    'also read with Trino and Spark, check the Helm chart and traces: downloads 1.2 GB and builds for ten minutes, once',
  )
  .option('--counts <file>', 'write the number of passed and failed readings as JSON')
  .showHelpAfterError('(add --help for the options)')
  .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? EXIT.ok : EXIT.usage))
  .parse()

const options = program.opts<{
  readonly snapshots: number
  readonly heavy?: true
  readonly counts?: string
}>()
await runWithServers('engines', options.counts, async (servers, directory) => {
  const counts = { passed: 0, failed: 0 }
  const heavy = options.heavy ? [testTraces, testKubernetes] : []
  for (const test of [testDuckDbFiles, testFeed, testMcp, ...heavy, testLake])
    for await (const result of test(servers, directory, options)) {
      show(result)
      counts[result.wrong.length === 0 ? 'passed' : 'failed'] += 1
    }
  return counts
})

function show({ title, wrong }: Result): void {
  process.stdout.write(`${wrong.length === 0 ? 'passed' : 'FAILED'}  ${title}\n${wrong.join('')}`)
}

/** The oldest DuckDB that reads what is published. */
const OLDEST = '1.1.3'
/** Both count days from it. */
const NOW = new Date()

type Contents = Readonly<Record<string, { readonly rows: number; readonly values: string }>>

/** An exported file and a moved snapshot, read by the oldest DuckDB. */
async function* testDuckDbFiles(servers: Servers, directory: string): AsyncGenerator<Result> {
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
  const title = `DuckDB ${OLDEST}, ${what}: ${counted(Object.keys(expected).length, 'relation')}`
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
