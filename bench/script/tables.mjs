/*
 * The tables of the script, for DuckDB: what each takes from a page of the list or from an analysis. The types
 * are those of docs/contract.md, written by hand as one does who has read it.
 */

const NOTICE = {
  id: 'VARCHAR',
  pncp_id: 'VARCHAR',
  orgao: 'VARCHAR',
  objeto: 'VARCHAR',
  numero: 'VARCHAR',
  modalidade: 'VARCHAR',
  uf: 'VARCHAR',
  valor_estimado: 'DOUBLE',
  data_sessao: 'TIMESTAMPTZ',
  pncp_url: 'VARCHAR',
  status: 'VARCHAR',
  participation_confirmed: 'BOOLEAN',
  discard_reason: 'VARCHAR',
  committed_at: 'TIMESTAMPTZ',
  created_at: 'TIMESTAMPTZ',
  updated_at: 'TIMESTAMPTZ',
}

/** The arrays of an analysis; each becomes a table. */
const CHILDREN = {
  requirements: {
    category: 'VARCHAR',
    title: 'VARCHAR',
    required: 'VARCHAR',
    current: 'VARCHAR',
    status: 'VARCHAR',
    ai_notes: 'VARCHAR',
    metadata: 'JSON',
  },
  items: {
    numero_item: 'BIGINT',
    descricao: 'VARCHAR',
    quantidade: 'DOUBLE',
    unidade_medida: 'VARCHAR',
    valor_unitario_estimado: 'DOUBLE',
    valor_total: 'DOUBLE',
    material_ou_servico: 'VARCHAR',
    numero_lote: 'BIGINT',
    criterio_julgamento_nome: 'VARCHAR',
    ai_selected: 'BOOLEAN',
    ai_reasoning: 'VARCHAR',
    ai_confidence: 'DOUBLE',
  },
  alerts: {
    type: 'VARCHAR',
    severity: 'VARCHAR',
    title: 'VARCHAR',
    description: 'VARCHAR',
    action_type: 'VARCHAR',
    legal_thesis: 'VARCHAR',
  },
}

const ANALYSIS = {
  id: 'VARCHAR',
  analysis_level: 'VARCHAR',
  analyzed: 'BOOLEAN',
  verdict: 'STRUCT(recommendation VARCHAR, reason VARCHAR, summary VARCHAR, bullets VARCHAR[])',
  overview: 'JSON',
  operational: 'JSON',
  pricing: `STRUCT(investimento_total DOUBLE, garantia_proposta DOUBLE, garantia_contratual DOUBLE,
    margem_min DOUBLE, margem_max DOUBLE, risco_pagamento VARCHAR, is_srp BOOLEAN, sigiloso BOOLEAN)`,
  orgao_report: 'STRUCT(payment_risk VARCHAR, status VARCHAR)',
}

const HEADER = `id AS edital_id, analysis_level, analyzed, verdict.recommendation AS verdict_recommendation,
  verdict.reason AS verdict_reason, verdict.summary AS verdict_summary, verdict.bullets AS verdict_bullets,
  overview, pricing.investimento_total AS pricing_investimento_total,
  pricing.garantia_proposta AS pricing_garantia_proposta,
  pricing.garantia_contratual AS pricing_garantia_contratual, pricing.margem_min AS pricing_margem_min,
  pricing.margem_max AS pricing_margem_max, pricing.risco_pagamento AS pricing_risco_pagamento,
  pricing.is_srp AS pricing_is_srp, pricing.sigiloso AS pricing_sigiloso,
  orgao_report.payment_risk AS orgao_report_payment_risk, orgao_report.status AS orgao_report_status,
  operational`

const columns = types =>
  Object.entries(types)
    .map(([name, type]) => `"${name}": '${type}'`)
    .join(', ')
const struct = types =>
  `STRUCT(${Object.entries(types)
    .map(([name, type]) => `"${name}" ${type}`)
    .join(', ')})`
const read = (file, types) =>
  `read_json('${file}', format = 'newline_delimited', columns = {${columns(types)}})`

/** Stages the analyses in a file as the table `documents`. */
export const stageAnalyses = file => {
  const arrays = Object.entries(CHILDREN).map(([name, types]) => [name, `${struct(types)}[]`])
  return `CREATE TEMP TABLE documents AS FROM ${read(file, { ...ANALYSIS, ...Object.fromEntries(arrays) })}`
}

/** The tables that analyses fill, with what each takes from `documents`. */
export const FROM_ANALYSES = {
  analyses: `SELECT ${HEADER} FROM documents`,
  ...Object.fromEntries(
    Object.keys(CHILDREN).map(name => [
      name,
      `SELECT id AS edital_id, generate_subscripts(${name}, 1) AS ordinal, unnest(${name}, max_depth := 2) FROM documents`,
    ]),
  ),
}

/** The rows of `editais` from a file with one page of the list a line. */
export const selectNotices = file =>
  `SELECT unnest(editais, max_depth := 2) FROM ${read(file, { editais: `${struct(NOTICE)}[]` })}`

export const TABLES = ['editais', ...Object.keys(FROM_ANALYSES)]

/** Writes one table to one Parquet file. */
export const copy = table => `COPY ${table} TO '${table}.parquet' (FORMAT parquet, COMPRESSION zstd)`
