import { type Document, isObject, parsed, sameTokens } from './json.ts'
import { microsOf } from './moments.ts'

/** A value of a column: an array means any of its values, `json` means equivalent JSON text. */
export type Expected = string | number | boolean | null | readonly bigint[] | { readonly json: unknown }
export type ExpectedRow = Readonly<Record<string, Expected>>

/** The row of `editais` for a notice, without columns that depend on the run. */
export function editalRow(document: Document): ExpectedRow {
  const [, cnpj = null, year, sequence] =
    /^(\d{14})-(\d{4})-(\d+)$/.exec(String(document.pncp_id)) ?? ([] as string[])
  const inRange = sequence !== undefined && BigInt(sequence) < 2n ** 63n
  return {
    ...scalars(document, ['pncp_id', 'orgao', 'objeto', 'numero', 'modalidade', 'uf', 'valor_estimado']),
    ...scalars(document, ['pncp_url', 'status', 'participation_confirmed', 'discard_reason']),
    ...moments(document, ['data_sessao', 'committed_at', 'created_at', 'updated_at']),
    orgao_cnpj: cnpj,
    pncp_ano: year === undefined ? null : Number(year),
    pncp_sequencial: inRange ? Number(sequence) : null,
  }
}

/** The row of `analyses` for an analysis. */
export function analysisRow(document: Document): ExpectedRow {
  const part = (name: string) => (isObject(document[name]) ? (document[name] as Document) : {})
  const overview = part('overview')
  const flag = (name: string) => (typeof overview[name] === 'boolean' ? overview[name] : null)
  const worded = [
    ...['orgao_licitante', 'lei_aplicavel', 'valor_estimado', 'prazo_impugnacao', 'locais_entrega'],
    ...['restricoes_participacao', 'atestado_capacidade_exigido', 'visita_tecnica_obrigatoria'],
  ]
  return {
    ...scalars(document, ['analysis_level', 'analyzed']),
    ...prefixed('verdict_', scalars(part('verdict'), ['recommendation', 'reason', 'summary'])),
    verdict_bullets: json(part('verdict').bullets),
    ...Object.fromEntries(worded.map(name => [`overview_${name}`, asWorded(overview[name])])),
    overview_is_srp: flag('is_srp'),
    overview_exclusivo_me_epp: flag('exclusivo_me_epp'),
    overview: json(document.overview),
    ...prefixed(
      'pricing_',
      scalars(part('pricing'), [
        ...['investimento_total', 'garantia_proposta', 'garantia_contratual', 'margem_min', 'margem_max'],
        ...['risco_pagamento', 'is_srp', 'sigiloso'],
      ]),
    ),
    ...prefixed('orgao_report_', scalars(part('orgao_report'), ['payment_risk', 'status'])),
    operational: json(document.operational),
  }
}

const CHILDREN = {
  requirements: ['category', 'title', 'required', 'current', 'status', 'ai_notes'],
  items: [
    ...['numero_item', 'descricao', 'quantidade', 'unidade_medida', 'valor_unitario_estimado', 'valor_total'],
    ...['material_ou_servico', 'numero_lote', 'criterio_julgamento_nome'],
    ...['ai_selected', 'ai_reasoning', 'ai_confidence'],
  ],
  alerts: ['type', 'severity', 'title', 'description', 'action_type', 'legal_thesis'],
} as const

export type ChildTable = keyof typeof CHILDREN
export const CHILD_TABLES = Object.keys(CHILDREN) as readonly ChildTable[]

/** The rows of a child table for an analysis, in order. */
export function childRows(document: Document, table: ChildTable): ExpectedRow[] {
  return (document[table] as readonly Document[]).map((element, index) => ({
    ordinal: index + 1,
    ...scalars(element, CHILDREN[table]),
    ...(table === 'requirements' ? { metadata: json(element.metadata) } : {}),
  }))
}

function scalars(document: Document, names: readonly string[]): ExpectedRow {
  return Object.fromEntries(names.map(name => [name, plain(own(document, name))]))
}

function moments(document: Document, names: readonly string[]): ExpectedRow {
  return Object.fromEntries(
    names.map(name => {
      const written = own(document, name)
      return [name, typeof written === 'string' ? microsOf(written) : null]
    }),
  )
}

function own(document: Document, name: string): unknown {
  return Object.hasOwn(document, name) ? document[name] : undefined
}

function prefixed(prefix: string, row: ExpectedRow): ExpectedRow {
  return Object.fromEntries(Object.entries(row).map(([name, value]) => [prefix + name, value]))
}

/** SQL does not distinguish -0 in comparisons, and JSON.stringify writes it as 0. */
function plain(value: unknown): Expected {
  if (value === undefined || value === null) return null
  return value === 0 ? 0 : (value as Expected)
}

/** A number beyond a double's range becomes null in JSON. */
function json(value: unknown): Expected {
  const isNull = value === undefined || value === null || value === Infinity || value === -Infinity
  return isNull ? null : { json: value }
}

/** Free text: a string as it is, anything else as JSON text. */
function asWorded(value: unknown): Expected {
  return typeof value === 'string' ? value : json(value)
}

/** The first difference between a row and the expected row, as text; null if there is none. */
export function difference(expected: ExpectedRow, actual: Readonly<Record<string, unknown>>): string | null {
  for (const [name, value] of Object.entries(expected)) {
    if (!fits(value, actual[name])) {
      const shown = (each: unknown) =>
        JSON.stringify(each, (_key, part) => (typeof part === 'bigint' ? String(part) : part))?.slice(0, 500)
      return `${name} is ${shown(actual[name])}, not ${shown(value)}`
    }
  }
  return null
}

function fits(expected: Expected, actual: unknown): boolean {
  if (expected === null || typeof expected !== 'object') return expected === actual
  if (Array.isArray(expected)) {
    return (typeof actual === 'bigint' || typeof actual === 'number') && expected.includes(BigInt(actual))
  }
  if (typeof actual !== 'string') return false
  const value = (expected as { json: unknown }).json
  return (
    actual === JSON.stringify(value) ||
    sameTokens(actual, JSON.stringify(value)) ||
    sameDoubles(actual, value)
  )
}

/** DuckDB formats doubles differently when it extracts a value from a free-form object. */
function sameDoubles(actual: string, value: unknown): boolean {
  const read = parsed(actual)
  return read !== undefined && JSON.stringify(read) === JSON.stringify(value)
}
