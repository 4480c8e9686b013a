import { BRL } from './columns.ts'
import { NOTICE } from './notice.ts'
import { type Fields, type Part, pickRepeated } from './record.ts'

/** The analysis (docs/contract.md#analysis): the elements of its lists, with the columns of their tables, then the whole. */

const REQUIREMENT = {
  component: 'Requirement',
  fields: {
    category: {
      type: 'string',
      values: [
        'habilitacao_juridica',
        'qualificacao_tecnica',
        'qualificacao_economica',
        'regularidade_fiscal',
        'regularidade_trabalhista',
        'declaracoes',
        'amostras',
        'visita_tecnica',
        'certificacoes',
        'garantias',
        'programa_integridade',
        'outros',
      ],
      description: 'Kind of requirement',
      portuguese: ['Categoria (código)', 'Por exemplo qualificacao_tecnica ou regularidade_fiscal'],
    },
    title: {
      type: 'string',
      description: 'Title',
      portuguese: ['Requisito', 'Título do requisito'],
    },
    required: {
      type: 'string',
      api: true,
      description: 'What the notice demands',
      portuguese: ['Exigência', 'O que o edital exige'],
    },
    current: {
      type: 'string',
      api: "Company's current state (when evaluated).",
      description: "Company's current state, when evaluated",
      portuguese: ['Situação da empresa', 'O que a empresa tem hoje para atender; vazio quando não avaliado'],
    },
    status: {
      type: 'string',
      values: ['red', 'yellow', 'green'],
      description: 'red, yellow or green',
      portuguese: [
        'Semáforo',
        'red (vermelho), yellow (amarelo) ou green (verde); vazio quando não avaliado',
      ],
    },
    ai_notes: {
      type: 'string',
      description: 'Notes of the evaluation',
      portuguese: ['Notas da avaliação', 'Observações da avaliação automática'],
    },
    metadata: {
      type: 'object',
      api: 'Semi-structured detail (collective agreements, salary floors, delivery, integrity-program trigger).',
      description: 'Semi-structured detail',
      portuguese: [
        'Detalhes',
        'Detalhes do requisito, por exemplo convenção coletiva e pisos salariais (texto JSON)',
      ],
    },
  },
} as const satisfies Part

const ITEM = {
  component: 'Item',
  fields: {
    numero_item: {
      type: 'integer',
      description: 'Item number',
      portuguese: ['Número do item', 'Número do item no edital'],
    },
    descricao: {
      type: 'string',
      description: 'Description',
      portuguese: ['Descrição do item', 'Descrição do item no edital'],
      derived: [
        {
          name: 'descricao_limpa',
          type: 'VARCHAR',
          from: { cleanOf: 'descricao' },
          description:
            'Description with single spaces and without invisible characters; NULL if it is as it was sent',
          portuguese: [
            'Descrição limpa',
            'Descrição com espaços simples e sem caracteres invisíveis; vazio: igual à enviada',
          ],
          since: 10,
        },
      ],
    },
    quantidade: {
      type: 'number',
      unit: 'unidade_medida',
      description: 'Quantity',
      portuguese: ['Quantidade', 'Quantidade licitada, na unidade de medida do item'],
    },
    unidade_medida: {
      type: 'string',
      description: 'Unit of measure',
      portuguese: ['Unidade de medida', 'Unidade de medida da quantidade'],
    },
    valor_unitario_estimado: {
      type: 'number',
      unit: BRL,
      description: 'Estimated unit value',
      portuguese: [
        'Valor unitário estimado',
        'Valor estimado de uma unidade, em BRL; 0 pode significar sigiloso',
      ],
    },
    valor_total: {
      type: 'number',
      unit: BRL,
      description: 'Total value',
      portuguese: ['Valor total do item', 'Valor total do item, em BRL; 0 pode significar sigiloso'],
    },
    material_ou_servico: {
      type: 'string',
      values: ['M', 'S'],
      description: 'M material, S service',
      portuguese: ['Material ou serviço (código)', 'M: material; S: serviço'],
    },
    numero_lote: {
      type: 'integer',
      nullable: true,
      api: true,
      description: 'Lot number',
      portuguese: ['Número do lote', 'Número do lote; vazio quando não há lotes'],
    },
    criterio_julgamento_nome: {
      type: 'string',
      api: 'Judging criterion name.',
      description: 'Judging criterion',
      portuguese: ['Critério de julgamento', 'Critério de julgamento, por exemplo menor preço'],
    },
    ai_selected: {
      type: 'boolean',
      description: 'Whether the evaluation selected the item for the company',
      portuguese: ['Item selecionado', 'Se a avaliação automática selecionou o item para a empresa'],
    },
    ai_reasoning: {
      type: 'string',
      description: 'Reason for the selection',
      portuguese: ['Justificativa da seleção', 'Por que a avaliação automática selecionou ou não o item'],
    },
    ai_confidence: {
      type: 'number',
      description: 'Confidence of the selection',
      portuguese: [
        'Confiança da seleção',
        'Confiança na seleção, na escala de quem analisou (o contrato não diz qual)',
      ],
    },
  },
} as const satisfies Part

const ALERT = {
  component: 'Alert',
  fields: {
    type: {
      type: 'string',
      values: ['risk', 'opportunity', 'info'],
      description: 'risk, opportunity or info',
      portuguese: ['Tipo (código)', 'risk (risco), opportunity (oportunidade) ou info (informação)'],
    },
    severity: {
      type: 'string',
      values: ['critical', 'high', 'medium', 'low'],
      description: 'critical, high, medium or low',
      portuguese: ['Severidade (código)', 'critical (crítica), high (alta), medium (média) ou low (baixa)'],
    },
    title: {
      type: 'string',
      description: 'Title',
      portuguese: ['Alerta', 'Título do alerta'],
    },
    description: {
      type: 'string',
      description: 'Description',
      portuguese: ['Descrição do alerta', 'Texto do alerta'],
    },
    action_type: {
      type: 'string',
      values: ['impugnacao', 'esclarecimento', 'recurso', 'contrarrazao', 'none'],
      description: 'impugnacao, esclarecimento, recurso, contrarrazao or none',
      portuguese: ['Ação (código)', 'impugnacao, esclarecimento, recurso, contrarrazao ou none (nenhuma)'],
    },
    legal_thesis: {
      type: 'string',
      nullable: true,
      description: 'Legal thesis',
      portuguese: ['Tese jurídica', 'Fundamento jurídico da ação; vazio quando não há'],
    },
  },
} as const satisfies Part

export const ANALYSIS_LEVELS = ['none', 'simple', 'medium', 'deep'] as const

export const RECOMMENDATIONS = ['participar', 'cautela', 'nao_recomendado'] as const

const VERDICT = {
  component: 'Verdict',
  fields: {
    recommendation: {
      type: 'string',
      values: RECOMMENDATIONS,
      description: 'participar, cautela or nao_recomendado',
      portuguese: ['Recomendação (código)', 'participar, cautela ou nao_recomendado; vazio: não avaliado'],
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
        'Menor margem prevista, na escala de quem analisou (o contrato não diz se fração ou %)',
      ],
    },
    margem_max: {
      type: 'number',
      description: 'Highest margin',
      portuguese: [
        'Margem máxima',
        'Maior margem prevista, na escala de quem analisou (o contrato não diz se fração ou %)',
      ],
    },
    risco_pagamento: {
      type: 'string',
      values: ['', 'baixo', 'medio', 'alto', 'critico', 'desconhecido'],
      description: 'Payment risk: empty, baixo, medio, alto, critico, desconhecido',
      portuguese: [
        'Risco de pagamento (código)',
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
        'Situação do relatório sobre o órgão, como a origem informa',
      ],
    },
  },
} as const satisfies Part

/** Fields of the notice that its analysis repeats. */
const REPEATED = pickRepeated(NOTICE)

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
      'Nível da análise (código)',
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

/**
 * The mirror's `error` values, with 503, for a notice whose analysis it does not have. The server itself works, and
 * other analyses can be requested at once.
 */
export const UNAVAILABLE = {
  /** Not yet, or not at the moment: a later run may fetch it. */
  now: 'analysis_not_available',
  /** Not with the current settings (`ANALYSIS_STATUSES`). */
  excluded: 'analysis_excluded',
} as const
