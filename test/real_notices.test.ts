import { existsSync } from 'node:fs'
import { readdir, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet'
import { compressors } from 'hyparquet-compressors'
import { expect, test } from 'vitest'
import { readNoticesFile } from '#src/sandbox/notices_file.ts'
import type { Entry } from '#src/sandbox/world.ts'
import { companyDirectory } from './support/project.ts'
import { startCompany } from './support/synced.ts'

/** Real tenders; the project does not ship them. */
const NOTICES_FILE = join(import.meta.dirname, '../../shared/pncp/world.ndjson.gz')

type Document = Readonly<Record<string, unknown>>
type Row = Record<string, unknown>

/** Microseconds since 1970; a date-time without an offset is Brasília time. */
function micros(text: unknown): bigint | null {
  if (text === undefined || text === null) return null
  const instant = /(Z|[+-]\d\d:\d\d)$/.test(String(text))
    ? Temporal.Instant.from(String(text))
    : Temporal.PlainDateTime.from(String(text)).toZonedDateTime('America/Sao_Paulo').toInstant()
  return instant.epochNanoseconds / 1000n
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

function editalRow({ edital }: Entry): Row {
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
  }
}

function analysisRow({ edital, analysis }: Entry): Row {
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
    source_updated_at: micros(edital.updated_at),
  }
}

function requirementRows({ edital, analysis }: Entry): Row[] {
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

function itemRows({ edital, analysis }: Entry): Row[] {
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

function alertRows({ edital, analysis }: Entry): Row[] {
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

/** All rows of a table, by notice and position; without the columns that depend on the run. */
async function published(directory: string, table: string): Promise<Row[]> {
  const rows: Row[] = []
  for (const name of await readdir(join(directory, table))) {
    const file = await asyncBufferFromFile(join(directory, table, name))
    const parsers = { timestampFromMicroseconds: (value: bigint) => value }
    for (const row of await parquetReadObjects({ file, compressors, parsers })) {
      const { run_id, first_seen_at, changed_at, fetched_at, ...lasting } = row
      expect([run_id, first_seen_at, changed_at, fetched_at]).not.toContain(null)
      rows.push(lasting)
    }
  }
  return inOrder(rows)
}

function inOrder(rows: Row[]): Row[] {
  const key = ({ edital_id, ordinal }: Row) => `${edital_id} ${String(ordinal).padStart(6, '0')}`
  return rows.sort((a, b) => (key(a) < key(b) ? -1 : 1))
}

test('every published value of 1,710 real notices is the one in the document it came from', async ({
  skip,
}) => {
  skip(!existsSync(NOTICES_FILE), `The file of real notices is not here: ${NOTICES_FILE}.`)
  const entries = await readNoticesFile(NOTICES_FILE)
  const company = await startCompany(entries)
  expect(await company.sync()).toMatchObject({ listed: 1710, added: 1710, loaded: 1710, quarantined: 0 })
  const latest = await realpath(join(companyDirectory(company.environment), 'lake/latest'))
  const expected: Record<string, { count: number; rows: Row[] }> = {
    editais: { count: 1710, rows: entries.map(editalRow) },
    analyses: { count: 1710, rows: entries.map(analysisRow) },
    requirements: { count: 7719, rows: entries.flatMap(requirementRows) },
    items: { count: 9618, rows: entries.flatMap(itemRows) },
    alerts: { count: 1670, rows: entries.flatMap(alertRows) },
  }
  for (const [table, { count, rows }] of Object.entries(expected)) {
    const actual = await published(latest, table)
    expect(actual, table).toHaveLength(count)
    expect(actual, table).toStrictEqual(inOrder(rows))
  }
})
