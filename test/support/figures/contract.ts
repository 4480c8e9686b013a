/** The documents of docs/contract.md, as far as figures depend on deviations from them. */

type Shape =
  | 'text'
  | 'number'
  | 'flag'
  | 'time'
  | 'any'
  | readonly string[]
  | { readonly each: Shape }
  | { readonly of: Readonly<Record<string, Shape>> }

export type Document = Readonly<Record<string, unknown>>

type Contract = {
  readonly root: 'notice' | 'analysis'
  readonly required: readonly string[]
  readonly fields: Readonly<Record<string, Shape>>
}

const STATUSES = ['screening', 'analysis', 'pricing', 'ready', 'discarded', 'expired']

const SHARED: Readonly<Record<string, Shape>> = {
  id: 'text',
  pncp_id: 'text',
  orgao: 'text',
  objeto: 'text',
  numero: 'text',
  modalidade: 'text',
  uf: 'text',
  valor_estimado: 'number',
  data_sessao: 'time',
  pncp_url: 'text',
  status: STATUSES,
}

export const NOTICE: Contract = {
  root: 'notice',
  required: ['id', 'pncp_id', 'status', 'participation_confirmed', 'created_at', 'updated_at'],
  fields: {
    ...SHARED,
    participation_confirmed: 'flag',
    discard_reason: 'text',
    committed_at: 'time',
    created_at: 'time',
    updated_at: 'time',
  },
}

const VERDICT: Shape = {
  of: {
    recommendation: ['participar', 'cautela', 'nao_recomendado'],
    reason: 'text',
    summary: 'text',
    bullets: { each: 'text' },
  },
}

const REQUIREMENT: Shape = {
  of: {
    category: [
      ...['habilitacao_juridica', 'qualificacao_tecnica', 'qualificacao_economica', 'regularidade_fiscal'],
      ...['regularidade_trabalhista', 'declaracoes', 'amostras', 'visita_tecnica', 'certificacoes'],
      ...['garantias', 'programa_integridade', 'outros'],
    ],
    title: 'text',
    required: 'text',
    current: 'text',
    status: ['red', 'yellow', 'green'],
    ai_notes: 'text',
    metadata: 'any',
  },
}

const ITEM: Shape = {
  of: {
    numero_item: 'number',
    descricao: 'text',
    quantidade: 'number',
    unidade_medida: 'text',
    valor_unitario_estimado: 'number',
    valor_total: 'number',
    material_ou_servico: ['M', 'S'],
    numero_lote: 'number',
    criterio_julgamento_nome: 'text',
    ai_selected: 'flag',
    ai_reasoning: 'text',
    ai_confidence: 'number',
  },
}

const ALERT: Shape = {
  of: {
    type: ['risk', 'opportunity', 'info'],
    severity: ['critical', 'high', 'medium', 'low'],
    title: 'text',
    description: 'text',
    legal_thesis: 'text',
    action_type: ['impugnacao', 'esclarecimento', 'recurso', 'contrarrazao', 'none'],
  },
}

const PRICING: Shape = {
  of: {
    investimento_total: 'number',
    garantia_proposta: 'number',
    garantia_contratual: 'number',
    margem_min: 'number',
    margem_max: 'number',
    is_srp: 'flag',
    sigiloso: 'flag',
    risco_pagamento: ['', 'baixo', 'medio', 'alto', 'critico', 'desconhecido'],
  },
}

export const ANALYSIS: Contract = {
  root: 'analysis',
  required: [
    ...['id', 'pncp_id', 'status', 'analysis_level', 'analyzed', 'verdict', 'requirements', 'items'],
    'alerts',
  ],
  fields: {
    ...SHARED,
    analysis_level: ['none', 'simple', 'medium', 'deep'],
    analyzed: 'flag',
    verdict: VERDICT,
    overview: 'any',
    operational: 'any',
    pricing: PRICING,
    requirements: { each: REQUIREMENT },
    items: { each: ITEM },
    alerts: { each: ALERT },
    orgao_report: { of: { payment_risk: 'text', status: 'text' } },
  },
}

/** A document is usable if it has every required field. */
export function isUsable(document: Document, { required }: Contract): boolean {
  return required.every(field => (document[field] ?? null) !== null)
}

/** The document's fields that the contract knows, as text; a new version has a different text. */
export function contractText(document: Document, { fields }: Contract): string {
  return JSON.stringify(Object.keys(fields).map(field => document[field] ?? null))
}

export type Departure = {
  readonly path: string
  readonly kind: 'unknown_field' | 'unknown_enum' | 'wrong_type'
}

/** Every place where a document deviates from the contract; a place in a list once per element. */
export function departures(document: Document, { root, fields }: Contract): Departure[] {
  return inObject(document, fields, root)
}

function inObject(object: Document, fields: Readonly<Record<string, Shape>>, path: string): Departure[] {
  return Object.entries(object).flatMap(([name, value]) => {
    const shape = fields[name]
    const at = `${path}.${name}`
    return shape ? inValue(value, shape, at) : [{ path: at, kind: 'unknown_field' }]
  })
}

/** Absent and null are the same. */
function inValue(value: unknown, shape: Shape, path: string): Departure[] {
  if (value === undefined || value === null || shape === 'any') return []
  if (typeof shape === 'object' && 'each' in shape) {
    return (value as unknown[]).flatMap(element => inValue(element, shape.each, `${path}[]`))
  }
  if (typeof shape === 'object' && 'of' in shape) return inObject(value as Document, shape.of, path)
  if (isOf(value, shape)) return []
  const listed = typeof shape === 'object' && typeof value === 'string'
  return [{ path, kind: listed ? 'unknown_enum' : 'wrong_type' }]
}

function isOf(value: unknown, shape: 'text' | 'number' | 'flag' | 'time' | readonly string[]): boolean {
  if (shape === 'number') return typeof value === 'number'
  if (shape === 'flag') return typeof value === 'boolean'
  if (typeof value !== 'string') return false
  if (shape === 'time') return timeOf(value) !== null
  return shape === 'text' || shape.includes(value)
}

/** The text of a field; null if it is not text. */
export function textOf(value: unknown): string | null {
  return typeof value === 'string' ? value : null
}

export function numberOf(value: unknown): number | null {
  return typeof value === 'number' ? value : null
}

export function timeOf(value: unknown): string | null {
  return typeof value === 'string' && /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}|$)/.test(value) ? value : null
}
