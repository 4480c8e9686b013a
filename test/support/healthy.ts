type Values = Readonly<Record<string, unknown>>

/** A notice with every field of docs/contract.md#notice. */
export function healthyNotice(id: string): Values {
  return {
    id,
    pncp_id: '42498733000148-2026-17',
    orgao: 'Município do Rio de Janeiro',
    objeto: 'Luvas',
    numero: '17/2026',
    modalidade: 'Dispensa',
    uf: 'RJ',
    valor_estimado: 1234.5,
    data_sessao: '2026-12-01T09:00:00',
    pncp_url: 'https://pncp.gov.br/app/editais/17',
    status: 'discarded',
    participation_confirmed: false,
    discard_reason: 'Preço',
    committed_at: '2026-11-02T00:00:00Z',
    created_at: '2026-11-01T00:00:00Z',
    updated_at: '2026-11-03T00:00:00Z',
  }
}

const OVERVIEW: Values = {
  orgao_licitante: 'Município',
  lei_aplicavel: 'Lei 14.133/2021',
  valor_estimado: 'Sigiloso',
  is_srp: false,
  exclusivo_me_epp: true,
  prazo_impugnacao: '3 dias úteis',
  locais_entrega: ['Sede'],
  restricoes_participacao: 'Não há',
  atestado_capacidade_exigido: true,
  visita_tecnica_obrigatoria: 'não',
}

const REQUIREMENT: Values = {
  category: 'outros',
  title: 'Certidão',
  required: 'Sim',
  current: 'Vigente',
  status: 'green',
  ai_notes: 'Conferida',
  metadata: { pagina: 3 },
}

const ITEM: Values = {
  numero_item: 1,
  descricao: 'Luva',
  quantidade: 10,
  unidade_medida: 'CX',
  valor_unitario_estimado: 2.55,
  valor_total: 25.5,
  material_ou_servico: 'M',
  numero_lote: 2,
  criterio_julgamento_nome: 'Menor preço',
  ai_selected: true,
  ai_reasoning: 'Catálogo',
  ai_confidence: 0.75,
}

const ALERT: Values = {
  type: 'risk',
  severity: 'low',
  title: 'Prazo',
  description: 'Curto',
  action_type: 'none',
  legal_thesis: 'Art. 55',
}

/** An analysis with every field of docs/contract.md#analysis, and one element in each list. */
export function healthyAnalysis(id: string): Values {
  const { participation_confirmed, discard_reason, committed_at, created_at, updated_at, ...shared } =
    healthyNotice(id)
  return {
    ...shared,
    analysis_level: 'deep',
    analyzed: true,
    verdict: { recommendation: 'cautela', reason: 'Prazo curto.', summary: 'Resumo.', bullets: ['Um.'] },
    overview: OVERVIEW,
    requirements: [REQUIREMENT],
    items: [ITEM],
    alerts: [ALERT],
    pricing: {
      investimento_total: 100,
      garantia_proposta: 1,
      garantia_contratual: 5,
      margem_min: 0.1,
      margem_max: 0.2,
      risco_pagamento: 'baixo',
      is_srp: false,
      sigiloso: true,
    },
    orgao_report: { payment_risk: 'baixo', status: 'concluido' },
    operational: { prazo_entrega_dias: 10 },
  }
}
