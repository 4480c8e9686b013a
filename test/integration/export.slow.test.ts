import { copyFile, mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Database } from '#src/core/warehouse/database.ts'
import { identifier } from '#src/core/warehouse/quoted.ts'
import { CATALOG } from '#src/marts/marts.ts'
import { idOf, notices } from '#test/support/notices.ts'
import { companyDirectory, type Environment, temporaryDirectory } from '#test/support/project.ts'
import { runShared } from '#test/support/shared.ts'
import { startCompany } from '#test/support/synced.ts'

/** They contain the present time, or durations until now. */
const MOVING = ['frescor', 'servico', 'passagens_por_fase', 'funil', 'tempo_por_fase']

/** Each relation: its rows, and all its values as one hash. */
const CONTENTS = CATALOG.map(({ name, columns }) => {
  const list = columns.map(column => identifier(column.name)).join(', ')
  const content = MOVING.includes(name) ? 'NULL' : `md5(string_agg(t::VARCHAR, chr(10) ORDER BY t::VARCHAR))`
  return `SELECT '${name}' AS name, count(*)::INTEGER AS rows, ${content} AS content
    FROM (SELECT ${list} FROM ${identifier(name)}) t`
}).join('\nUNION ALL\n')

const COMMENTS = `FROM (SELECT table_name AS name, NULL AS column_name, comment FROM duckdb_tables() WHERE NOT internal
    UNION ALL SELECT view_name, NULL, comment FROM duckdb_views() WHERE NOT internal
    UNION ALL SELECT table_name, column_name, comment FROM duckdb_columns() WHERE NOT internal)
  ORDER BY ALL`

/** A company with two runs, so that the histories have rows. */
async function published() {
  const company = await startCompany(notices(1, 12))
  await company.syncHere()
  company.world.update(idOf(1), {
    edital: { objeto: 'Outro objeto' },
    updatedAt: new Date('2026-11-20T12:00:00Z'),
  })
  await company.syncHere()
  return company
}

async function read(path: string) {
  const db = await Database.open(path, { readOnly: true })
  try {
    return { contents: await db.rows(CONTENTS), comments: await db.rows(COMMENTS) }
  } finally {
    db.close()
  }
}

const exportTo = (environment: Environment, ...args: string[]) => runShared(['export', ...args], environment)

test('an exported file has every table, mart and comment, on another path and without the lake', async () => {
  const { environment } = await published()
  const expected = await read(join(companyDirectory(environment), 'lake/latest/catalog.duckdb'))
  const place = await temporaryDirectory()
  const { code, stdout, stderr } = await exportTo(environment, '--to', join(place, 'a.duckdb'))
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  expect(stdout).toMatch(/^\/.*a\.duckdb: 12 notices of acme \(\d+ MB\)\n$/)
  expect(await readdir(place)).toEqual(['a.duckdb'])

  const elsewhere = join(await temporaryDirectory(), 'cópia de hoje.duckdb')
  await copyFile(join(place, 'a.duckdb'), elsewhere)
  await rm(companyDirectory(environment), { recursive: true })
  const exported = await read(elsewhere)
  expect(exported).toEqual(expected)
  expect(exported.contents.find(({ name }) => name === 'mudancas')).toMatchObject({ rows: 1 })
})

test('all companies in one file, each with its local times', async () => {
  const { environment } = await published()
  const path = join(await temporaryDirectory(), 'all.duckdb')
  expect((await exportTo(environment, '--all', '--to', path)).code).toBe(0)
  const all = await read(path)
  expect(all.contents.find(({ name }) => name === 'editais')).toMatchObject({ rows: 12 })
})

test('an existing file is replaced only by a complete one', async () => {
  const { environment } = await published()
  const place = await temporaryDirectory()
  const path = join(place, 'a.duckdb')
  await writeFile(path, 'old')
  expect((await exportTo(environment, '--to', path)).code).toBe(0)
  expect((await read(path)).contents.length).toBe(CATALOG.length)
})

test('a file that cannot be written is named, with what to do', async () => {
  const { environment } = await published()
  const place = await temporaryDirectory()
  await mkdir(join(place, 'taken'))
  for (const path of [join(place, 'taken'), join(place, 'missing/a.duckdb'), '/proc/a.duckdb']) {
    const { code, stdout, stderr } = await exportTo(environment, '--to', path)
    expect({ path, code, stdout }).toEqual({ path, code: 2, stdout: '' })
    expect(stderr).toMatch(new RegExp(`^${path} cannot be written: .+\\. Name another file with --to\\.\n$`))
  }
  expect(await readdir(place)).toEqual(['taken'])
})

test.each([
  [['--to', 'a.duckdb'], 1, /No company has a snapshot|There is no snapshot/],
  [['--to', 'a.duckdb', '--all', '--company', 'acme'], 2, /Use --all or --company, not both/],
  [[], 2, /required option '--to <path>' not specified/],
])('%j without a snapshot or with wrong options', async (args, code, message) => {
  const { environment } = await startCompany([])
  const ended = await exportTo(environment, ...args)
  expect(ended.code).toBe(code)
  expect(ended.stderr).toMatch(message)
})
