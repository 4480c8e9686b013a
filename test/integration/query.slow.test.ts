import { createHash } from 'node:crypto'
import { existsSync, readFileSync, watch } from 'node:fs'
import { mkdir, readdir, readFile, realpath, rename, symlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { CATALOG } from '#schema/marts/marts.ts'
import { notices } from '#test/support/notices.ts'
import {
  companyDirectory,
  type Environment,
  runCommand,
  startCommand,
  temporaryDirectory,
} from '#test/support/project.ts'
import { runShared } from '#test/support/shared.ts'
import { startSynced } from '#test/support/synced.ts'

const SECRET = 'the words of another file'

/** One company with a snapshot, and a file beside the snapshot that does not belong to it. */
async function published(settings: Environment = {}) {
  const company = await startSynced(notices(1, 6, { data_sessao: '2026-12-10T12:00:00Z' }), settings)
  const { environment } = company
  const snapshot = await realpath(join(companyDirectory(environment), 'lake/latest'))
  const file = join(environment.DATA_DIR as string, 'secret.csv')
  await writeFile(file, `a\n${SECRET}\n`)
  const query = (sql: string, ...args: string[]) => runShared(['query', ...args, sql], environment)
  return { environment, snapshot, file, query }
}

async function hashesOf(directory: string): Promise<Map<string, string>> {
  const names = await readdir(directory, { recursive: true, withFileTypes: true })
  const paths = names.filter(name => name.isFile()).map(({ parentPath, name }) => join(parentPath, name))
  const hashed = paths.sort().map(async path => {
    const hash = createHash('sha256')
      .update(await readFile(path))
      .digest('hex')
    return [path, hash] as const
  })
  return new Map(await Promise.all(hashed))
}

/** What SQL tries to reach: a file that is not of the snapshot, one that it would write, one of the snapshot, a server. */
type Outside = {
  readonly file: string
  readonly out: string
  readonly parquet: string
  readonly link: string
  readonly address: string
  readonly snapshot: string
  readonly dataDir: string
  readonly isAll: boolean
}

/** SQL that must be refused, by what it tries. */
const ESCAPES: Readonly<Record<string, (to: Outside) => string[]>> = {
  'read another file': ({ file, link, parquet, snapshot, dataDir }) => [
    ...['read_csv', 'read_text', 'read_blob', 'read_json', 'read_parquet', 'sniff_csv', 'read_duckdb'].map(
      read => `FROM ${read}('${file}')`,
    ),
    `FROM '${file}'`,
    `FROM read_csv('${link}')`,
    `FROM read_csv('${snapshot}/../../../../secret.csv')`,
    `FROM read_text('file://${file}')`,
    `FROM read_parquet(['${parquet}', '${file}'])`,
    `FROM query('FROM read_text(''${file}'')')`,
    `FROM query_table('${file}')`,
    `SELECT * FROM json_execute_serialized_sql(json_serialize_sql('FROM read_text(''${file}'')'))`,
    "FROM read_blob('/proc/self/environ')",
    `FROM glob('${dataDir}/*')`,
    "FROM glob('/*')",
    "SELECT getenv('API_KEY')",
  ],
  'write a file': ({ file, out, parquet, snapshot }) => [
    `COPY (SELECT 1) TO '${out}'`,
    `COPY (SELECT 1) TO '${parquet}' (USE_TMP_FILE false)`,
    `EXPLAIN ANALYZE COPY (SELECT 1) TO '${parquet}' (USE_TMP_FILE false)`,
    `EXPLAIN /* */ (ANALYZE) /**/ cOpY (SELECT 1) TO '${parquet}' (USE_TMP_FILE false)`,
    `PREPARE p AS COPY (SELECT 1) TO '${parquet}' (USE_TMP_FILE false); EXECUTE p`,
    `SELECT 1; COPY (SELECT 1) TO '${parquet}' (USE_TMP_FILE false)`,
    `CREATE TEMP TABLE t(a VARCHAR); COPY t FROM '${file}'; FROM t`,
    `EXPORT DATABASE '${out}'`,
    `IMPORT DATABASE '${out}'`,
    `ATTACH '${out}'`,
    `ATTACH '${out}' AS o; CREATE TABLE o.t AS SELECT 1`,
    `ATTACH '${snapshot}/../../warehouse.duckdb' AS w (READ_ONLY); FROM w.meta`,
    "ATTACH ':memory:' AS m",
  ],
  'reach a server, or load an extension': ({ file, out, address }) => [
    `FROM read_csv('${address}')`,
    "FROM read_csv('s3://bucket/x.csv')",
    ...[
      'INSTALL httpfs',
      'LOAD httpfs',
      `LOAD '${file}'`,
      `INSTALL json FROM '${address}'`,
      'UPDATE EXTENSIONS',
    ],
    'FROM duckdb_extensions()',
    'CREATE SECRET (TYPE s3)',
    `CREATE PERSISTENT SECRET s (TYPE http, BEARER_TOKEN 'x')`,
    `CALL enable_logging('QueryLog', storage = 'file', storage_path = '${out}')`,
  ],
  'log, profile, or run SQL in a text': () => [
    'FROM enable_logging()',
    'SELECT * FROM system.main."ENABLE_logging" /* */ -- x\n ()',
    'FROM U&"enable\\005flogging"()',
    'CREATE TEMP TABLE t AS FROM enable_logging(); FROM t',
    "FROM query('SELECT 1')",
    'FROM truncate_duckdb_logs()',
    'FROM test_all_types()',
    'PRAGMA enable_profiling',
    'PRAGMA "enable_verification"',
    'PRAGMA force_checkpoint',
    'PRAGMA"force_checkpoint"',
  ],
  'hide a call in what looks like a text': () => [
    'FROM test_all_types\u200b()',
    'PRAGMA\u2060force_checkpoint',
    "SELECT e'\\'', * FROM test_all_types() --'",
    "SELECT 1e'\\'', * FROM test_all_types() --'",
    "SELECT e'' -- \n'\\'', * FROM test_all_types() --'",
    "SELECT e'\\'', a\u200be'\\', * FROM test_all_types() a --'",
    'SELECT * -- \r FROM test_all_types()',
    "/* /* */ ' */ FROM test_all_types() --'",
    "SELECT $é$ ' $é$, * FROM test_all_types() --'",
    'SELECT 1 AS a$b$, * FROM test_all_types() AS t$b$',
    'SELECT 1 AS é$b$, * FROM test_all_types() AS t$b$',
  ],
  'change a setting': ({ file, out, isAll }) => {
    const settings = [
      ...['enable_external_access = true', 'lock_configuration = false', "allowed_directories = ['/']"],
      ...[`allowed_paths = ['${file}']`, `temp_directory = '${out}'`, "allowed_configs = ['threads']"],
      ...[`log_query_path = '${out}'`, `profiling_output = '${out}'`, `file_search_path = '${out}'`],
      ...["memory_limit = '100GB'", `extension_directory = '${out}'`, `home_directory = '${out}'`],
      ...[
        `secret_directory = '${out}'`,
        'autoload_known_extensions = true',
        'allow_unsigned_extensions = true',
      ],
    ]
    // With --all each query creates all views again, so it tests fewer: the settings are the same.
    const tried = isAll ? settings.slice(0, 2) : settings
    return [
      ...tried.flatMap(setting => [`SET ${setting}`, `PRAGMA ${setting}`]),
      ...['RESET enable_external_access', 'RESET lock_configuration'],
    ]
  },
}

describe.each([{ args: [] }, { args: ['--all'] }])('a query $args', ({ args }) => {
  test('reads every table and mart, in any form of SQL query', async () => {
    const { query } = await published()
    const all = CATALOG.map(({ name }) => `SELECT '${name}' AS name, count(*) AS n FROM "${name}"`)
    const { code, stdout } = await query(all.join(' UNION ALL '), '--json', ...args)
    expect(code).toBe(0)
    const counts = JSON.parse(stdout) as { name: string; n: number }[]
    expect(counts.map(({ name }) => name).sort()).toEqual(CATALOG.map(({ name }) => name).sort())
    expect(counts.find(({ name }) => name === 'requirements')?.n).toBe(12)
    for (const [sql, shown] of [
      ["SET TimeZone = 'America/Manaus'; SELECT current_setting('TimeZone') AS z", 'America/Manaus'],
      ['CREATE TEMP TABLE t AS FROM items; SELECT count(*) AS n FROM t', '18'],
      ['PIVOT editais ON status USING count(*) GROUP BY company', 'analysis'],
      ['DESCRIBE editais', 'edital_id'],
      ['EXPLAIN SELECT count(*) FROM editais', 'explain_value'],
      ['SUMMARIZE alerts', 'severity'],
      [' fases; ', 'Precificação'],
    ] as const) {
      const answer = await query(sql, '--json', ...args)
      expect(answer.code, `${sql}: ${answer.stderr}`).toBe(0)
      expect(answer.stdout, sql).toContain(shown)
    }
  })

  test.each(Object.entries(ESCAPES))('may not %s, whatever the SQL', async (_, escapes) => {
    const { environment, snapshot, file, query } = await published()
    const asked: string[] = []
    const server = createServer((request, response) => {
      asked.push(String(request.url))
      response.end('a\n1\n')
    })
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.close())
    const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}/x.csv`
    const out = join(await temporaryDirectory(), 'out')
    const link = join(snapshot, 'link.csv')
    await symlink(file, link)
    const [parquet = ''] = [...(await hashesOf(snapshot)).keys()].filter(path => path.endsWith('.parquet'))
    const before = await hashesOf(environment.DATA_DIR as string)

    const dataDir = environment.DATA_DIR as string
    const outside = { file, out, parquet, link, address, snapshot, dataDir, isAll: args.length > 0 }
    for (const sql of escapes(outside)) {
      const { code, stdout, stderr } = await query(sql, '--json', ...args)
      expect(code, `${sql}: ${stdout}`).toBe(1)
      expect(`${stdout}${stderr}`, sql).not.toContain(SECRET)
      expect(stderr, sql).not.toMatch(/\n\s+at /)
    }
    expect(asked).toEqual([])
    expect(existsSync(out)).toBe(false)
    expect(await hashesOf(environment.DATA_DIR as string)).toEqual(before)
  })
})

test('SQL that is off is refused in one sentence with the flag that turns it on, and the flag works', async () => {
  const { file, query } = await published()
  const out = join(await temporaryDirectory(), 'out.parquet')
  const hint = '--allow-files permits other files, extensions and settings.'
  const read = await query(`FROM read_csv('${file}')`)
  expect([read.code, read.stdout]).toEqual([1, ''])
  expect(read.stderr).toContain(`Cannot access file "${file}"`)
  expect(read.stderr).toContain(hint)
  expect((await query('SET threads = 1')).stderr).toContain(hint)
  const copy = `COPY (FROM editais) TO '${out}'`
  expect((await query(copy)).stderr).toContain(
    'file system operations are disabled by configuration. Queries can read only the snapshot. For SQL',
  )
  expect((await query('PREPARE p AS SELECT 1')).stderr).toContain(
    'A query may not be a PREPARE statement. Queries',
  )
  expect((await query('SELECT nothing')).stderr).not.toContain('--allow-files')

  expect((await query(`FROM read_csv('${file}')`, '--json', '--allow-files')).stdout).toContain(SECRET)
  expect((await query(copy, '--allow-files')).code).toBe(0)
  expect((await query(`SELECT count(*) AS n FROM '${out}'`, '--json', '--allow-files')).stdout).toBe(
    '[{"n":6}]\n',
  )
})

test('data beyond memory goes to a separate directory, readable by its owner only and removed afterwards', async () => {
  const { environment } = await published()
  const own = await temporaryDirectory()
  const sql = `SELECT count(*) AS n FROM (SELECT DISTINCT repeat('x', 200) || i FROM range(3000000) t(i))`
  const seen: string[] = []
  const watcher = watch(own, (_, name) => void seen.push(String(name)))
  onTestFinished(() => watcher.close())
  const { code, stdout } = await runCommand(['query', sql, '--json'], { ...environment, TMPDIR: own })
  expect([code, stdout]).toEqual([0, '[{"n":3000000}]\n'])
  expect(new Set(seen).size).toBe(1)
  expect(await readdir(own)).toEqual([])
})

test('a snapshot can be read if DATA_DIR is a link', async () => {
  const place = await temporaryDirectory()
  await mkdir(join(place, 'real'))
  await symlink(join(place, 'real'), join(place, 'link'))
  const { query } = await published({ DATA_DIR: join(place, 'link') })
  const answer = await query('SELECT count(*) AS n FROM editais', '--json')
  expect([answer.stderr, answer.stdout]).toEqual(['', '[{"n":6}]\n'])
  await rename(join(place, 'real'), join(place, 'moved'))
  await symlink(join(place, 'moved'), join(place, 'real'))
  expect((await query('SELECT count(*) AS n FROM editais', '--json', '--all')).stdout).toBe('[{"n":6}]\n')
})

/** What every form prints of a value, and the JSON if it is not a string with that text. */
const PRINTED: readonly (readonly [expression: string, text: string, json?: string])[] = [
  ["DATE '2026-12-10'", '2026-12-10'],
  ["TIMESTAMP '2026-12-10 09:00:00'", '2026-12-10 09:00:00'],
  ["TIMESTAMP '2026-12-10 09:00:00.123456'", '2026-12-10 09:00:00.123456'],
  ["TIMESTAMPTZ '2026-12-10 09:00:00-03'", '2026-12-10 12:00:00+00'],
  ["TIME '09:00:00'", '09:00:00'],
  ["INTERVAL '1 month 2 days'", '1 month 2 days'],
  ['1.10::DECIMAL(9,2)', '1.10', '1.10'],
  ['9007199254740993', '9007199254740993', '9007199254740993'],
  ['13300000::DOUBLE', '13300000.0', '13300000.0'],
  ["DATE 'infinity'", 'infinity'],
  ['NULL IS NULL', 'true', 'true'],
  ['[1, NULL]', '[1,null]', '[1,null]'],
]

test('values are printed as their types write them, in a table, CSV and JSON', async () => {
  const { query } = await published()
  for (const [expression, text, json = JSON.stringify(text)] of PRINTED) {
    const sql = `SELECT ${expression} AS v, NULL AS n`
    expect((await query(sql)).stdout, expression).toContain(`│ ${text} │ NULL │`)
    const csv = text.includes(',') ? `"${text}"` : text
    expect((await query(sql, '--csv')).stdout, expression).toBe(`v,n\r\n${csv},\r\n`)
    expect((await query(sql, '--json')).stdout, expression).toBe(`[{"v":${json},"n":null}]\n`)
  }
  const zoned = `SET TimeZone = 'America/Manaus'; SELECT TIMESTAMPTZ '2026-12-10 09:00:00-03' AS v`
  expect((await query(zoned, '--csv')).stdout).toBe('v\r\n2026-12-10 08:00:00-04\r\n')
})

test('every column of the catalog is printed as the database itself casts it to text', async () => {
  const { query } = await published()
  for (const { name } of CATALOG) {
    // In one statement, because ages depend on its time.
    const { stdout } = await query(`SELECT *, COLUMNS(*)::VARCHAR FROM "${name}"`, '--json')
    const rows = JSON.parse(stdout, (_name, value, { source }) =>
      typeof value === 'number' || typeof value === 'boolean' ? source : value,
    ) as Record<string, string | null>[]
    for (const row of rows) {
      const values = Object.values(row)
      expect(values.slice(0, values.length / 2), name).toEqual(values.slice(values.length / 2))
    }
  }
  const sql = 'SELECT data_sessao, data_sessao_local, data_sessao_dia FROM editais_ativos LIMIT 1'
  expect((await query(sql, '--csv')).stdout).toContain(
    '\r\n2026-12-10 12:00:00+00,2026-12-10 09:00:00,2026-12-10\r\n',
  )
})

test('a large result is printed as it is read, in bounded memory', async () => {
  const { environment } = await published()
  // 1 GB of text; ten narrow chunks, or two of these, fit into memory at once.
  const sql = `SELECT i, repeat('x', 4000) || i AS s FROM range(250000) t(i)`
  for (const form of ['--csv', '--json']) {
    const { child } = startCommand(['query', form, sql], environment, environment.DATA_DIR as string)
    child.stdout?.removeAllListeners('data')
    let lines = 0
    let mostMegabytes = 0
    for await (const text of child.stdout ?? []) {
      lines += String(text).split('\n').length - 1
      const status = readFileSync(`/proc/${child.pid}/status`, 'utf8')
      mostMegabytes = Math.max(mostMegabytes, Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024)
    }
    expect(lines, form).toBe(form === '--csv' ? 250_001 : 250_000)
    expect(mostMegabytes, form).toBeGreaterThan(50)
    expect(mostMegabytes, form).toBeLessThan(800)
  }
}, 120_000)

test('a table reads no more than it shows', async () => {
  const { query } = await published()
  const endless = await query('SELECT i FROM range(1000000000000) t(i)')
  expect(endless.code).toBe(0)
  expect(endless.stdout).toMatch(/│ 199 │\n└─+┘\nThe first 200 rows; --csv and --json print all\n$/)
  expect((await query('FROM range(200)')).stdout).toMatch(/\n200 rows\n$/)
  expect((await query('FROM range(1)')).stdout).toMatch(/\n1 row\n$/)
})

test.each(['--csv', '--json'])('a reader that closes the pipe ends %s quietly', async form => {
  const { environment } = await published()
  const own = await temporaryDirectory()
  const { child, ended } = startCommand(
    ['query', form, 'SELECT i FROM range(1000000000000) t(i)'],
    { ...environment, TMPDIR: own, NODE_DISABLE_COMPILE_CACHE: '1' },
    own,
  )
  child.stdout?.once('data', () => child.stdout?.destroy())
  expect(await ended).toMatchObject({ code: 0, stderr: '' })
  expect(await readdir(own)).toEqual([])
})

test('a query that fails in the middle leaves no complete output, and says why', async () => {
  const { query } = await published()
  const sql = (at: number) => `SELECT replace(i::VARCHAR, '${at}', 'x')::INT AS n FROM range(1000000) t(i)`
  const reason = "The query failed: Conversion Error: Could not convert string 'x' to INT32"
  const json = await query(sql(300_000), '--json')
  expect([json.code, json.stderr]).toEqual([1, `${reason}. The output is incomplete.\n`])
  expect(json.stdout).toMatch(/^\[\{"n":0\},\n.*\}$/s)
  expect(() => JSON.parse(json.stdout)).toThrow()
  const csv = await query(sql(300_000), '--csv')
  expect([csv.code, csv.stderr]).toEqual([1, `${reason}. The output is incomplete.\n`])
  // Early enough, and nothing is printed.
  for (const form of ['--csv', '--json']) {
    expect(await query(sql(3_000), form)).toEqual({ code: 1, stdout: '', stderr: `${reason}\n` })
  }
  // In a transaction of its own, the query cannot be run again to learn the reason.
  const own = await query(`BEGIN; ${sql(300_000)}`, '--csv')
  expect(own.stderr).toContain('the database stopped in the middle, and does not report why')
})

test('SQL is read from a file or from standard input, and a mistake in it is located', async () => {
  const { environment, query } = await published()
  const directory = await temporaryDirectory()
  const run = async (sql: string, ...args: string[]) => {
    const file = join(directory, 'report.sql')
    await writeFile(file, sql)
    return await runShared(['query', '--file', file, ...args], environment)
  }
  const counts = '-- São todos.\nSELECT count(*) AS n\nFROM editais;\n'
  expect((await run(counts, '--json')).stdout).toBe('[{"n":6}]\n')
  const mistake = await run('SELECT *\nFROM editais\nWHERE nothing = 1')
  const located = expect.stringMatching(/^The query failed in \S+report\.sql, line 3: Binder Error: /)
  expect(mistake).toMatchObject({ code: 1, stderr: located })
  expect((await run(' \n')).stderr).toMatch(/^There is no SQL in \S+report\.sql\. /)
  expect((await run("COPY (SELECT 1) TO '/tmp/x'")).stderr).toContain('--allow-files permits other files')

  const { child, ended } = startCommand(['query', '--file', '-', '--json'], environment, directory, 'pipe')
  child.stdin?.end(counts)
  expect(await ended).toEqual({ code: 0, stdout: '[{"n":6}]\n', stderr: '' })
  expect((await query('SELEC 1')).stderr).toMatch(/^The query failed: /)
  expect((await query('decisoess')).stderr).toContain('Did you mean "decisoes"?')
})
