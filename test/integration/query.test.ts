import { createHash } from 'node:crypto'
import { existsSync, watch } from 'node:fs'
import { mkdir, readdir, readFile, realpath, rename, symlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { CATALOG } from '#schema/marts.ts'
import { notices } from '#test/support/notices.ts'
import { companyDirectory, type Environment, runCommand, temporaryDirectory } from '#test/support/project.ts'
import { runShared } from '#test/support/shared.ts'
import { startSynced } from '#test/support/synced.ts'

const SECRET = 'the words of another file'

/** One company with a snapshot, and a file beside the snapshot that does not belong to it. */
async function published(settings: Environment = {}) {
  const company = await startSynced(notices(1, 6), settings)
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
    ] as const) {
      const answer = await query(sql, '--json', ...args)
      expect(answer.code, `${sql}: ${answer.stderr}`).toBe(0)
      expect(answer.stdout, sql).toContain(shown)
    }
  })

  test('reads and writes no other file, and reaches nothing outside, whatever the SQL', async () => {
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
    const [parquet] = [...(await hashesOf(snapshot)).keys()].filter(path => path.endsWith('.parquet'))
    const before = await hashesOf(environment.DATA_DIR as string)

    const escapes = [
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
      `FROM glob('${environment.DATA_DIR}/*')`,
      "FROM glob('/*')",
      "SELECT getenv('API_KEY')",
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
    ]
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
    for (const setting of args.length > 0 ? settings.slice(0, 2) : settings)
      escapes.push(`SET ${setting}`, `PRAGMA ${setting}`)
    escapes.push('RESET enable_external_access', 'RESET lock_configuration')
    for (const sql of escapes) {
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
