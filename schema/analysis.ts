import { ALERT, ITEM, REQUIREMENT } from './analysis_lists.ts'
import { BRL } from './columns.ts'
import { NOTICE } from './notice.ts'
import { type Fields, type Part, repeated } from './record.ts'

export const ANALYSIS_LEVELS = ['none', 'simple', 'medium', 'deep'] as const

export const RECOMMENDATIONS = ['participar', 'cautela', 'nao_recomendado'] as const

const VERDICT = {
  component: 'Verdict',
  fields: {
    recommendation: {
      type: 'string',
      values: RECOMMENDATIONS,
      description: 'participar, cautela or nao_recomendado',
      portuguese: ['Recomendação', 'participar, cautela ou nao_recomendado; vazio antes da avaliação'],
    },
    reason: {
      type: 'string',
      description: 'Reason for the verdict',
      portuguese: ['Motivo da recomendação', 'Motivo da recomendação de participar ou não'],
    },
    summary: {
      type: 'string',
      description: 'Summary of the verdict',
      portuguese: ['Resumo da recomendação', 'Resumo da recomendação de participar ou não'],
    },
    bullets: {
      type: 'strings',
      description: 'Points of the verdict',
      portuguese: ['Pontos da recomendação', 'Pontos que sustentam a recomendação (texto JSON)'],
    },
  },
} as const satisfies Part

/** Free-form: these fields are named in the contract, which gives types for four of them (for two only in samples). */
const OVERVIEW = {
  component: 'Overview',
  freeForm: true,
  fields: {
    orgao_licitante: {
      type: 'any',
      description: 'Buying body as the notice names it',
      portuguese: ['Órgão licitante', 'Órgão como o edital o nomeia'],
    },
    lei_aplicavel: {
      type: 'string',
      description: 'Applicable law',
      portuguese: ['Lei aplicável', 'Lei que rege a licitação, como consta no edital'],
    },
    valor_estimado: {
      type: 'any',
      description: 'Estimated value as the notice words it',
      portuguese: [
        'Valor estimado (texto)',
        'Valor estimado como o edital o escreve; é texto, não serve para somas',
      ],
    },
    is_srp: {
      type: 'boolean',
      api: 'Boolean in samples.',
      description: 'Whether it is a price registration (SRP)',
      portuguese: ['Registro de preços', 'Se é sistema de registro de preços (SRP), segundo a visão geral'],
    },
    exclusivo_me_epp: {
      type: 'boolean',
      api: 'Boolean in samples.',
      description: 'Whether it is reserved for small companies (ME/EPP)',
      portuguese: ['Exclusivo ME/EPP', 'Se é exclusivo para microempresas e empresas de pequeno porte'],
    },
    prazo_impugnacao: {
      type: 'string',
      description: 'Deadline to challenge the notice, as worded',
      portuguese: ['Prazo de impugnação (texto)', 'Prazo para impugnar o edital, como está escrito nele'],
    },
    locais_entrega: {
      type: 'any',
      description: 'Places of delivery',
      portuguese: ['Locais de entrega', 'Locais de entrega (texto livre ou JSON)'],
    },
    restricoes_participacao: {
      type: 'any',
      description: 'Restrictions on participation',
      portuguese: [
        'Restrições à participação',
        'Quem não pode participar ou sob que condições (texto livre ou JSON)',
      ],
    },
    atestado_capacidade_exigido: {
      type: 'any',
      description: 'Technical capacity certificate demanded',
      portuguese: ['Atestado de capacidade', 'Atestado de capacidade técnica exigido (texto livre ou JSON)'],
    },
    visita_tecnica_obrigatoria: {
      type: 'any',
      description: 'Whether a technical visit is mandatory',
      portuguese: ['Visita técnica', 'Se a visita técnica é obrigatória (texto livre ou JSON)'],
    },
  },
} as const satisfies Part

const PRICING = {
  component: 'Pricing',
  fields: {
    investimento_total: {
      type: 'number',
      unit: BRL,
      description: 'Total investment',
      portuguese: ['Investimento total', 'Investimento total previsto, em BRL'],
    },
    garantia_proposta: {
      type: 'number',
      unit: BRL,
      description: 'Proposal guarantee',
      portuguese: ['Garantia de proposta', 'Garantia exigida para a proposta, em BRL'],
    },
    garantia_contratual: {
      type: 'number',
      unit: BRL,
      description: 'Contract guarantee',
      portuguese: ['Garantia contratual', 'Garantia exigida para o contrato, em BRL'],
    },
    margem_min: {
      type: 'number',
      description: 'Lowest margin',
      portuguese: [
        'Margem mínima',
        'Menor margem prevista, na escala da API (o contrato não diz se fração ou %)',
      ],
    },
    margem_max: {
      type: 'number',
      description: 'Highest margin',
      portuguese: [
        'Margem máxima',
        'Maior margem prevista, na escala da API (o contrato não diz se fração ou %)',
      ],
    },
    risco_pagamento: {
      type: 'string',
      values: ['', 'baixo', 'medio', 'alto', 'critico', 'desconhecido'],
      description: 'Payment risk: empty, baixo, medio, alto, critico, desconhecido',
      portuguese: [
        'Risco de pagamento',
        'baixo, medio, alto, critico ou desconhecido; texto vazio: não avaliado',
      ],
    },
    is_srp: {
      type: 'boolean',
      description: 'Whether it is a price registration (SRP)',
      portuguese: [
        'Registro de preços (precificação)',
        'Se é sistema de registro de preços (SRP), segundo a precificação',
      ],
    },
    sigiloso: {
      type: 'boolean',
      description: 'Whether the budget is secret',
      portuguese: ['Orçamento sigiloso', 'Se o orçamento da licitação é sigiloso'],
    },
  },
} as const satisfies Part

const ORGAO_REPORT = {
  component: 'OrgaoReport',
  fields: {
    payment_risk: {
      type: 'string',
      description: "Buying body's payment risk",
      portuguese: [
        'Risco de pagamento do órgão',
        'Risco de o órgão atrasar pagamentos, segundo dados públicos de transparência',
      ],
    },
    status: {
      type: 'string',
      description: "State of the buying body's report",
      portuguese: [
        'Situação do relatório do órgão',
        'Situação do relatório sobre o órgão, como a API informa',
      ],
    },
  },
} as const satisfies Part

/** Fields of the notice that its analysis repeats. */
const REPEATED = repeated(NOTICE)

export const REPEATED_FIELDS: readonly string[] = Object.keys(REPEATED)

/**
 * docs/contract.md#analysis: the structured analysis of one notice, exactly as documented, with its columns. Empty
 * sections are legitimate: a notice that was only screened has no requirements or items yet.
 */
export const ANALYSIS = {
  ...REPEATED,
  analysis_level: {
    type: 'string',
    values: ANALYSIS_LEVELS,
    component: 'AnalysisLevel',
    always: true,
    description: 'Depth of the analysis: none, simple, medium, deep',
    portuguese: [
      'Nível da análise',
      'Profundidade da análise: none (nenhuma), simple (simples), medium (média), deep (profunda)',
    ],
  },
  analyzed: {
    type: 'boolean',
    always: true,
    api: '`false` when `analysis_level` = `none`.',
    description: 'False when the level is none',
    portuguese: ['Analisado', 'Falso quando o nível da análise é none'],
  },
  verdict: {
    part: VERDICT,
    always: true,
  },
  overview: {
    part: OVERVIEW,
    description: 'The whole overview',
    portuguese: ['Visão geral', 'A visão geral inteira (texto JSON)'],
  },
  requirements: {
    each: REQUIREMENT,
    always: true,
    api: 'Habilitation requirements demanded by the notice.',
  },
  items: {
    each: ITEM,
    always: true,
    api: 'Items and lots.',
  },
  alerts: {
    each: ALERT,
    always: true,
    api: 'Legal-risk alerts and opportunities; only published ones are included.',
  },
  pricing: {
    part: PRICING,
    nullable: true,
    api: 'Investment and guarantees; absent/null until a `medium` evaluation has run.',
  },
  orgao_report: {
    part: ORGAO_REPORT,
    nullable: true,
    api: 'Payment reliability of the buying body (public transparency data).',
  },
  operational: {
    type: 'object',
    component: 'Operational',
    nullable: true,
    api: 'Delivery/execution logistics (term, phasing, places).',
    description: 'Delivery and execution logistics',
    portuguese: ['Logística de execução', 'Prazo, parcelamento e locais de entrega e execução (texto JSON)'],
  },
} as const satisfies Fields
