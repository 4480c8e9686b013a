import type { Entry } from '#src/sandbox/world.ts'

/**
 * The expected published rows of a notice, directly from its documents: an independent mapping that shares nothing
 * with `schema/tables.ts`. Without the columns that depend on the run.
 */

type Document = Readonly<Record<string, unknown>>
/** Times are microseconds since 1970. */
export type Row = Record<string, unknown>

/** Microseconds since 1970; a date-time without an offset is Brasília time. */
function micros(text: unknown): bigint | null {
  if (text === undefined || text === null) return null
  const instant = /(Z|[+-]\d\d:\d\d)$/.test(String(text))
    ? Temporal.Instant.from(String(text))
    : Temporal.PlainDateTime.from(String(text)).toZonedDateTime('America/Sao_Paulo').toInstant()
  return instant.epochNanoseconds / 1000n
}

/** The times that are not an instant in microseconds: dates, local times, more decimals. */
function timesAsSent(edital: Document): string | null {
  const names = ['data_sessao', 'committed_at', 'created_at', 'updated_at']
  const kept = names.filter(name => {
    const text = edital[name]
    return typeof text === 'string' && !(/(Z|[+-]\d\d:\d\d)$/.test(text) && !/\.\d{7}/.test(text))
  })
  return kept.length === 0 ? null : JSON.stringify(Object.fromEntries(kept.map(name => [name, edital[name]])))
}

function emptyParts(analysis: Document): string | null {
  const empty = ['pricing', 'orgao_report'].filter(name => {
    const part = analysis[name]
    return part !== undefined && part !== null && Object.values(part).every(value => value === null)
  })
  return empty.length === 0 ? null : JSON.stringify(empty)
}

function orNull(value: unknown): unknown {
  return value ?? null
}

function integer(value: unknown): bigint | null {
  return typeof value === 'number' ? BigInt(value) : null
}

function jsonText(value: unknown): string | null {
  return value === undefined || value === null ? null : JSON.stringify(value)
}

/** Free text: a string as it is, anything else as JSON text. */
function freeText(value: unknown): string | null {
  return typeof value === 'string' ? value : jsonText(value)
}

function object(value: unknown): Document {
  return (value ?? {}) as Document
}

function list(value: unknown): readonly Document[] {
  return value as readonly Document[]
}

export function editalRow({ edital }: Entry): Row {
  const [, cnpj, year, sequence] = /^(\d+)-(\d+)-(\d+)$/.exec(edital.pncp_id) as unknown as string[]
  return {
    company: 'acme',
    edital_id: edital.id,
    pncp_id: edital.pncp_id,
    orgao_cnpj: cnpj,
    pncp_ano: Number(year),
    pncp_sequencial: BigInt(sequence as string),
    orgao: orNull(edital.orgao),
    objeto: orNull(edital.objeto),
    numero: orNull(edital.numero),
    modalidade: orNull(edital.modalidade),
    uf: orNull(edital.uf),
    valor_estimado: orNull(edital.valor_estimado),
    data_sessao: micros(edital.data_sessao),
    pncp_url: orNull(edital.pncp_url),
    status: edital.status,
    participation_confirmed: edital.participation_confirmed,
    discard_reason: orNull(edital.discard_reason),
    committed_at: micros(edital.committed_at),
    created_at: micros(edital.created_at),
    updated_at: micros(edital.updated_at),
    deleted_at: null,
    analysis_state: 'current',
    times_as_sent: timesAsSent(edital),
  }
}

export function analysisRow({ edital, analysis }: Entry): Row {
  const { analysis_level, analyzed, operational, ...document } = object(analysis)
  const [verdict, overview] = [object(document.verdict), object(document.overview)]
  const [pricing, report] = [object(document.pricing), object(document.orgao_report)]
  return {
    company: 'acme',
    edital_id: edital.id,
    analysis_level,
    analyzed,
    verdict_recommendation: orNull(verdict.recommendation),
    verdict_reason: orNull(verdict.reason),
    verdict_summary: orNull(verdict.summary),
    verdict_bullets: jsonText(verdict.bullets),
    overview_orgao_licitante: freeText(overview.orgao_licitante),
    overview_lei_aplicavel: freeText(overview.lei_aplicavel),
    overview_valor_estimado: freeText(overview.valor_estimado),
    overview_is_srp: orNull(overview.is_srp),
    overview_exclusivo_me_epp: orNull(overview.exclusivo_me_epp),
    overview_prazo_impugnacao: freeText(overview.prazo_impugnacao),
    overview_locais_entrega: freeText(overview.locais_entrega),
    overview_restricoes_participacao: freeText(overview.restricoes_participacao),
    overview_atestado_capacidade_exigido: freeText(overview.atestado_capacidade_exigido),
    overview_visita_tecnica_obrigatoria: freeText(overview.visita_tecnica_obrigatoria),
    overview: jsonText(document.overview),
    pricing_investimento_total: orNull(pricing.investimento_total),
    pricing_garantia_proposta: orNull(pricing.garantia_proposta),
    pricing_garantia_contratual: orNull(pricing.garantia_contratual),
    pricing_margem_min: orNull(pricing.margem_min),
    pricing_margem_max: orNull(pricing.margem_max),
    pricing_risco_pagamento: orNull(pricing.risco_pagamento),
    pricing_is_srp: orNull(pricing.is_srp),
    pricing_sigiloso: orNull(pricing.sigiloso),
    orgao_report_payment_risk: orNull(report.payment_risk),
    orgao_report_status: orNull(report.status),
    operational: jsonText(operational),
    empty_parts: emptyParts(document),
    source_updated_at: micros(edital.updated_at),
  }
}

export function requirementRows({ edital, analysis }: Entry): Row[] {
  return list(analysis?.requirements).map((requirement, index) => ({
    company: 'acme',
    edital_id: edital.id,
    ordinal: index + 1,
    category: orNull(requirement.category),
    title: orNull(requirement.title),
    required: orNull(requirement.required),
    current: orNull(requirement.current),
    status: orNull(requirement.status),
    ai_notes: orNull(requirement.ai_notes),
    metadata: jsonText(requirement.metadata),
  }))
}

export function itemRows({ edital, analysis }: Entry): Row[] {
  return list(analysis?.items).map((item, index) => ({
    company: 'acme',
    edital_id: edital.id,
    ordinal: index + 1,
    numero_item: integer(item.numero_item),
    descricao: orNull(item.descricao),
    quantidade: orNull(item.quantidade),
    unidade_medida: orNull(item.unidade_medida),
    valor_unitario_estimado: orNull(item.valor_unitario_estimado),
    valor_total: orNull(item.valor_total),
    material_ou_servico: orNull(item.material_ou_servico),
    numero_lote: integer(item.numero_lote),
    criterio_julgamento_nome: orNull(item.criterio_julgamento_nome),
    ai_selected: orNull(item.ai_selected),
    ai_reasoning: orNull(item.ai_reasoning),
    ai_confidence: orNull(item.ai_confidence),
  }))
}

export function alertRows({ edital, analysis }: Entry): Row[] {
  return list(analysis?.alerts).map((alert, index) => ({
    company: 'acme',
    edital_id: edital.id,
    ordinal: index + 1,
    type: orNull(alert.type),
    severity: orNull(alert.severity),
    title: orNull(alert.title),
    description: orNull(alert.description),
    action_type: orNull(alert.action_type),
    legal_thesis: orNull(alert.legal_thesis),
  }))
}
