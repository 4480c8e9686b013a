import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest'
import { Database, type Form, type WrittenRow } from '#src/core/warehouse/database.ts'

/** For tests that do not change it. */
let db: Database
beforeAll(async () => {
  db = await Database.open(':memory:', { threads: 1 })
})
afterAll(() => db.close())

async function openDatabase(): Promise<Database> {
  const db = await Database.open(':memory:', { threads: 1 })
  onTestFinished(() => db.close())
  return db
}

async function written(db: Database, sql: string, form: Form): Promise<WrittenRow[]> {
  const { rows } = await db.ask(sql, () => {})
  const all: WrittenRow[] = []
  for await (const group of rows(form)) all.push(...group)
  return all
}

async function one(db: Database, expression: string, form: Form): Promise<string | null> {
  const [[value] = [null]] = await written(db, `SELECT ${expression}`, form)
  return value ?? null
}

/** Written in the same way by DuckDB and here; as JSON they are strings. */
const TEXTS = [
  ...["DATE '2026-12-10'", "DATE '0044-03-15 (BC)'", "DATE '0001-12-31 (BC)'", "DATE '12026-01-01'"],
  ...["DATE 'infinity'", "DATE '-infinity'"],
  ...["TIMESTAMP '2026-12-10 09:00:00'", "TIMESTAMP '2026-12-10 09:00:00.123456'", "TIMESTAMP '-infinity'"],
  ...["TIMESTAMP '0001-06-01 (BC) 09:00:00'", "TIMESTAMP '290309-12-22 (BC) 00:00:00'"],
  ...["TIMESTAMP '294247-01-10 04:00:54.775806'", "TIMESTAMP_S '2026-12-10 09:00:00'"],
  ...["TIMESTAMP_S 'infinity'", "TIMESTAMP_MS '2026-12-10 09:00:00.5'", "TIMESTAMP_MS '-infinity'"],
  ...["TIMESTAMP_NS '1900-12-10 09:00:00.123456789'", "TIMESTAMP_NS 'infinity'"],
  ...["TIMESTAMPTZ '2026-12-10 09:00:00.123456-03'", "TIMESTAMPTZ 'infinity'"],
  ...["TIME '09:00:00'", "TIME '23:59:59.000001'", "TIME '24:00:00'", "TIME_NS '09:00:00.123456789'"],
  ...["TIMETZ '09:00:00-03'", "TIMETZ '09:00:00.5+05:30:15'"],
  ...["INTERVAL '1 year 2 months 3 days 04:05:06.7'", "INTERVAL '-11 months'", "INTERVAL '0 days'"],
  ...["INTERVAL '100 hours'", 'to_microseconds(-1)'],
  ...["uuid '550e8400-e29b-41d4-a716-446655440000'", "'\\xAA\\x00a\"\\x5Cb'::BLOB", "'10101'::BIT"],
  ...["'b'::ENUM('a', 'b')", '\'=1, "x"\'', "''", "'NULL'", "'nan'::DOUBLE", "'-inf'::DOUBLE"],
]

it.each(TEXTS)('%s is written as DuckDB casts it to text', async expression => {
  const text = await one(db, `CAST(${expression} AS VARCHAR)`, 'text')
  expect(text).not.toBeNull()
  expect(await one(db, expression, 'text')).toBe(text)
  expect(await one(db, expression, 'json')).toBe(JSON.stringify(text))
})

/** As JSON, they are numbers with the same digits, and booleans. */
const NUMBERS = [
  ...['42::TINYINT', '(-32768)::SMALLINT', '4294967295::UINTEGER', '9007199254740993::BIGINT', '-5::BIGINT'],
  ...['18446744073709551615::UBIGINT', '170141183460469231731687303715884105727::HUGEINT'],
  ...['340282366920938463463374607431768211455::UHUGEINT', "'123456789012345678901234567890123'::BIGNUM"],
  ...['1.10::DECIMAL(9,2)', '0.00::DECIMAL(9,2)', '-0.05::DECIMAL(4,2)', '5::DECIMAL(4,0)'],
  ...['99999999999999999999999999999999999.123::DECIMAL(38,3)', '12345678901234567.89::DECIMAL(20,2)'],
  ...['1::DOUBLE', '0.1::DOUBLE', "'-0'::DOUBLE", '1e15::DOUBLE', '1e16::DOUBLE', '1e300::DOUBLE'],
  ...[
    '0.0001::DOUBLE',
    '0.00001::DOUBLE',
    '-1.5e-7::DOUBLE',
    '5e-324::DOUBLE',
    '0.1::FLOAT',
    '3.4e38::FLOAT',
  ],
  'true',
]

it.each(NUMBERS)('%s is written with the digits of DuckDB, as text and as JSON', async expression => {
  const text = await one(db, `CAST(${expression} AS VARCHAR)`, 'text')
  expect(await one(db, expression, 'text')).toBe(text)
  expect(await one(db, expression, 'json')).toBe(text)
  JSON.parse(text ?? '')
})

/** The same JSON as DuckDB's `to_json`. */
const NESTED = [
  ...['[1, 2, NULL]', "['a', 'b, c', 'it''s', '', 'NULL', NULL]", 'array_value(1, 2)', '[[1], [], NULL]'],
  ...["{'a': 1, 'b c': 'x', 'd': DATE '2026-12-10', 'n': NULL}", "{'a': [{'b': 9007199254740993}]}"],
  ...["MAP {'k': 1, 'l': 2}", "MAP {DATE '2026-12-10': 1.5}", 'MAP {}', 'union_value(num := 2)'],
  ...["[TIMESTAMP '2026-12-10 09:00:00']", "[TIMESTAMPTZ '2026-12-10 09:00:00-03']", "[DATE 'infinity']"],
  ...["[INTERVAL '1 day']", "['\\xAA'::BLOB]", "['101'::BIT]", "[TIME '09:00:00']", "['a'::ENUM('a')]"],
  ...['[170141183460469231731687303715884105727::HUGEINT]', '[1.25::DECIMAL(9,2)]', '[true]'],
]

it.each(NESTED)('%s is written as the JSON of DuckDB', async expression => {
  const json = await one(db, `CAST(to_json(${expression}) AS VARCHAR)`, 'text')
  expect(await one(db, expression, 'text')).toBe(json)
  expect(await one(db, expression, 'json')).toBe(json)
})

it('a JSON value is part of the JSON output, with all digits, and its own text elsewhere', async () => {
  const text = '{"a": 1.0,  "b":[9007199254740993, 1e400, "x"]}'
  expect(await one(db, `'${text}'::JSON`, 'text')).toBe(text)
  expect(await one(db, `'${text}'::JSON`, 'json')).toBe('{"a":1.0,"b":[9007199254740993,1e400,"x"]}')
  expect(await one(db, `['${text}'::JSON]`, 'json')).toBe('[{"a":1.0,"b":[9007199254740993,1e400,"x"]}]')
  // DuckDB accepts more than JSON.
  expect(await one(db, `'[NaN, 1,]'::JSON`, 'json')).toBe('"[NaN, 1,]"')
})

it('NULL is nothing as text and null as JSON', async () => {
  for (const type of ['INTEGER', 'DATE', 'VARCHAR', 'JSON', 'INTEGER[]', 'TIMESTAMPTZ']) {
    expect(await one(db, `NULL::${type}`, 'text'), type).toBeNull()
    expect(await one(db, `NULL::${type}`, 'json'), type).toBe('null')
  }
})

it.each([
  'America/Sao_Paulo',
  'America/Manaus',
  'America/New_York',
  'Asia/Kolkata',
  'Pacific/Chatham',
  'GMT',
])('TIMESTAMPTZ has the offset that DuckDB gives it in %s', async zone => {
  const db = await openDatabase()
  await db.run(`SET TimeZone = '${zone}'`)
  // Three days and some hours apart, from 1850 to 2100.
  const sql = `SELECT t, t::VARCHAR, [t]::JSON FROM (
      SELECT make_timestamptz((i * 2803700 - 3786825600) * 1000000) AS t FROM range(2800) n(i))`
  const rows = await written(db, sql, 'text')
  expect(rows).toHaveLength(2_800)
  for (const [text, cast, json] of rows) {
    expect(text).toBe(cast)
    expect(json).toBe(JSON.stringify([cast]))
  }
})

it('random numbers, dates and times are written as DuckDB casts them', async () => {
  const db = await openDatabase()
  await db.run('SELECT setseed(0.5)')
  const random = [
    ...['(random() - 0.5) * pow(10, (random() * 60 - 30)::INT)', 'round(random() * 1e6, 2)'],
    ...['(random() * 1e17)::BIGINT::DOUBLE', '((random() - 0.5) * 1e6)::DECIMAL(18,4)'],
    ...["DATE '0001-01-01' + (random() * 4e6 - 2e6)::INT", 'unhex(md5(random()::VARCHAR))'],
    ...[
      'make_timestamp(((random() - 0.5) * 1.6e19)::HUGEINT::BIGINT)',
      'make_timestamp((random() * 4e15)::BIGINT)',
    ],
    'to_months((random() * 50 - 25)::INT) + to_microseconds(((random() - 0.5) * 1e12)::BIGINT)',
  ]
  for (const expression of random) {
    const sql = `SELECT v, v::VARCHAR FROM (SELECT ${expression} AS v FROM range(5000))`
    for (const [text, cast] of await written(db, sql, 'text')) expect(text, expression).toBe(cast)
  }
})

it('a FLOAT is written with digits that read back as the same FLOAT', async () => {
  const db = await openDatabase()
  await db.run('SELECT setseed(0.5)')
  const sql = 'SELECT ((random() - 0.5) * pow(10, (random() * 60 - 30)::INT))::FLOAT AS f FROM range(5000)'
  const rows = await written(db, `SELECT f, f::DOUBLE FROM (${sql})`, 'text')
  for (const [float, double] of rows) expect(Math.fround(Number(float))).toBe(Number(double))
  expect(new Set(rows.map(([float]) => float)).size).toBeGreaterThan(4_000)
})

it('fields without distinct names are refused, because only the last could be read', async () => {
  for (const expression of ["row(1, 'x')", '[row(1, 2)]', 'MAP {1: row(1, 2)}', "{'a': row(1, 2)}"]) {
    await expect(written(db, `SELECT ${expression} AS v`, 'json')).rejects.toThrow(
      'column "v" has fields without distinct names',
    )
  }
})
