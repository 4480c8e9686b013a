import { existsSync } from 'node:fs'
import { symlink } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { temporaryDirectory } from '#test/support/project.ts'
import { hashesOf, published, SECRET } from '#test/support/published.ts'

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
