import type { AnalysisDocument, Edital } from '#src/sandbox/world.ts'

/**
 * Brings equivalent documents into the same form: optional fields that are null are omitted; a time with an offset and
 * at most six decimals becomes an instant, any other stays text; fields that the contract does not name are omitted.
 * Depends only on the contract, not on the project's schema.
 */

type Fields = Readonly<Record<string, unknown>>

const NOTICE = [
  ...['id', 'pncp_id', 'orgao', 'objeto', 'numero', 'modalidade', 'uf', 'valor_estimado', 'pncp_url'],
  ...['status', 'participation_confirmed', 'discard_reason'],
]
const REPEATED = NOTICE.slice(0, 10)
const PARTS = {
  verdict: ['recommendation', 'reason', 'summary', 'bullets'],
  pricing: [
    ...['investimento_total', 'garantia_proposta', 'garantia_contratual', 'margem_min', 'margem_max'],
    ...['risco_pagamento', 'is_srp', 'sigiloso'],
  ],
  orgao_report: ['payment_risk', 'status'],
} as const
const ELEMENTS = {
  requirements: ['category', 'title', 'required', 'current', 'status', 'ai_notes', 'metadata'],
  items: [
    ...['numero_item', 'descricao', 'quantidade', 'unidade_medida', 'valor_unitario_estimado', 'valor_total'],
    ...['material_ou_servico', 'numero_lote', 'criterio_julgamento_nome', 'ai_selected', 'ai_reasoning'],
    'ai_confidence',
  ],
  alerts: ['type', 'severity', 'title', 'description', 'action_type', 'legal_thesis'],
} as const

export function comparableNotice(edital: Edital): Fields {
  const times = ['data_sessao', 'committed_at', 'created_at', 'updated_at']
  return { ...some(edital, NOTICE), ...Object.fromEntries(times.map(name => [name, instant(edital[name])])) }
}

export function comparableAnalysis(analysis: AnalysisDocument): Fields {
  const parts = Object.entries(PARTS).map(([name, names]) => [name, part(analysis[name], names)])
  const lists = Object.entries(ELEMENTS).map(([name, names]) => [
    name,
    (analysis[name] as Fields[]).map(element => some(element, names)),
  ])
  return {
    ...some(analysis, [...REPEATED, 'analysis_level', 'analyzed', 'overview', 'operational']),
    data_sessao: instant(analysis.data_sessao),
    ...Object.fromEntries([...parts, ...lists]),
  }
}

function part(value: unknown, names: readonly string[]): Fields | null {
  return value === null || value === undefined ? null : some(value as Fields, names)
}

function some(fields: Fields, names: readonly string[]): Fields {
  const present = names.filter(name => fields[name] !== undefined && fields[name] !== null)
  return Object.fromEntries(present.map(name => [name, fields[name]]))
}

/** Microseconds, or the text if it is not such a time. */
function instant(text: unknown): bigint | string | null {
  if (typeof text !== 'string') return null
  if (!/(Z|[+-]\d\d:\d\d)$/.test(text) || /\.\d{7}/.test(text)) return text
  return Temporal.Instant.from(text).epochNanoseconds / 1000n
}
