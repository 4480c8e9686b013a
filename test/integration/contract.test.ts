import { describe, expect, it } from 'vitest'
import { reportHere } from '#test/support/here.ts'
import {
  editalOf,
  fullAnalysis,
  idAt,
  type LogLine,
  openCompany,
  type PreparedCompany,
  readLog,
  textWith,
} from '#test/support/prepared.ts'
import { queryLatest } from '#test/support/project.ts'

type DriftRow = { path: string; kind: string; sample: string; count: number }

describe('a document with more than the contract', () => {
  it('loads, keeps its unknown properties in the raw log, and reports each as drift', async () => {
    const company = await openCompany(12)
    const [listed, analysed] = [idAt(company, 0), idAt(company, 1)]
    company.world.update(listed, { edital: { prazo_dias: 3, esfera: { nome: 'municipal' } } })
    const whole = fullAnalysis(company, analysed)
    const widened = {
      ...whole,
      versao: 2,
      verdict: { ...whole.verdict, score: 0.7 },
      requirements: [{ ...whole.requirements[0], pagina: 4 }],
      items: [
        { ...whole.items[0], ncm: '4015' },
        { ...whole.items[0], ncm: '4016' },
      ],
      alerts: [{ ...whole.alerts[0], fonte: 'edital' }],
      pricing: { ...whole.pricing, moeda: 'BRL' },
      orgao_report: { ...whole.orgao_report, atraso_dias: 12 },
      overview: { ...whole.overview, modo_disputa: 'Aberto' },
    }
    company.bodies.set(analysed, JSON.stringify(widened))
    company.pageExtras.next = null

    const report = await reportHere(company.environment)

    expect(report).toMatchObject({ status: 'ok', listed: 12, loaded: 12, quarantined: 0 })
    expect(await driftOf(company)).toEqual([
      { path: 'analysis.alerts[].fonte', kind: 'unknown_field', sample: 'edital', count: 1 },
      { path: 'analysis.items[].ncm', kind: 'unknown_field', sample: '4015', count: 2 },
      { path: 'analysis.orgao_report.atraso_dias', kind: 'unknown_field', sample: '12', count: 1 },
      { path: 'analysis.pricing.moeda', kind: 'unknown_field', sample: 'BRL', count: 1 },
      { path: 'analysis.requirements[].pagina', kind: 'unknown_field', sample: '4', count: 1 },
      { path: 'analysis.verdict.score', kind: 'unknown_field', sample: '0.7', count: 1 },
      { path: 'analysis.versao', kind: 'unknown_field', sample: '2', count: 1 },
      { path: 'notice.esfera', kind: 'unknown_field', sample: '{"nome":"municipal"}', count: 1 },
      { path: 'notice.prazo_dias', kind: 'unknown_field', sample: '3', count: 1 },
      { path: 'page.next', kind: 'unknown_field', sample: 'null', count: 1 },
    ])
    const log = await readLog(company)
    expect(lineOf(log, 'notice', listed).notice).toEqual(editalWithCanonicalTimes(company, listed))
    expect(lineOf(log, 'analysis', analysed).analysis).toEqual(widened)
    expect(await itemsOf(company, analysed)).toHaveLength(2)
  })

  it('counts repeated drift, and keeps the time it was first seen', async () => {
    const company = await openCompany(3)
    const id = idAt(company, 0)
    company.bodies.set(id, JSON.stringify({ ...fullAnalysis(company, id), versao: 2 }))
    await reportHere(company.environment)
    company.bodies.set(id, JSON.stringify({ ...fullAnalysis(company, id), versao: 3 }))
    await reportHere(company.environment, { ids: [id] })

    const rows = await queryLatest(
      company.environment,
      'SELECT path, sample, "count", first_seen_at < last_seen_at AS seen_again FROM schema_drift',
    )
    expect(rows).toEqual([{ path: 'analysis.versao', sample: '2', count: 2, seen_again: true }])
  })

  it('loads values outside an enum unchanged, and reports each as drift', async () => {
    const company = await openCompany(8)
    const [listed, analysed] = [idAt(company, 0), idAt(company, 1)]
    company.listTexts.set(listed, JSON.stringify({ ...editalOf(company, listed), status: 'suspended' }))
    const whole = fullAnalysis(company, analysed)
    company.bodies.set(
      analysed,
      JSON.stringify({
        ...whole,
        status: 'archived',
        analysis_level: 'ultra',
        verdict: { ...whole.verdict, recommendation: 'talvez' },
        requirements: [{ ...whole.requirements[0], category: 'ambiental', status: 'blue' }],
        items: [{ ...whole.items[0], material_ou_servico: 'O' }],
        alerts: [{ ...whole.alerts[0], type: 'hint', severity: 'huge', action_type: 'denuncia' }],
        pricing: { ...whole.pricing, risco_pagamento: 'extremo' },
      }),
    )
    const report = await reportHere(company.environment)

    expect(report).toMatchObject({ status: 'ok', listed: 8, quarantined: 0 })
    expect((await driftOf(company)).map(({ path, kind, sample }) => `${kind} ${path} ${sample}`)).toEqual([
      'unknown_enum analysis.alerts[].action_type denuncia',
      'unknown_enum analysis.alerts[].severity huge',
      'unknown_enum analysis.alerts[].type hint',
      'unknown_enum analysis.analysis_level ultra',
      'unknown_enum analysis.items[].material_ou_servico O',
      'unknown_enum analysis.pricing.risco_pagamento extremo',
      'unknown_enum analysis.requirements[].category ambiental',
      'unknown_enum analysis.requirements[].status blue',
      'unknown_enum analysis.status archived',
      'unknown_enum analysis.verdict.recommendation talvez',
      'unknown_enum notice.status suspended',
    ])
    const rows = await queryLatest(
      company.environment,
      `SELECT analysis_level, verdict_recommendation, pricing_risco_pagamento, r.category, r.status AS colour,
         i.material_ou_servico, t.type, t.severity, t.action_type
       FROM analyses JOIN requirements r USING (edital_id) JOIN items i USING (edital_id)
       JOIN alerts t USING (edital_id) WHERE edital_id = '${analysed}'`,
    )
    expect(rows).toEqual([
      {
        analysis_level: 'ultra',
        verdict_recommendation: 'talvez',
        pricing_risco_pagamento: 'extremo',
        category: 'ambiental',
        colour: 'blue',
        material_ou_servico: 'O',
        type: 'hint',
        severity: 'huge',
        action_type: 'denuncia',
      },
    ])
    expect(
      await queryLatest(company.environment, `SELECT status FROM editais WHERE edital_id = '${listed}'`),
    ).toEqual([{ status: 'suspended' }])
  })

  it('loads the analysis of a notice in an unknown phase', async () => {
    const company = await openCompany(3)
    company.world.update(idAt(company, 0), { edital: { status: 'suspended' } })
    expect(await reportHere(company.environment)).toMatchObject({ status: 'ok', loaded: 3, deferred: 0 })
  })
})

describe('a value of the wrong type', () => {
  it('becomes NULL and is reported as drift, and the rest of its notice loads', async () => {
    const company = await openCompany(6)
    const [listed, analysed, hollow] = [idAt(company, 0), idAt(company, 1), idAt(company, 2)]
    const wrong = {
      valor_estimado: '12.5',
      objeto: { texto: 'x' },
      orgao: 5,
      numero: ['1'],
      uf: true,
      data_sessao: 'amanhã',
      committed_at: 1767225600,
    }
    company.listTexts.set(listed, JSON.stringify({ ...editalOf(company, listed), ...wrong }))
    company.bodies.set(analysed, wronglyTyped(company, analysed))
    company.bodies.set(
      hollow,
      JSON.stringify({ ...fullAnalysis(company, hollow), pricing: 5, orgao_report: 'x' }),
    )
    const report = await reportHere(company.environment)

    expect(report).toMatchObject({ status: 'ok', listed: 6, loaded: 6, quarantined: 0 })
    const drift = await driftOf(company)
    expect(drift.map(({ path, kind, sample }) => `${kind} ${path} ${sample}`)).toEqual([
      'wrong_type analysis.alerts[].legal_thesis 7',
      'wrong_type analysis.data_sessao 2026-02-30T10:00:00',
      'wrong_type analysis.items[].ai_confidence Infinity',
      'wrong_type analysis.items[].ai_selected yes',
      'wrong_type analysis.items[].numero_item 1.7',
      'wrong_type analysis.items[].numero_lote 3',
      'wrong_type analysis.items[].quantidade 12.5',
      'wrong_type analysis.items[].valor_total true',
      'wrong_type analysis.orgao_report x',
      'wrong_type analysis.overview.is_srp sim',
      'wrong_type analysis.pricing 5',
      'wrong_type analysis.pricing.margem_min 0.1',
      'wrong_type analysis.requirements[].title {}',
      'wrong_type analysis.verdict.bullets[] 1',
      'wrong_type notice.committed_at 1767225600',
      'wrong_type notice.data_sessao amanhã',
      'wrong_type notice.numero ["1"]',
      'wrong_type notice.objeto {"texto":"x"}',
      'wrong_type notice.orgao 5',
      'wrong_type notice.uf true',
      'wrong_type notice.valor_estimado 12.5',
    ])
    const [edital] = await queryLatest(
      company.environment,
      `SELECT valor_estimado, objeto, orgao, numero, uf, data_sessao, committed_at, pncp_id FROM editais
       WHERE edital_id = '${listed}'`,
    )
    expect(edital).toEqual({
      valor_estimado: null,
      objeto: null,
      orgao: null,
      numero: null,
      uf: null,
      data_sessao: null,
      committed_at: null,
      pncp_id: editalOf(company, listed).pncp_id,
    })
    expect(await itemsOf(company, analysed)).toEqual([
      {
        ordinal: 1,
        numero_item: null,
        descricao: 'Luva',
        quantidade: null,
        valor_total: null,
        numero_lote: null,
        ai_selected: null,
        ai_confidence: null,
      },
    ])
    const [analysis] = await queryLatest(
      company.environment,
      `SELECT pricing_margem_min, pricing_investimento_total, overview_is_srp, verdict_bullets,
         json_extract(overview, '$.is_srp')::VARCHAR AS kept FROM analyses WHERE edital_id = '${analysed}'`,
    )
    expect(analysis).toEqual({
      pricing_margem_min: null,
      pricing_investimento_total: 100,
      overview_is_srp: null,
      verdict_bullets: '[1,"Dois."]',
      kept: '"sim"',
    })
  })
})

describe('a document that can only be loaded in part', () => {
  it('keeps its original bytes beside what was loaded', async () => {
    const company = await openCompany(6)
    const [twice, exact, wrong] = [idAt(company, 0), idAt(company, 1), idAt(company, 2)]
    const [listed, nulled, plain] = [idAt(company, 3), idAt(company, 4), idAt(company, 5)]
    company.bodies.set(twice, textWith(fullAnalysis(company, twice), '"orgao":"first","orgao":"second"'))
    company.bodies.set(exact, textWith(fullAnalysis(company, exact), '"valor_estimado":12345678901234567890'))
    company.bodies.set(wrong, wronglyTyped(company, wrong))
    company.listTexts.set(nulled, textWith(editalOf(company, nulled), '"valor_estimado": 1e400, "orgao":[]'))
    company.bodies.set(plain, JSON.stringify(fullAnalysis(company, plain), null, 2))
    company.listTexts.set(listed, textWith(editalOf(company, listed), '"orgao":"first", "orgao":"second"'))

    expect(await reportHere(company.environment)).toMatchObject({ status: 'ok', loaded: 6 })

    const log = await readLog(company)
    for (const id of [twice, exact, wrong]) {
      expect(rawOf(lineOf(log, 'analysis', id))).toBe(company.bodies.get(id))
    }
    for (const id of [listed, nulled]) {
      expect(rawOf(lineOf(log, 'notice', id))).toBe(company.listTexts.get(id))
    }
    expect(lineOf(log, 'analysis', plain).raw, 'pretty-printing is not a difference').toBeUndefined()
    expect(
      await queryLatest(company.environment, `SELECT orgao FROM editais WHERE edital_id = '${listed}'`),
    ).toEqual([{ orgao: 'second' }])
  })

  it('keeps the bytes of a body in another encoding, which decoding would lose', async () => {
    const company = await openCompany(2)
    const id = idAt(company, 0)
    const bytes = Buffer.from(textWith(fullAnalysis(company, id), '"orgao":"São Paulo"'), 'latin1')
    company.bodies.set(id, bytes)
    expect(await reportHere(company.environment)).toMatchObject({ status: 'ok', loaded: 2 })
    const { raw } = lineOf(await readLog(company), 'analysis', id)
    expect(Buffer.from(String(raw ?? ''), 'base64').equals(bytes)).toBe(true)
  })
})

/** One value of each wrong type, beside correct ones. */
function wronglyTyped(company: PreparedCompany, id: string): string {
  const whole = fullAnalysis(company, id)
  const wrong = {
    numero_item: 1.7,
    numero_lote: '3',
    quantidade: '12.5',
    valor_total: true,
    ai_selected: 'yes',
    ai_confidence: '<huge>',
  }
  const document = {
    ...whole,
    data_sessao: '2026-02-30T10:00:00',
    verdict: { ...whole.verdict, bullets: [1, 'Dois.'] },
    overview: { ...whole.overview, is_srp: 'sim' },
    requirements: [{ ...whole.requirements[0], title: {} }],
    items: [{ ...whole.items[0], ...wrong }],
    alerts: [{ ...whole.alerts[0], legal_thesis: 7 }],
    pricing: { ...whole.pricing, margem_min: '0.1' },
  }
  return JSON.stringify(document).replace('"<huge>"', '1e400')
}

function lineOf(log: readonly LogLine[], type: string, id: string): LogLine {
  const line = log.find(line => line.type === type && line.edital_id === id)
  if (!line) throw new Error(`no ${type} line of ${id}`)
  return line
}

function rawOf(line: LogLine): string {
  return Buffer.from(String(line.raw), 'base64').toString('utf8')
}

/** The log cuts nanoseconds from the document; the worlds write microseconds at most. */
function editalWithCanonicalTimes(company: PreparedCompany, id: string) {
  const { data_sessao, ...edital } = editalOf(company, id)
  return data_sessao === undefined ? edital : { ...edital, data_sessao: expect.any(String) }
}

async function driftOf({ environment }: PreparedCompany): Promise<DriftRow[]> {
  return await queryLatest(
    environment,
    'SELECT path, kind, sample, "count" FROM schema_drift ORDER BY path, kind',
  )
}

async function itemsOf({ environment }: PreparedCompany, id: string) {
  return await queryLatest(
    environment,
    `SELECT ordinal, numero_item, descricao, quantidade, valor_total, numero_lote, ai_selected, ai_confidence
     FROM items WHERE edital_id = '${id}' ORDER BY ordinal`,
  )
}
