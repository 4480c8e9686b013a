import { cp, mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { Database } from '#src/core/warehouse/database.ts'
import { readFacts, type WarehouseFacts } from '#src/extras/shared_log/checkpoints.ts'
import { copyForeign } from '#src/extras/shared_log/foreign_warehouse.ts'
import { notices } from '#test/support/notices.ts'
import { companyDirectory, temporaryDirectory } from '#test/support/project.ts'
import { startSynced } from '#test/support/synced.ts'
import { tablesOf } from '#test/support/tables.ts'

type Own = { readonly path: string; readonly rows: string; readonly facts: WarehouseFacts }

/** A warehouse of our own. */
async function ownWarehouse(): Promise<Own> {
  const { environment } = await startSynced(notices(1, 12))
  const root = companyDirectory(environment)
  const path = join(root, 'warehouse.duckdb')
  const db = await Database.open(path, { readOnly: true })
  const facts = (await readFacts(db)) as WarehouseFacts
  db.close()
  return { path, rows: join(root, 'rows', facts.warehouse_id), facts }
}

/** Returns why it is refused after this SQL has run in it. */
async function copied(
  own: Own,
  sql: string,
  { company = 'acme', rows = own.rows } = {},
): Promise<{ refused: string | null; fresh: string }> {
  const directory = await temporaryDirectory()
  const [path, fresh, temporary] = ['foreign.duckdb', 'fresh.duckdb', 'tmp'].map(name =>
    join(directory, name),
  ) as [string, string, string]
  await cp(own.path, path)
  await mkdir(temporary)
  const db = await Database.open(path)
  await db.run(`${sql}; CHECKPOINT`)
  db.close()
  return {
    refused: await copyForeign({ path, fresh, temporary, rows, company, expected: own.facts }),
    fresh,
  }
}

test('an unchanged warehouse is copied, row by row', async () => {
  const own = await ownWarehouse()
  const { refused, fresh } = await copied(own, 'SELECT 1')
  expect(refused).toBeNull()
  const rows = dirname(own.rows)
  expect(await tablesOf({ path: fresh, rows })).toEqual(await tablesOf({ path: own.path, rows }))
})

const OTHER_ONE = 'is not the one that the checkpoint describes'
const NOT_OURS = 'which no warehouse of this version has'

test.each<[what: string, sql: string, refusal: string]>([
  [
    'a view in the place of a table',
    `DROP TABLE sync_runs; CREATE VIEW sync_runs AS SELECT content AS run_id FROM read_text('/etc/hostname')`,
    `defines the view main.sync_runs, ${NOT_OURS}`,
  ],
  ['a view', 'CREATE VIEW more AS SELECT 1', `defines the view main.more, ${NOT_OURS}`],
  ['a macro', 'CREATE MACRO coalesce_all(x) AS 1', `defines the function main.coalesce_all, ${NOT_OURS}`],
  [
    'a macro with the name of a function',
    `CREATE MACRO count(x) AS (SELECT content FROM read_text('/etc/hostname'))`,
    `defines the function main.count, ${NOT_OURS}`,
  ],
  [
    'a table macro',
    `CREATE MACRO duckdb_tables() AS TABLE SELECT 1`,
    `defines the function main.duckdb_tables, ${NOT_OURS}`,
  ],
  ['an index', 'CREATE INDEX fast ON editais (edital_id)', `defines the index main.fast, ${NOT_OURS}`],
  ['a sequence', 'CREATE SEQUENCE next_one', `defines the sequence main.next_one, ${NOT_OURS}`],
  ['a type', `CREATE TYPE color AS ENUM ('red')`, `defines the type main.color, ${NOT_OURS}`],
  ['a schema', 'CREATE SCHEMA other', `defines the schema other., ${NOT_OURS}`],
  ['a table', 'CREATE TABLE more (a INTEGER)', `defines the table main.more, ${NOT_OURS}`],
  ['a table less', 'DROP TABLE quarantine', 'lacks the table main.quarantine'],
  ['a column', 'ALTER TABLE editais ADD COLUMN more INTEGER', `defines the table main.editais, ${NOT_OURS}`],
  [
    'a default that calls something',
    `ALTER TABLE editais ALTER COLUMN objeto SET DEFAULT current_setting('home_directory')`,
    `defines the table main.editais, ${NOT_OURS}`,
  ],
  [
    'a column of another type',
    'ALTER TABLE applied_segments ALTER COLUMN lines TYPE VARCHAR',
    `defines the table main.applied_segments, ${NOT_OURS}`,
  ],
  [
    'a generated column',
    'DROP TABLE applied_segments; CREATE TABLE applied_segments (segment BIGINT, lines BIGINT GENERATED ALWAYS AS (segment * 2))',
    `defines the table main.applied_segments, ${NOT_OURS}`,
  ],
  [
    'a constraint',
    'DROP TABLE applied_segments; CREATE TABLE applied_segments (segment BIGINT CHECK (segment > 0), lines BIGINT)',
    `defines the constraint main.applied_segments, ${NOT_OURS}`,
  ],
  ['two descriptions of itself', 'INSERT INTO meta FROM meta', OTHER_ONE],
  ['none', 'DELETE FROM meta', OTHER_ONE],
  ['another segment', 'UPDATE meta SET applied_segment = 99', OTHER_ONE],
  ['a later version of its data', 'UPDATE meta SET data_version = 9223372036854775807', OTHER_ONE],
  [
    'a month that leads out of the lake',
    `UPDATE month_versions SET month = '../../../../x' WHERE rowid = 0`,
    'has something else than a month',
  ],
  ['a file without a month', 'UPDATE row_files SET month = NULL', 'has something else than a month'],
  [
    'a file of a table that leads out of the directory',
    `UPDATE row_files SET table_name = '../../../x' WHERE rowid = 0`,
    'lists other files than the checkpoint',
  ],
  ['another hash', `UPDATE row_files SET sha256 = repeat('0', 64)`, 'lists other files than the checkpoint'],
  ['the same notice twice', 'INSERT INTO row_places FROM row_places', 'contradicts itself'],
  [
    'more rows than its files',
    'UPDATE row_places SET items = items + 1 WHERE items > 0',
    'has other rows in its files of items than it counts',
  ],
  [
    'a number of rows that is not that of its files',
    'UPDATE row_files SET rows = 1000000',
    'has other rows in its files of requirements than it counts',
  ],
])('a warehouse with %s is refused', async (_, sql, refusal) => {
  expect((await copied(await ownWarehouse(), sql)).refused).toContain(refusal)
})

test.each<[what: string, select: string, refusal: string]>([
  ['another company', `* REPLACE ('other' AS company)`, 'has other rows in its files of items'],
  ['a column less', '* EXCLUDE (company)', 'has other columns in a file of items'],
  ['a column of another type', '* REPLACE (1 AS company)', 'has other columns in a file of items'],
  ['other notices', `* REPLACE ('x' AS edital_id)`, 'has other rows in its files of items'],
])('a file of rows with %s is refused', async (_, select, refusal) => {
  const own = await ownWarehouse()
  const rows = await temporaryDirectory()
  await cp(own.rows, rows, { recursive: true })
  const file = own.facts.rows.find(
    ({ table_name }) => table_name === 'items',
  ) as WarehouseFacts['rows'][number]
  const path = join('items', `${String(file.file).padStart(6, '0')}.parquet`)
  const db = await Database.open(':memory:')
  await db.run(
    `COPY (SELECT ${select} FROM '${join(own.rows, path)}') TO '${join(rows, path)}' (FORMAT parquet)`,
  )
  db.close()
  expect((await copied(own, 'SELECT 1', { rows })).refused).toContain(refusal)
})

test('a file of rows that is no Parquet, and one that is missing, are refused', async () => {
  const own = await ownWarehouse()
  const rows = await temporaryDirectory()
  expect((await copied(own, 'SELECT 1', { rows })).refused).toMatch(/^cannot be read \(Permission Error/)
  await cp(own.rows, rows, { recursive: true })
  for (const { table_name, file } of own.facts.rows)
    await writeFile(join(rows, table_name, `${String(file).padStart(6, '0')}.parquet`), 'PAR1 no PAR1')
  expect((await copied(own, 'SELECT 1', { rows })).refused).toMatch(/^cannot be read \(/)
})

test('files of another company are refused', async () => {
  expect((await copied(await ownWarehouse(), 'SELECT 1', { company: 'other' })).refused).toContain(
    'has other rows in its files',
  )
})
