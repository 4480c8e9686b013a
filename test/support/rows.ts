import { readDeadlinesAsJson } from '#src/deadlines/reading.ts'
import type { Entry } from '#src/sandbox/world.ts'
import { fieldsBelow, isMoment, LISTS, namesBelow, PARTS } from './contract_tables.ts'
import { seen } from './figures/spelling.ts'
import { identifierOf } from './oracle/identifier.ts'

/**
 * The expected published rows of a notice, directly from its documents and the contract's tables: an independent
 * mapping that shares nothing with `schema/`. Without the columns that depend on the run.
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
  const kept = namesBelow('Notice', isMoment).filter(name => {
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

function objectOf(value: unknown): Document {
  return (value ?? {}) as Document
}

function list(value: unknown): readonly Document[] {
  return value as readonly Document[]
}

/** A column's value for a field of the contract's type. */
function columnValue(type: string, value: unknown): unknown {
  if (type === 'string, date-time') return micros(value)
  if (type === 'integer') return integer(value)
  if (type === 'object (free-form)' || type === 'array of string') return jsonText(value)
  return orNull(value)
}

/** The columns for the fields of the contract's table below a heading. */
function columnsOf(document: Document, heading: string): Row {
  return Object.fromEntries(
    fieldsBelow(heading).map(({ name, type }) => [name, columnValue(type, document[name])]),
  )
}

/** The same for a part of the analysis, whose name begins the names of its columns. */
function partColumns(document: Document, part: keyof typeof PARTS): Row {
  const object = objectOf(document[part])
  return Object.fromEntries(
    fieldsBelow(PARTS[part]).map(({ name, type }) => {
      const isFreeText = part === 'overview' && type !== 'boolean'
      return [`${part}_${name}`, isFreeText ? freeText(object[name]) : columnValue(type, object[name])]
    }),
  )
}

export function editalRow({ edital }: Entry): Row {
  const { cnpj, year, sequence } = identifierOf(edital.pncp_id)
  const { id, ...columns } = columnsOf(edital, 'Notice')
  return {
    company: 'acme',
    edital_id: id,
    ...columns,
    orgao_cnpj: cnpj,
    pncp_ano: year,
    pncp_sequencial: sequence,
    deleted_at: null,
    analysis_state: 'current',
    times_as_sent: timesAsSent(edital),
  }
}

export function analysisRow({ edital, analysis }: Entry): Row {
  const document = objectOf(analysis)
  const overview = partColumns(document, 'overview')
  const [text, law] = [overview.overview_prazo_impugnacao, overview.overview_lei_aplicavel]
  return {
    company: 'acme',
    edital_id: edital.id,
    analysis_level: document.analysis_level,
    analyzed: document.analyzed,
    ...partColumns(document, 'verdict'),
    ...overview,
    overview: jsonText(document.overview),
    ...partColumns(document, 'pricing'),
    ...partColumns(document, 'orgao_report'),
    operational: jsonText(document.operational),
    empty_parts: emptyParts(document),
    // What the texts mean is judged by the corpus of wordings; here, that they are those of this notice.
    prazos_lidos: readDeadlinesAsJson(String(text ?? ''), String(law ?? '')),
    source_updated_at: micros(edital.updated_at),
  }
}

/** As readers see it, if that is another text. */
function cleaned(text: unknown): string | null {
  if (typeof text !== 'string') return null
  const shown = seen(text) ?? ''
  return shown === text ? null : shown
}

function rowsOf({ edital, analysis }: Entry, name: keyof typeof LISTS): Row[] {
  return list(analysis?.[name]).map((element, index) => ({
    company: 'acme',
    edital_id: edital.id,
    ordinal: index + 1,
    ...columnsOf(element, LISTS[name]),
  }))
}

export const requirementRows = (entry: Entry) => rowsOf(entry, 'requirements')
export const itemRows = (entry: Entry) =>
  rowsOf(entry, 'items').map(row => ({ ...row, descricao_limpa: cleaned(row.descricao) }))
export const alertRows = (entry: Entry) => rowsOf(entry, 'alerts')
