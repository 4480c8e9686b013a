import {
  BRL,
  boolean,
  type Column,
  company,
  editalId,
  integer,
  internal,
  json,
  kept,
  keptCount,
  number,
  observedAt,
  ordinal,
  overview,
  runId,
  type Table,
  text,
  time,
} from './columns.ts'
import { syncRuns } from './sync_runs.ts'

/**
 * Every published table as data. The warehouse's DDL, the typed reading of the raw log, the flattening,
 * the change detection, the Parquet export, the catalog's comments and the data dictionary all derive
 * from this file and the parts that it imports; each column is defined once.
 */

export type { Column, ColumnType, Source, Table } from './columns.ts'
export { syncRuns }

/** docs/contract.md#notice. */
const noticeColumns: readonly Column[] = [
  text('pncp_id', 'Identifier at the national procurement portal, <cnpj>-<year>-<sequence>'),
  {
    name: 'orgao_cnpj',
    type: 'VARCHAR',
    from: { pncpIdPart: 1 },
    description: "Buying body's CNPJ, 14 digits, from pncp_id",
  },
  { name: 'pncp_ano', type: 'INTEGER', from: { pncpIdPart: 2 }, description: 'Year in pncp_id' },
  { name: 'pncp_sequencial', type: 'BIGINT', from: { pncpIdPart: 3 }, description: 'Sequence in pncp_id' },
  text('orgao', 'Buying body'),
  text('objeto', 'Object of the contracting'),
  text('numero', 'Notice or process number'),
  text('modalidade', 'Procurement modality'),
  text('uf', 'State (UF) of the buying body'),
  number('valor_estimado', 'Estimated value as published; 0 can mean that it is secret', BRL),
  time('data_sessao', 'Date of the public session'),
  text('pncp_url', 'Link to the notice at the originating portal'),
  text('status', "Company's phase for the notice: screening, analysis, pricing, ready, discarded, expired"),
  boolean('participation_confirmed', 'Whether the company confirmed participation'),
  text('discard_reason', 'Reason for discard, when status is discarded'),
  time('committed_at', 'When participation was confirmed'),
  time('created_at', 'When the company began to follow the notice'),
  time('updated_at', "The API's last update of the notice"),
]

const rawUpdatedAt = internal(
  '_updated_at',
  'VARCHAR',
  { line: 'updated_at' },
  "The notice's updated_at exactly as the API wrote it",
)

/** docs/contract.md#analysis, the parts that occur once per analysis. */
const verdictColumns: readonly Column[] = [
  text('analysis_level', 'Depth of the analysis: none, simple, medium, deep'),
  boolean('analyzed', 'False when the level is none'),
  text('verdict_recommendation', 'participar, cautela or nao_recomendado', 'verdict.recommendation'),
  text('verdict_reason', 'Reason for the verdict', 'verdict.reason'),
  text('verdict_summary', 'Summary of the verdict', 'verdict.summary'),
  json('verdict_bullets', 'Points of the verdict', 'verdict.bullets'),
]
const overviewColumns: readonly Column[] = [
  overview('orgao_licitante', 'Buying body as the notice names it'),
  overview('lei_aplicavel', 'Applicable law'),
  overview('valor_estimado', 'Estimated value as the notice words it'),
  overview('is_srp', 'Whether it is a price registration (SRP)', 'BOOLEAN'),
  overview('exclusivo_me_epp', 'Whether it is reserved for small companies (ME/EPP)', 'BOOLEAN'),
  overview('prazo_impugnacao', 'Deadline to challenge the notice, as worded'),
  overview('locais_entrega', 'Places of delivery'),
  overview('restricoes_participacao', 'Restrictions on participation'),
  overview('atestado_capacidade_exigido', 'Technical capacity certificate demanded'),
  overview('visita_tecnica_obrigatoria', 'Whether a technical visit is mandatory'),
  json('overview', 'The whole overview'),
]
const pricingColumns: readonly Column[] = [
  number('pricing_investimento_total', 'Total investment', BRL, 'pricing.investimento_total'),
  number('pricing_garantia_proposta', 'Proposal guarantee', BRL, 'pricing.garantia_proposta'),
  number('pricing_garantia_contratual', 'Contract guarantee', BRL, 'pricing.garantia_contratual'),
  number('pricing_margem_min', 'Lowest margin', undefined, 'pricing.margem_min'),
  number('pricing_margem_max', 'Highest margin', undefined, 'pricing.margem_max'),
  text(
    'pricing_risco_pagamento',
    'Payment risk: empty, baixo, medio, alto, critico, desconhecido',
    'pricing.risco_pagamento',
  ),
  boolean('pricing_is_srp', 'Whether it is a price registration (SRP)', 'pricing.is_srp'),
  boolean('pricing_sigiloso', 'Whether the budget is secret', 'pricing.sigiloso'),
]

export const editais: Table = {
  name: 'editais',
  description: 'Notices that the company follows, one row each, with their current list fields',
  document: 'notice',
  rows: 'current',
  files: 'by_month',
  columns: [
    company,
    editalId,
    ...noticeColumns,
    kept('first_seen_at', 'TIMESTAMPTZ', 'When this warehouse first saw the notice'),
    kept('changed_at', 'TIMESTAMPTZ', 'When this warehouse last saw the notice change'),
    kept(
      'deleted_at',
      'TIMESTAMPTZ',
      'When the notice was verified to be gone from the API; NULL while it is live',
    ),
    kept(
      'analysis_state',
      'VARCHAR',
      'current: the stored analysis is the one for updated_at; pending: not fetched yet; quarantined: it was not usable; excluded: analyses of this status are not fetched',
    ),
    {
      name: 'times_as_sent',
      type: 'VARCHAR',
      from: { timesAsSent: true },
      description:
        'Times that the API sent without an offset, without a time of day or with more than six decimals, as sent, by field (JSON text); NULL if none',
    },
    runId,
    rawUpdatedAt,
    internal('_segment', 'BIGINT', { line: 'segment' }, 'Segment of the raw log that last brought it'),
    internal('_list_fields', 'UBIGINT', { kept: true }, 'Fingerprint of all list fields'),
  ],
}

export const analyses: Table = {
  name: 'analyses',
  description: 'Structured analysis of a notice, one row per analysed notice',
  document: 'analysis',
  rows: 'current',
  files: 'by_month',
  columns: [
    company,
    editalId,
    ...verdictColumns,
    ...overviewColumns,
    ...pricingColumns,
    text('orgao_report_payment_risk', "Buying body's payment risk", 'orgao_report.payment_risk'),
    text('orgao_report_status', "State of the buying body's report", 'orgao_report.status'),
    json('operational', 'Delivery and execution logistics'),
    {
      name: 'empty_parts',
      type: 'VARCHAR',
      from: { emptyOf: ['pricing', 'orgao_report'] },
      description:
        'Parts that are present but empty in the analysis: pricing, orgao_report (JSON text); NULL if none',
    },
    {
      name: 'source_updated_at',
      type: 'TIMESTAMPTZ',
      from: { line: 'updated_at' },
      description: "The notice's updated_at for which this analysis was fetched",
    },
    {
      name: 'fetched_at',
      type: 'TIMESTAMPTZ',
      from: { line: 'fetched_at' },
      description: 'When this analysis was last fetched',
    },
    runId,
    internal(
      '_source_updated_at',
      'VARCHAR',
      { line: 'updated_at' },
      'source_updated_at as the API wrote it',
    ),
    internal('_hash', 'VARCHAR', { line: 'hash' }, 'SHA-256 of the normalised document'),
    internal('_segment', 'BIGINT', { line: 'segment' }, 'Segment of the raw log in which it was received'),
  ],
}

export const requirements: Table = {
  name: 'requirements',
  description: 'Habilitation requirements demanded by the notice',
  document: 'analysis',
  each: 'requirements',
  rows: 'current',
  files: 'by_month',
  // Queries for what is still pending read half of it at once, and nearly all of it is text.
  compression: 'lz4_raw',
  columns: [
    company,
    editalId,
    ordinal,
    text('category', 'Kind of requirement'),
    text('title', 'Title'),
    text('required', 'What the notice demands'),
    text('current', "Company's current state, when evaluated"),
    text('status', 'red, yellow or green'),
    text('ai_notes', 'Notes of the evaluation'),
    json('metadata', 'Semi-structured detail'),
  ],
}

export const items: Table = {
  name: 'items',
  description: 'Items and lots of the notice',
  document: 'analysis',
  each: 'items',
  rows: 'current',
  files: 'by_month',
  columns: [
    company,
    editalId,
    ordinal,
    integer('numero_item', 'Item number'),
    text('descricao', 'Description'),
    number('quantidade', 'Quantity', 'unidade_medida'),
    text('unidade_medida', 'Unit of measure'),
    number('valor_unitario_estimado', 'Estimated unit value', BRL),
    number('valor_total', 'Total value', BRL),
    text('material_ou_servico', 'M material, S service'),
    integer('numero_lote', 'Lot number'),
    text('criterio_julgamento_nome', 'Judging criterion'),
    boolean('ai_selected', 'Whether the evaluation selected the item for the company'),
    text('ai_reasoning', 'Reason for the selection'),
    number('ai_confidence', 'Confidence of the selection'),
  ],
}

export const alerts: Table = {
  name: 'alerts',
  description: 'Legal-risk alerts and opportunities of the notice',
  document: 'analysis',
  each: 'alerts',
  rows: 'current',
  files: 'by_month',
  columns: [
    company,
    editalId,
    ordinal,
    text('type', 'risk, opportunity or info'),
    text('severity', 'critical, high, medium or low'),
    text('title', 'Title'),
    text('description', 'Description'),
    text('action_type', 'impugnacao, esclarecimento, recurso, contrarrazao or none'),
    text('legal_thesis', 'Legal thesis'),
  ],
}

export const editalVersions: Table = {
  name: 'edital_versions',
  description: "Every observed version of a notice's list fields",
  document: 'notice',
  rows: 'history',
  files: 'by_month',
  columns: [company, editalId, observedAt, ...noticeColumns, runId],
}

export const analysisVersions: Table = {
  name: 'analysis_versions',
  description: 'Level, verdict and pricing of every distinct analysis observed',
  document: 'analysis',
  rows: 'history',
  files: 'by_month',
  columns: [company, editalId, observedAt, ...verdictColumns, ...pricingColumns, runId],
}

export const quarantine: Table = {
  name: 'quarantine',
  description: 'Records that could not be used, set aside with the reason until they can',
  document: 'kept',
  rows: 'history',
  files: 'one',
  columns: [
    company,
    kept('edital_id', 'VARCHAR', 'Notice; NULL if the record has no usable id'),
    kept('kind', 'VARCHAR', 'notice or analysis'),
    kept('reason', 'VARCHAR', 'Why it could not be used'),
    kept('path', 'VARCHAR', 'Where in the document'),
    kept('observed_at', 'TIMESTAMPTZ', 'When it was last received'),
    keptCount('attempts', 'How many times an unusable record was received'),
    kept('next_attempt_at', 'TIMESTAMPTZ', 'When it is fetched again'),
    kept(
      'resolved_at',
      'TIMESTAMPTZ',
      'When a usable record arrived, or the notice was gone; NULL while open',
    ),
    kept('body_excerpt', 'VARCHAR', 'First 2 kB of what was received'),
    internal('_updated_at', 'VARCHAR', { kept: true }, "The notice's updated_at, as the API wrote it"),
    internal('_hash', 'VARCHAR', { kept: true }, 'SHA-256 of the bytes received'),
    internal('_segment', 'BIGINT', { kept: true }, 'Segment of the raw log that holds the bytes'),
    internal('_seq', 'BIGINT', { kept: true }, 'Line of that segment'),
  ],
}

export const schemaDrift: Table = {
  name: 'schema_drift',
  description: 'Where documents differ from the documented contract',
  document: 'kept',
  rows: 'current',
  files: 'one',
  columns: [
    company,
    kept('path', 'VARCHAR', 'Field, for example analysis.items[].quantidade'),
    kept('kind', 'VARCHAR', 'unknown_field, unknown_enum or wrong_type'),
    kept('sample', 'VARCHAR', 'A value seen there'),
    keptCount('count', 'How many times it was seen'),
    kept('first_seen_at', 'TIMESTAMPTZ', 'First seen'),
    kept('last_seen_at', 'TIMESTAMPTZ', 'Last seen'),
  ],
}

export const TABLES: readonly Table[] = [
  editais,
  analyses,
  requirements,
  items,
  alerts,
  editalVersions,
  analysisVersions,
  syncRuns,
  quarantine,
  schemaDrift,
]

/** Columns of the published table, in order. */
export function publishedColumns(table: Table): readonly Column[] {
  return table.columns.filter(column => !column.internal)
}

/** Columns of the warehouse's table: all except the company, which is added when a snapshot is written. */
export function storedColumns(table: Table): readonly Column[] {
  return table.columns.filter(column => !('company' in column.from))
}
