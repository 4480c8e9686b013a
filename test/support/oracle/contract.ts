export type Kind = 'text' | 'number' | 'integer' | 'boolean' | 'moment' | 'id'

export type Spec =
  | { readonly is: Kind; readonly words?: readonly string[] }
  | { readonly is: 'object'; readonly members: Members }
  | { readonly is: 'list'; readonly each: Spec }
  /** Any value is kept; another kind, or a member that is not listed, is reported. */
  | { readonly is: 'free'; readonly kind: 'object' | 'text'; readonly members?: Members }

/** Names of required members end in `!`. */
export type Members = Readonly<Record<string, Spec>>

const text: Spec = { is: 'text' }
const number: Spec = { is: 'number' }
const integer: Spec = { is: 'integer' }
const boolean: Spec = { is: 'boolean' }
const moment: Spec = { is: 'moment' }
const freeObject: Spec = { is: 'free', kind: 'object' }
const word = (...words: string[]): Spec => ({ is: 'text', words })
const listOf = (members: Members): Spec => ({ is: 'list', each: { is: 'object', members } })

const SHARED: Members = {
  'id!': { is: 'id' },
  'pncp_id!': text,
  'status!': word('screening', 'analysis', 'pricing', 'ready', 'discarded', 'expired'),
  orgao: text,
  objeto: text,
  numero: text,
  modalidade: text,
  uf: text,
  pncp_url: text,
  valor_estimado: number,
  data_sessao: moment,
}

const NOTICE: Members = {
  ...SHARED,
  'participation_confirmed!': boolean,
  discard_reason: text,
  committed_at: moment,
  'created_at!': moment,
  'updated_at!': moment,
}

const ANALYSIS: Members = {
  ...SHARED,
  'analysis_level!': word('none', 'simple', 'medium', 'deep'),
  'analyzed!': boolean,
  'verdict!': {
    is: 'object',
    members: {
      recommendation: word('participar', 'cautela', 'nao_recomendado'),
      reason: text,
      summary: text,
      bullets: { is: 'list', each: { is: 'free', kind: 'text' } },
    },
  },
  overview: {
    is: 'free',
    kind: 'object',
    members: { lei_aplicavel: text, prazo_impugnacao: text, is_srp: boolean, exclusivo_me_epp: boolean },
  },
  'requirements!': listOf({
    category: word(
      ...['habilitacao_juridica', 'qualificacao_tecnica', 'qualificacao_economica', 'regularidade_fiscal'],
      ...['regularidade_trabalhista', 'declaracoes', 'amostras', 'visita_tecnica', 'certificacoes'],
      ...['garantias', 'programa_integridade', 'outros'],
    ),
    title: text,
    required: text,
    current: text,
    ai_notes: text,
    metadata: freeObject,
    status: word('red', 'yellow', 'green'),
  }),
  'items!': listOf({
    numero_item: integer,
    descricao: text,
    quantidade: number,
    unidade_medida: text,
    valor_unitario_estimado: number,
    valor_total: number,
    material_ou_servico: word('M', 'S'),
    numero_lote: integer,
    criterio_julgamento_nome: text,
    ai_selected: boolean,
    ai_reasoning: text,
    ai_confidence: number,
  }),
  'alerts!': listOf({
    type: word('risk', 'opportunity', 'info'),
    severity: word('critical', 'high', 'medium', 'low'),
    title: text,
    description: text,
    legal_thesis: text,
    action_type: word('impugnacao', 'esclarecimento', 'recurso', 'contrarrazao', 'none'),
  }),
  pricing: {
    is: 'object',
    members: {
      investimento_total: number,
      garantia_proposta: number,
      garantia_contratual: number,
      margem_min: number,
      margem_max: number,
      is_srp: boolean,
      sigiloso: boolean,
      risco_pagamento: word('', 'baixo', 'medio', 'alto', 'critico', 'desconhecido'),
    },
  },
  orgao_report: { is: 'object', members: { payment_risk: text, status: text } },
  operational: freeObject,
}

export const MEMBERS = { notice: NOTICE, analysis: ANALYSIS }
