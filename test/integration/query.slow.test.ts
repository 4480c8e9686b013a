import { readFileSync, watch } from 'node:fs'
import { mkdir, readdir, rename, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { CATALOG } from '#src/marts/marts.ts'
import { runCommand, startCommand, temporaryDirectory } from '#test/support/project.ts'
import { published, SECRET } from '#test/support/published.ts'
import { runShared } from '#test/support/shared.ts'

/** It reads all of `novidades` once more: in one query with all others, that needs more memory than a query may use. */
const APART = ['retificacoes']

describe.each([{ args: [] }, { args: ['--all'] }])('a query $args', ({ args }) => {
  test('reads every table and mart, in any form of SQL query', async () => {
    const { query } = await published()
    const all = CATALOG.map(({ name }) => ({
      name,
      sql: `SELECT '${name}' AS name, count(*) AS n FROM "${name}"`,
    }))
    const counts: { name: string; n: number }[] = []
    for (const some of [true, false].map(isApart =>
      all.filter(one => APART.includes(one.name) === isApart),
    )) {
      const { code, stdout } = await query(some.map(({ sql }) => sql).join(' UNION ALL '), '--json', ...args)
      expect(code).toBe(0)
      counts.push(...JSON.parse(stdout))
    }
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
