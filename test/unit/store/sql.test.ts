import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import {
  alerts,
  analyses,
  type ColumnType,
  editais,
  items,
  listStoredColumns,
  requirements,
  TABLES,
  type Table,
} from '#schema/tables.ts'
import { Database, type Row } from '#src/core/warehouse/database.ts'
import { identifier, literal } from '#src/core/warehouse/quoted.ts'
import {
  createTable,
  documentType,
  exportColumns,
  fingerprint,
  flatten,
  flattenedColumns,
  instant,
  isInMonths,
  month,
} from '#src/core/warehouse/sql.ts'
import { noticeEntry } from '#test/support/notices.ts'
import { temporaryDirectory } from '#test/support/project.ts'

const TIMEZONE = 'America/Sao_Paulo'

/** For tests that do not change it. */
let shared: Database
beforeAll(async () => {
  shared = await Database.open(':memory:', { threads: 1 })
})
afterAll(() => shared.close())

async function open(): Promise<Database> {
  const db = await Database.open(':memory:', { threads: 1 })
  onTestFinished(() => db.close())
  return db
}

/** The rows that a table gets from one document, which DuckDB reads with the types of the columns. */
async function flattened(table: Table, document: object, db?: Database): Promise<Row[]> {
  const name = table.document === 'notice' ? 'notice' : 'analysis'
  const path = join(await temporaryDirectory(), 'line.ndjson')
  await writeFile(path, JSON.stringify({ document }))
  const type = literal(documentType(name))
  const lines = `(SELECT 'n1' AS edital_id, 'r1' AS run_id, TIMESTAMPTZ '2026-11-20 12:00:00Z' AS "at",
    'u1' AS updated_at, '2026-11-01T00:00:00Z' AS source_updated_at, 'h1' AS hash, NULL AS fetched_at,
    7::BIGINT AS segment, NULL::BIGINT AS fetched_in, document AS ${name}
    FROM read_json(${literal(path)}, format = 'newline_delimited', columns = {document: ${type}}))`
  return await (db ?? shared).rows(flatten(table, lines, TIMEZONE))
}

describe('an instant', () => {
  it.each([
    ['2026-11-20T09:00:00Z', '2026-11-20T09:00:00.000Z'],
    ['2026-11-20T09:00:00-03:00', '2026-11-20T12:00:00.000Z'],
    ['2026-11-20T09:00:00+05:30', '2026-11-20T03:30:00.000Z'],
    ['2026-11-20T09:00:00', '2026-11-20T12:00:00.000Z'],
    ['2026-11-20', '2026-11-20T03:00:00.000Z'],
  ])('%s is %s: without an offset it is local time', async (text, expected) => {
    const [row] = await shared.rows<{ at: Date }>(`SELECT ${instant(literal(text), TIMEZONE)} AS at`)
    expect(row?.at.toISOString()).toBe(expected)
  })

  it('belongs to its month in UTC', async () => {
    const at = instant(literal('2026-10-31T22:00:00'), TIMEZONE)
    expect(await shared.rows(`SELECT ${month(at)} AS month`)).toEqual([{ month: '2026-11' }])
  })

  it('is in the months that have its name, and in no other, also at both ends of the calendar', async () => {
    const times = [
      ...['0001-01-01 00:00:00+14', '0001-01-01 00:00:00+00', '0001-12-31 23:59:59.999999+00'],
      ...['2026-09-30 23:59:59.999999+00', '2026-10-01 00:00:00+00', '2026-10-31 23:59:59.999999+00'],
      ...['2026-12-31 23:59:59.999999+00', '2027-01-01 00:00:00+00', '9999-11-30 23:59:59.999999+00'],
      ...['9999-12-01 00:00:00+00', '9999-12-31 23:59:59.999999+00', '9999-12-31 23:59:59-12'],
    ]
    const relation = `(SELECT unnest([${times.map(literal).join(', ')}, NULL])::TIMESTAMPTZ AS moment)`
    const named = await shared.rows<{ name: string | null; moment: string }>(
      `SELECT ${month('moment')} AS name, moment::VARCHAR AS moment FROM ${relation}`,
    )
    const names = [...new Set(named.map(({ name }) => name))].filter(name => name !== null)
    expect(names).toEqual(expect.arrayContaining(['0000-12', '0001-01', '2026-12', '9999-12', '10000-01']))
    for (const some of [...names.map(name => [name]), names.slice(0, 3), names.slice(-3), names]) {
      const found = await shared.rows<{ moment: string }>(
        `SELECT moment::VARCHAR AS moment FROM ${relation} WHERE ${isInMonths('moment', some)}`,
      )
      expect(found).toEqual(
        named.filter(({ name }) => name !== null && some.includes(name)).map(({ moment }) => ({ moment })),
      )
    }
  })
})

describe('a notice', () => {
  const { edital } = noticeEntry(7)

  it('becomes a row with each field in its own column', async () => {
    const fields = {
      orgao: 'o',
      objeto: 'b',
      numero: 'n',
      modalidade: 'm',
      uf: 'u',
      pncp_url: 'p',
      status: 's',
      discard_reason: 'd',
      valor_estimado: 1.5,
      participation_confirmed: true,
    }
    const [row] = await flattened(editais, {
      ...edital,
      ...fields,
      committed_at: '2026-11-02',
      data_sessao: null,
    })
    expect(row).toMatchObject({
      ...fields,
      edital_id: 'n1',
      run_id: 'r1',
      _updated_at: String(Date.parse(String(edital.updated_at)) * 1000),
      _segment: 7,
      data_sessao: null,
      orgao_cnpj: '42498733000148',
      pncp_ano: 2026,
      pncp_sequencial: 7,
      committed_at: new Date('2026-11-02T03:00:00Z'),
    })
  })

  it('has no parts of a pncp_id in another form', async () => {
    const [row] = await flattened(editais, { ...edital, pncp_id: '42498733000148/2026/7' })
    expect(row).toMatchObject({ orgao_cnpj: null, pncp_ano: null, pncp_sequencial: null })
  })

  it.each([
    ['2026-11-20T09:00:00Z', null],
    ['2026-11-20T09:00:00.123456Z', null],
    ['2026-11-20T09:00:00.123456-03:00', null],
    ['2026-11-20T09:00:00.1234567Z', '{"data_sessao":"2026-11-20T09:00:00.1234567Z"}'],
    ['2026-11-20T09:00:00.1234567-03:00', '{"data_sessao":"2026-11-20T09:00:00.1234567-03:00"}'],
    ['2026-11-20T09:00:00', '{"data_sessao":"2026-11-20T09:00:00"}'],
    ['2026-11-20', '{"data_sessao":"2026-11-20"}'],
  ])('at %s keeps what an instant cannot express: %s', async (data_sessao, times_as_sent) => {
    expect(await flattened(editais, { ...edital, data_sessao })).toMatchObject([{ times_as_sent }])
  })
})

describe('an analysis', () => {
  const analysis = { ...noticeEntry(7).analysis }

  it('becomes a row, with the fields of its line', async () => {
    const pricing = {
      investimento_total: 1,
      garantia_proposta: 2,
      garantia_contratual: 3,
      margem_min: 4,
      margem_max: 5,
    }
    const [row] = await flattened(analyses, { ...analysis, pricing })
    expect(row).toMatchObject({
      analysis_level: 'medium',
      analyzed: true,
      verdict_recommendation: 'participar',
      verdict_reason: 'Razão 7',
      verdict_bullets: '["um","dois"]',
      verdict_summary: null,
      ...Object.fromEntries(Object.entries(pricing).map(([name, value]) => [`pricing_${name}`, value])),
      _source_updated_at: String(Date.parse('2026-11-01T00:00:00Z') * 1000),
      _hash: 'h1',
      _segment: 7,
      fetched_at: new Date('2026-11-20T12:00:00Z'),
      source_updated_at: new Date('2026-11-01T00:00:00Z'),
    })
  })

  it('has the real booleans of a free-form part, its texts as they are, and everything else as JSON', async () => {
    const overview = {
      is_srp: true,
      exclusivo_me_epp: 'true',
      lei_aplicavel: 'Lei 14.133',
      valor_estimado: 12,
      locais_entrega: ['a', 'b'],
      prazo_impugnacao: null,
    }
    expect(await flattened(analyses, { ...analysis, overview })).toMatchObject([
      {
        overview_is_srp: true,
        overview_exclusivo_me_epp: null,
        overview_lei_aplicavel: 'Lei 14.133',
        ...{
          overview_valor_estimado: '12',
          overview_locais_entrega: '["a","b"]',
          overview_prazo_impugnacao: null,
        },
        overview_visita_tecnica_obrigatoria: null,
        overview: JSON.stringify(overview),
      },
    ])
  })

  it.each([
    ['neither part', { pricing: null }, null],
    ['one with a value', { pricing: { margem_min: 0 } }, null],
    ['one without any', { pricing: {} }, '["pricing"]'],
    ['both without any', { pricing: { other: 1 }, orgao_report: {} }, '["pricing","orgao_report"]'],
  ])('with %s names the empty ones: %o', async (_, parts, empty_parts) => {
    expect(await flattened(analyses, { ...analysis, ...parts })).toMatchObject([{ empty_parts }])
  })

  it('has its elements in their order, counted from one', async () => {
    const db = await open()
    const rows = async (table: Table, document: object = analysis) =>
      (await flattened(table, document, db)).sort((a, b) => Number(a.ordinal) - Number(b.ordinal))
    expect(await rows(requirements)).toMatchObject([
      { edital_id: 'n1', ordinal: 1, title: 'Requisito 1' },
      { edital_id: 'n1', ordinal: 2, title: 'Requisito 2' },
    ])
    expect(await rows(items)).toMatchObject([
      { ordinal: 1, numero_item: 1, quantidade: 7, valor_total: 3.5 },
      { ordinal: 2, numero_item: 2, quantidade: 14, valor_total: 7 },
      { ordinal: 3, numero_item: 3, quantidade: 21, valor_total: 10.5 },
    ])
    expect(await rows(alerts)).toMatchObject([{ ordinal: 1, title: 'Alerta 7' }])
    expect(await rows(alerts, { ...analysis, alerts: [] })).toEqual([])
  })
})

describe('a fingerprint', () => {
  /** Fingerprints of a row in which everything is NULL except what is set. */
  async function openPrints() {
    const db = await open()
    for (const sql of createTable(editais)) await db.run(sql)
    await db.run('INSERT INTO editais DEFAULT VALUES')
    return async (set: string) => {
      const row = `(SELECT * REPLACE (${set}) FROM editais)`
      return (await db.row<{ print: bigint }>(`SELECT ${fingerprint(editais, 'e')} AS print FROM ${row} e`))
        .print
    }
  }
  const VALUES: Partial<Record<ColumnType, string>> = { TIMESTAMPTZ: `'2026-11-20'`, BOOLEAN: 'true' }

  it('differs if a field of the list differs', async () => {
    const print = await openPrints()
    const fields = listStoredColumns(editais).filter(({ from }) => 'field' in from)
    expect(fields.length).toBeGreaterThan(10)
    const prints = new Set([await print('NULL AS run_id')])
    for (const { name, type } of fields) prints.add(await print(`${VALUES[type] ?? '1'}::${type} AS ${name}`))
    expect(prints.size).toBe(1 + fields.length)
  })

  it('differs if a time is a day alone, or has more digits, but not by how it is written', async () => {
    const print = await openPrints()
    const sent = (data_sessao: string) => print(`'${JSON.stringify({ data_sessao })}' AS times_as_sent`)
    const times = ['2026-11-20T00:00:00', '2026-11-20', '2026-11-20T00:00:00.0000001']
    const prints = await Promise.all(times.map(sent))
    expect(new Set(prints).size).toBe(3)
    expect(prints[0]).toBe(await print('NULL AS run_id'))
    expect(await sent('2026-11-20T00:00:00.0000000Z')).toBe(prints[0])
    expect(await sent('2026-11-20T03:00:00.00000010Z')).toBe(prints[2])
  })

  it('is the same if only the line differs', async () => {
    const print = await openPrints()
    const same = await print('NULL AS run_id')
    for (const set of [
      `'r9' AS run_id`,
      '9 AS _segment',
      `'u9' AS _updated_at`,
      `'current' AS analysis_state`,
    ])
      expect(await print(set), set).toBe(same)
  })
})

describe('the columns', () => {
  it('of an export are the published ones, with the company as a constant', async () => {
    const db = await open()
    for (const sql of createTable(alerts)) await db.run(sql)
    await db.run(`INSERT INTO alerts (edital_id, ordinal, title) VALUES ('n1', 1, 'T')`)
    const [row] = await db.rows(`SELECT ${exportColumns(alerts, "o'acme")} FROM alerts t`)
    expect(row).toMatchObject({ company: "o'acme", edital_id: 'n1', ordinal: 1, title: 'T' })
    expect(exportColumns(analyses, 'acme')).not.toMatch(/"_hash"|"_segment"|"_source_updated_at"/)
  })

  it('that come from a document are named in its order', async () => {
    const db = await open()
    for (const table of TABLES.filter(({ document }) => document !== 'kept')) {
      const document = table.document === 'notice' ? noticeEntry(7).edital : { ...noticeEntry(7).analysis }
      const [row = {}] = await flattened(table, document, db)
      expect(Object.keys(row).map(identifier).join(', '), table.name).toBe(flattenedColumns(table))
    }
  })

  it('of the list are read as texts if they are times: only we know what those without an offset mean', () => {
    const type = documentType('notice')
    for (const field of ['"created_at" VARCHAR', '"data_sessao" VARCHAR', '"valor_estimado" DOUBLE'])
      expect(type).toContain(field)
    expect(type).not.toContain('"company"')
  })
})
