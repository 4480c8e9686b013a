import { expect, test } from 'vitest'
import { renderNoticePage } from '#src/server/pages/notice_page.ts'
import { findLastDay } from '#src/server/pages/today.ts'
import { noticeEntry } from '#test/support/notices.ts'

const PAGE = {
  company: 'acme',
  dataState: { read: null, problem: null, published: '02/12/2026 às 10:00' },
  timeZone: 'America/Sao_Paulo',
  today: '2026-11-25',
  back: '/editais',
  deadline: null,
}

/** Every text and number in it, except those for which the page has a word of its own. */
function leaves(value: unknown): string[] {
  if (typeof value === 'string') return [value]
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(leaves) : []
}

test('a page of a notice has every field of its documents, in the forms that Brazilians write', () => {
  const object = `Objeto ${'muito longo '.repeat(60)}até o fim`
  const analysis = {
    analysis_level: 'deep',
    verdict: { recommendation: 'cautela', reason: 'o motivo', summary: 'o resumo', bullets: ['um ponto'] },
    overview: {
      orgao_licitante: 'o licitante',
      lei_aplicavel: 'a lei',
      valor_estimado: 'o valor no texto',
      is_srp: true,
      exclusivo_me_epp: false,
      prazo_impugnacao: 'o prazo',
      locais_entrega: ['um local', 'outro local'],
      restricoes_participacao: { quem: 'a restrição' },
      atestado_capacidade_exigido: 'o atestado',
      visita_tecnica_obrigatoria: 'a visita',
      fora_do_contrato: 'um campo livre',
    },
    requirements: [
      {
        category: 'garantias',
        title: 'um requisito',
        required: 'primeira linha\r\nsegunda linha',
        current: 'a situação',
        status: 'red',
        ai_notes: 'as notas',
        metadata: { entrega: { locais: ['o almoxarifado'] }, cct: 'a convenção' },
      },
    ],
    items: [
      {
        numero_item: 1658475,
        descricao: 'um item',
        quantidade: 0.0001,
        unidade_medida: 'a unidade',
        valor_unitario_estimado: 0.0035,
        valor_total: 1234.5,
        material_ou_servico: 'S',
        numero_lote: 7,
        criterio_julgamento_nome: 'o critério',
        ai_selected: true,
        ai_reasoning: 'a justificativa',
        ai_confidence: 0.87,
      },
    ],
    alerts: [
      {
        type: 'opportunity',
        severity: 'high',
        title: 'um alerta',
        description: 'a descrição',
        action_type: 'esclarecimento',
        legal_thesis: 'a tese',
      },
    ],
    pricing: {
      investimento_total: 1000.25,
      garantia_proposta: 0,
      garantia_contratual: 33,
      margem_min: 0.05,
      margem_max: 0.15,
      risco_pagamento: 'critico',
      is_srp: true,
      sigiloso: false,
    },
    orgao_report: { payment_risk: 'medio', status: 'a situação do relatório' },
    operational: { prazo_entrega_dias: 45, locais: [{ nome: 'o depósito', distancia_km: 12 }] },
  }
  const fields = {
    objeto: object,
    numero: 'PCE 143',
    modalidade: 'a modalidade',
    uf: 'SP',
    valor_estimado: 0,
    data_sessao: '2026-12-01T12:30:00Z',
    pncp_url: 'https://pncp.gov.br@example.org/editais/1',
    status: 'discarded',
    participation_confirmed: true,
    discard_reason: 'o descarte',
    committed_at: '2026-10-02T02:00:00Z',
  }
  const text = renderNoticePage({
    ...PAGE,
    ...{ notice: { ...noticeEntry(1).edital, ...fields }, analysis, problem: null, history: null },
  })

  const codes = [
    'cautela',
    'deep',
    'garantias',
    'red',
    'S',
    'opportunity',
    'high',
    'esclarecimento',
    'critico',
  ]
  const texts = leaves(analysis).filter(value => ![...codes, 'medio'].includes(value))
  for (const value of texts) expect(text).toContain(value.replace('\r\n', '\n'))
  for (const value of [object, 'PCE 143', 'a modalidade', 'SP', 'o descarte', '42498733000148-2026-1'])
    expect(text).toContain(value)
  for (const value of [
    'Cautela',
    'Profunda',
    'Garantias',
    'vermelho',
    'Serviço',
    'Oportunidade',
    'Severidade alta',
    'Ação: Esclarecimento',
    '>crítico<',
    '>médio<',
    'Selecionado',
    'Descartado',
  ])
    expect(text).toContain(value)
  const forms = [
    '1658475',
    '0,0001',
    'R$\u00a00,0035',
    'R$\u00a01.234,50',
    'R$\u00a01.000,25',
    '15%',
    'seleção: 87%',
  ]
  for (const value of [
    ...forms,
    'R$\u00a00,00 (pode ser sigiloso)',
    'Prazo de entrega (dias)',
    'Distância (km): 12',
  ])
    expect(text).toContain(value)
  // In the time of Brasília; and the host to which a link really leads.
  for (const value of ['01/12/2026 às 09:30', '01/10/2026 às 23:00', 'Abrir em example.org'])
    expect(text).toContain(value)
})

test('free-form values can be anything: they are escaped, cut and shown as far as people read', () => {
  const hostile = '<img src=x onerror=alert(1)>\u202e'
  let deep: unknown = 'embaixo'
  for (let depth = 0; depth < 50_000; depth++) deep = [deep]
  const operational = {
    [hostile]: hostile,
    ['__proto__']: null,
    constructor: { toString: 1 },
    profundo: deep,
    vazio: {},
    muitos: Array.from({ length: 300 }, (_, index) => `n${index}`),
    ['x'.repeat(200)]: 1,
    prazo: '2026-12-01T12:30:00Z',
  }
  const verdict = { bullets: [hostile, 1, null], reason: ['x'], summary: 7 }
  const analysis = { operational, verdict, requirements: [null, 1, { title: {} }], items: 'x', alerts: {} }
  const text = renderNoticePage({
    ...PAGE,
    ...{ notice: { id: 'n', pncp_url: 'https://x' }, analysis, problem: null, history: [] },
  })
  expect(text).not.toContain('<img')
  expect(text).not.toContain('\u202e')
  expect(text).not.toContain('embaixo')
  expect(text).toContain('&lt;img src=x onerror=alert(1)&gt;')
  expect(text).toContain('ToString: 1')
  expect(text).toContain('n199')
  expect(text).not.toContain('n200')
  expect(text).not.toContain('x'.repeat(100))
  expect(text).toContain('01/12/2026 às 09:30')
  expect(text).toContain('Requisitos (3)')
  expect(text).toContain('Itens (0)')
})

test('no analysis makes a page that takes seconds: long lists and texts are cut, and the page states it', () => {
  const analysis = {
    verdict: { bullets: Array.from({ length: 1_000_000 }, () => 'x'), reason: `${'y\n'.repeat(30_000)}fim` },
    operational: Object.fromEntries(Array.from({ length: 10_000 }, (_, index) => [`campo ${index}`, 1])),
    requirements: Array.from({ length: 501 }, () => ({ required: '\n'.repeat(8000) })),
    items: Array.from({ length: 1_000 }, (_, index) => ({ numero_item: index })),
  }
  const before = process.cpuUsage()
  const text = renderNoticePage({
    ...PAGE,
    ...{ notice: { id: 'n' }, analysis, problem: null, history: [] },
  })
  expect(process.cpuUsage(before).user).toBeLessThan(1_000_000)
  expect(text.length).toBeLessThan(500_000)
  for (const count of ['1.000.000', '501', '1.000'])
    expect(text).toContain(`Esta página mostra os primeiros 500 de ${count}.`)
  expect(text).toContain('y y y')
  expect(text).not.toContain('fim')
  expect(text).toContain('Campo 199')
  expect(text).not.toContain('Campo 200')
})

test('an analysis that has not begun is one sentence; an address without a scheme is text, not a link', () => {
  const analysis = { analysis_level: 'none', analyzed: false, verdict: {}, requirements: [], items: [] }
  const pageOf = (notice: object) =>
    renderNoticePage({
      ...PAGE,
      ...{ notice: { id: 'n', ...notice }, analysis, problem: null, history: [] },
    })
  const text = pageOf({ pncp_url: 'www.example.org/editais/1' })
  expect(text.split('ainda não foi analisado')).toHaveLength(2)
  expect(text).not.toContain('Requisitos')
  expect(text).toContain('<dd>www.example.org/editais/1</dd>')
  for (const address of ['javascript:alert(1)', 'JAVASCRIPT:alert(1)', 'data:text/html,x', 7, ''])
    expect(pageOf({ pncp_url: address })).toContain('<dt>Edital na origem</dt><dd>–</dd>')
})

test('what needs work comes first: red requirements and grave alerts, those that are met are folded', () => {
  const text = renderNoticePage({
    ...{ ...PAGE, problem: null, history: [] },
    notice: { id: 'n', data_sessao: '2026-11-30T12:00:00Z' },
    analysis: {
      requirements: ['green', 'yellow', 'red', 'unknown', 'green'].map((status, n) => ({
        title: `R${n}`,
        status,
      })),
      alerts: ['low', 'critical', 'medium'].map(severity => ({ title: severity, severity })),
    },
  })
  const places = [
    '>R2<',
    '>R1<',
    '>R3<',
    '2 requisitos verdes',
    '>R0<',
    '>R4<',
    '>critical<',
    '>medium<',
    '>low<',
  ]
  expect(places.map(place => text.indexOf(place)).toSorted((a, b) => a - b)).toEqual(
    places.map(place => text.indexOf(place)),
  )
  expect(text.indexOf('>R2<')).toBeGreaterThan(0)
  expect(text).toContain('30/11/2026 às 09:00 <b>(em 5 dias)</b>')
})

test('a last day is shown until it has passed, also if the other one is still to come', () => {
  const row = {
    edital_id: 'n',
    impugnar: '2026-12-04',
    regra_impugnar: 'três dias úteis',
    esclarecer: '2026-12-09',
  }
  expect(findLastDay(row, 'impugnar', '2026-12-04')).toMatchObject({ days: 0, why: 'três dias úteis' })
  expect(findLastDay(row, 'impugnar', '2026-12-05')).toBeNull()
  expect(findLastDay(row, 'esclarecer', '2026-12-05')).toMatchObject({ days: 4, why: '' })
  expect(findLastDay({ ...row, impugnar: '9999-12-04' }, 'impugnar', '2026-12-05')).toBeNull()
  expect(findLastDay(null, 'impugnar', '2026-12-05')).toBeNull()
})
