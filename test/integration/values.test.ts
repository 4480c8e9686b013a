import { describe, expect, it } from 'vitest'
import { reportHere } from '#test/support/here.ts'
import { editalOf, fullAnalysis, idAt, openCompany, textWith } from '#test/support/prepared.ts'
import { queryLatest } from '#test/support/project.ts'

describe('an empty analysis', () => {
  it('is not an error: its notice is current and has no rows in the lists', async () => {
    const company = await openCompany(4)
    const [none, simple, nulls] = [idAt(company, 0), idAt(company, 1), idAt(company, 2)]
    const empty = { verdict: {}, requirements: [], items: [], alerts: [] }
    const about = (id: string) => {
      const { pncp_id, status } = editalOf(company, id)
      return { id, pncp_id, status }
    }
    company.bodies.set(
      none,
      JSON.stringify({ ...about(none), analysis_level: 'none', analyzed: false, ...empty }),
    )
    const screened = { analysis_level: 'simple', analyzed: true, ...empty, overview: {} }
    company.bodies.set(simple, JSON.stringify({ ...about(simple), ...screened }))
    const absent = { pricing: null, orgao_report: null, operational: null, overview: null, orgao: null }
    company.bodies.set(nulls, JSON.stringify({ ...about(nulls), ...screened, ...absent }))

    expect(await reportHere(company.environment)).toMatchObject({ status: 'ok', loaded: 4, quarantined: 0 })

    const rows = await queryLatest(
      company.environment,
      `SELECT e.edital_id, e.analysis_state, a.analysis_level, a.analyzed, a.verdict_recommendation, a.overview,
         (SELECT count(*) FROM items i WHERE i.edital_id = e.edital_id)
         + (SELECT count(*) FROM requirements r WHERE r.edital_id = e.edital_id)
         + (SELECT count(*) FROM alerts t WHERE t.edital_id = e.edital_id) AS children
       FROM editais e JOIN analyses a USING (edital_id) WHERE list_contains(['${none}', '${simple}', '${nulls}'], edital_id)`,
    )
    const nothing = { analysis_state: 'current', verdict_recommendation: null, children: 0 }
    expect(byId(rows)).toEqual({
      [none]: { ...nothing, analysis_level: 'none', analyzed: false, overview: null },
      [simple]: { ...nothing, analysis_level: 'simple', analyzed: true, overview: '{}' },
      [nulls]: { ...nothing, analysis_level: 'simple', analyzed: true, overview: null },
    })
    expect(await queryLatest(company.environment, 'FROM schema_drift')).toEqual([])
  })
})

describe('text', () => {
  /** The JSON text that is sent, and what is stored. */
  const TEXTS: Readonly<Record<string, readonly [string, string]>> = {
    newlines: [String.raw`"um\r\ndois\ttrês\u2028quatro"`, 'um\r\ndois\ttrês\u2028quatro'],
    'a NUL': [String.raw`"antes\u0000depois"`, 'antes\u0000depois'],
    'control characters': [
      String.raw`"\u0001\u0008\u001b\u007f\u0085\u009f"`,
      '\u0001\b\u001b\u007f\u0085\u009f',
    ],
    'a lone high surrogate': [String.raw`"a\ud83db"`, 'a\ufffdb'],
    'a lone low surrogate': [String.raw`"a\ude00"`, 'a\ufffd'],
    'an escaped pair': [String.raw`"\ud83d\ude00"`, '😀'],
    'an emoji': ['"😀 ç ã"', '😀 ç ã'],
    'spaces of all kinds': [String.raw`"  \u00a0\u200b\ufeff "`, '  \u00a0\u200b\ufeff '],
    'quotes and backslashes': [
      String.raw`"'; DROP TABLE editais; -- \"\\\/"`,
      `'; DROP TABLE editais; -- "\\/`,
    ],
    'an empty string': ['""', ''],
    'five thousand characters': [`"${'ação '.repeat(1000)}"`, 'ação '.repeat(1000)],
  }

  it('of any kind is stored as meant, in the list, in analyses and in their free-form parts', async () => {
    const company = await openCompany(Object.keys(TEXTS).length)
    const cases = Object.entries(TEXTS).map(([name, [sent, stored]], position) => ({
      name,
      sent,
      stored,
      id: idAt(company, position),
    }))
    for (const { id, sent } of cases) {
      company.listTexts.set(id, textWith(without(editalOf(company, id), 'objeto'), `"objeto":${sent}`))
      const members = `"objeto":${sent},"items":[{"descricao":${sent}}],"operational":{"nota":${sent}},"overview":{"prazo_impugnacao":${sent}}`
      const shell = without(fullAnalysis(company, id), 'items', 'operational', 'overview')
      company.bodies.set(id, textWith(shell, members))
    }
    const report = await reportHere(company.environment)
    expect(report).toMatchObject({ status: 'ok', loaded: cases.length, quarantined: 0 })

    const rows = byId(
      await queryLatest(
        company.environment,
        `SELECT e.edital_id, e.objeto, i.descricao, a.overview_prazo_impugnacao AS prazo, a.operational
         FROM editais e JOIN analyses a USING (edital_id) JOIN items i USING (edital_id)`,
      ),
    )
    for (const { name, id, stored } of cases) {
      const row = rows[id] ?? {}
      expect({ ...row, operational: JSON.parse(String(row.operational)) }, name).toEqual({
        objeto: stored,
        descricao: stored,
        prazo: stored,
        operational: { nota: stored },
      })
    }
  })

  it('may come in a pretty-printed body, or after a byte order mark', async () => {
    const company = await openCompany(3)
    const [pretty, marked] = [idAt(company, 0), idAt(company, 1)]
    company.bodies.set(pretty, `\r\n${JSON.stringify(fullAnalysis(company, pretty), null, '\t')}\n\n`)
    company.bodies.set(marked, `\ufeff${JSON.stringify(fullAnalysis(company, marked))}`)
    company.sandbox.faults.plan.push({ fault: 'bom', kinds: ['list'] }, { fault: 'pretty', kinds: ['list'] })
    expect(await reportHere(company.environment)).toMatchObject({ status: 'ok', listed: 3, loaded: 3 })

    const rows = await queryLatest(
      company.environment,
      `SELECT edital_id, verdict_reason FROM analyses WHERE list_contains(['${pretty}', '${marked}'], edital_id)`,
    )
    expect(byId(rows)).toEqual({
      [pretty]: { verdict_reason: 'Prazo curto.' },
      [marked]: { verdict_reason: 'Prazo curto.' },
    })
  })
})

describe('date-times', () => {
  /** The text that is sent, and the stored moment as DuckDB writes it. */
  const MOMENTS: Readonly<Record<string, string | null>> = {
    '2026-03-01T09:00:00': '2026-03-01 12:00:00+00',
    '2026-03-01T09:00': '2026-03-01 12:00:00+00',
    '2026-03-01 09:00:00': '2026-03-01 12:00:00+00',
    '2026-03-01T09:00:00.5': '2026-03-01 12:00:00.5+00',
    '2026-03-01T09:00:00.123': '2026-03-01 12:00:00.123+00',
    '2026-03-01T09:00:00.123456': '2026-03-01 12:00:00.123456+00',
    '2026-03-01T09:00:00.123456789': '2026-03-01 12:00:00.123456+00',
    '2026-03-01T09:00:00.999999999Z': '2026-03-01 09:00:00.999999+00',
    '2026-03-01T09:00:00,25': '2026-03-01 12:00:00.25+00',
    '2026-03-01': '2026-03-01 03:00:00+00',
    '2026-03-01T09:00:00Z': '2026-03-01 09:00:00+00',
    '2026-03-01T09:00:00z': '2026-03-01 09:00:00+00',
    '2026-03-01T09:00Z': '2026-03-01 09:00:00+00',
    '2026-03-01T09:00:00-03:00': '2026-03-01 12:00:00+00',
    '2026-03-01T09:00:00.000000000-03:00': '2026-03-01 12:00:00+00',
    '2026-03-01T09:00:00+0530': '2026-03-01 03:30:00+00',
    '2026-03-01T09:00:00-04': '2026-03-01 13:00:00+00',
    // Brazil still had daylight saving time then.
    '2018-12-01T09:00:00': '2018-12-01 11:00:00+00',
    '2024-02-29T23:59:59': '2024-03-01 02:59:59+00',
    '': null,
    '2026-02-29T09:00:00': null,
    '2026-03-01T24:00:00': null,
    '01/03/2026 09:00': null,
    '1772366400': null,
  }

  it('in any valid form become the exact moment, and NULL if they are invalid', async () => {
    const company = await openCompany(Object.keys(MOMENTS).length)
    const cases = Object.entries(MOMENTS).map(([sent, stored], position) => ({
      sent,
      stored,
      id: idAt(company, position),
    }))
    for (const { id, sent, stored } of cases) {
      const required = stored === null ? {} : { created_at: sent, updated_at: sent }
      const edital = { ...editalOf(company, id), ...required, data_sessao: sent, committed_at: sent }
      company.listTexts.set(id, JSON.stringify(edital))
      company.bodies.set(id, JSON.stringify({ ...fullAnalysis(company, id), data_sessao: sent }))
    }
    const report = await reportHere(company.environment)
    expect(report).toMatchObject({ status: 'ok', listed: cases.length, loaded: cases.length })

    const rows = byId(
      await queryLatest(
        company.environment,
        `SELECT edital_id, data_sessao::VARCHAR AS session, committed_at::VARCHAR AS committed,
           created_at::VARCHAR AS created, updated_at::VARCHAR AS updated, source_updated_at::VARCHAR AS source
         FROM editais JOIN analyses USING (edital_id)`,
      ),
    )
    for (const { id, sent, stored } of cases) {
      const optional = { session: stored, committed: stored }
      const required = stored === null ? {} : { created: stored, updated: stored, source: stored }
      expect(rows[id], sent || 'an empty string').toMatchObject({ ...optional, ...required })
    }
    const drifted = cases.filter(({ stored }) => stored === null).length
    expect(
      await queryLatest(company.environment, 'SELECT path, kind, "count" FROM schema_drift ORDER BY path'),
    ).toEqual(
      ['analysis.data_sessao', 'notice.committed_at', 'notice.data_sessao'].map(path => ({
        path,
        kind: 'wrong_type',
        count: drifted,
      })),
    )
  })

  it('without an offset are local time in SOURCE_TIMEZONE', async () => {
    const company = await openCompany(1, { SOURCE_TIMEZONE: 'America/Manaus' })
    company.world.update(idAt(company, 0), { edital: { data_sessao: '2026-03-01T09:00:00' } })
    await reportHere(company.environment)
    expect(
      await queryLatest(company.environment, 'SELECT data_sessao::VARCHAR AS session FROM editais'),
    ).toEqual([{ session: '2026-03-01 13:00:00+00' }])
  })
})

describe('numbers', () => {
  it('of any size are stored unchanged', async () => {
    const company = await openCompany(5)
    const values = [0, 9999999999999.99, 12.3456, -1.5, 1e-7]
    for (const [position, value] of values.entries()) {
      const id = idAt(company, position)
      const item = {
        numero_item: 1658475,
        numero_lote: 0,
        valor_unitario_estimado: value,
        quantidade: 0.0001,
      }
      company.world.update(id, { edital: { valor_estimado: value } })
      company.bodies.set(id, JSON.stringify({ ...fullAnalysis(company, id), items: [item] }))
    }
    expect(await reportHere(company.environment)).toMatchObject({ status: 'ok', loaded: 5 })

    const rows = byId(
      await queryLatest(
        company.environment,
        `SELECT edital_id, valor_estimado, numero_item, numero_lote, valor_unitario_estimado AS unit, quantidade
         FROM editais JOIN items USING (edital_id)`,
      ),
    )
    for (const [position, value] of values.entries()) {
      expect(rows[idAt(company, position)]).toEqual({
        valor_estimado: value,
        numero_item: 1658475,
        numero_lote: 0,
        unit: value,
        quantidade: 0.0001,
      })
    }
    expect(await queryLatest(company.environment, 'FROM schema_drift')).toEqual([])
  })
})

function byId(rows: readonly Record<string, unknown>[]): Record<string, Record<string, unknown>> {
  return Object.fromEntries(rows.map(({ edital_id, ...row }) => [String(edital_id), row]))
}

function without(document: object, ...names: string[]): object {
  return Object.fromEntries(Object.entries(document).filter(([name]) => !names.includes(name)))
}
