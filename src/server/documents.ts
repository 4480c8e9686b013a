import { REPEATED_FIELDS } from '#schema/analysis.ts'
import {
  alerts,
  analyses,
  type Column,
  editais,
  items,
  requirements,
  type Table,
  wholeDocuments,
} from '#schema/tables.ts'
import { findPlausibleInstants } from '#schema/times.ts'
import { textBytes } from '#src/core/warehouse/cut.ts'
import { identifier, literal } from '#src/core/warehouse/quoted.ts'
import type { SearchRow } from './search/month_search.ts'

/** The Parquet files of one month, by table; null for a table without rows in that month. */
export type MonthFiles = Readonly<Record<DocumentTable, string | null>>

/** The tables that documents are built from. */
export const DOCUMENT_TABLES = [
  'editais',
  'analyses',
  'requirements',
  'items',
  'alerts',
  'whole_documents',
] as const
type DocumentTable = (typeof DOCUMENT_TABLES)[number]

/** One notice with its analysis, as the API sends them. */
export type DocumentRow = Omit<SearchRow, 'parts'> & {
  /** The texts of its items and requirements; null if the analysis is not current. */
  readonly parts: string | null
  readonly id: string
  readonly status: string
  /** `created_at`, microseconds. */
  readonly created: number
  /** JSON (docs/contract.md#notice). */
  readonly notice: string
  /** `analysis_state` of `editais`. */
  readonly state: string
  /** JSON (docs/contract.md#analysis); null unless current: an older one belongs to an earlier version of the notice. */
  readonly analysis: string | null
}

/** Some of a month's notices: a notice's id decides its batch, counted from 0. */
export type Batch = { readonly batch: number; readonly batches: number }

/** Parts of an analysis that may be present but empty. */
const EMPTY_PARTS = analyses.columns.flatMap(({ from }) => ('emptyOf' in from ? from.emptyOf : []))

/**
 * Returns SQL for the documents of a month's live notices, rebuilt from its rows. Large months are read in batches.
 *
 * NULL values are omitted. A time is the same instant in UTC, or the original text (`times_as_sent`).
 */
export function monthDocuments(
  files: MonthFiles,
  { batch, batches, timeZone }: Batch & { readonly timeZone: string },
): string {
  const some = (table: Table) =>
    `(FROM (${fileRows(table, files[table.name as DocumentTable] as string)})
      WHERE hash(edital_id) % ${batches} = ${batch})`
  const children = [requirements, items, alerts].filter(({ name }) => files[name as DocumentTable] !== null)
  const lists = children.map(
    table => `LEFT JOIN (
      SELECT edital_id, string_agg(${object(objectFields(table, 't'))}, ',' ORDER BY ordinal) AS list,
        ${SEARCHED_IN[table.name] === undefined ? 'NULL' : `left(string_agg(${SEARCHED_IN[table.name]}, ' ' ORDER BY ordinal), ${MAX_PARTS})`} AS words,
        ${URGENT[table.name] === undefined ? 'NULL' : `count(*) FILTER (${URGENT[table.name]})`} AS urgent
      FROM ${some(table)} t GROUP BY edital_id) ${table.name} ON ${table.name}.edital_id = e.edital_id`,
  )
  const hasAnalyses = files.analyses !== null
  const notice = [`'"id":' || to_json(e.edital_id)`, ...objectFields(editais, 'e')]
  return `
    SELECT e.edital_id AS id, e.status, epoch_us(e.created_at)::DOUBLE AS created,
      e.analysis_state AS state, ${object(notice)} AS notice,
      ${hasAnalyses ? `CASE WHEN e.analysis_state = 'current' THEN ${analysisObject(children)} END` : 'NULL'} AS analysis,
      ${searchColumns(hasAnalyses ? children : null, timeZone)}
    FROM ${some(editais)} e
    ${hasAnalyses ? `LEFT JOIN ${some(analyses)} a ON a.edital_id = e.edital_id` : ''}
    ${hasAnalyses ? lists.join('\n') : ''}
    WHERE e.deleted_at IS NULL`
}

/** Returns SQL for the bytes of all texts of a month: about what its documents have, whatever its files are compressed to. */
export function monthTextBytes(files: MonthFiles): string {
  const tables = [editais, analyses, requirements, items, alerts, wholeDocuments].flatMap(table => {
    const path = files[table.name as DocumentTable]
    return path === null ? [] : [`SELECT ${textBytes(table)} AS bytes FROM (${fileRows(table, path)})`]
  })
  return `SELECT coalesce(sum(bytes), 0)::DOUBLE AS bytes FROM (${tables.join(' UNION ALL ')})`
}

/** The texts of a notice's parts that it is found by. */
const SEARCHED_IN: Readonly<Record<string, string>> = { requirements: 'title', items: 'descricao' }
/** The parts that need attention: red requirements, and grave alerts that are no opportunities. */
const URGENT: Readonly<Record<string, string>> = {
  requirements: "status = 'red'",
  alerts: "severity IN ('critical', 'high') AND type IS DISTINCT FROM 'opportunity'",
}
/** Characters of these; what follows is not searched. */
const MAX_PARTS = 200_000

/**
 * Returns SQL for what a notice is searched by (`SearchRow`), besides its phase.
 * @param children the tables of its parts that have rows; null if there are no analyses.
 */
function searchColumns(children: readonly Table[] | null, timeZone: string): string {
  const { from, before } = findPlausibleInstants(timeZone)
  const isPlausible = `e.data_sessao >= TIMESTAMPTZ ${literal(from)} AND e.data_sessao < TIMESTAMPTZ ${literal(before)}`
  const verdict = children
    ? "CASE WHEN e.analysis_state = 'current' THEN a.verdict_recommendation END"
    : 'NULL'
  const words = (children ?? []).flatMap(({ name }) => (SEARCHED_IN[name] ? [`${name}.words`] : []))
  const parts =
    words.length > 0
      ? `CASE WHEN e.analysis_state = 'current' THEN concat_ws(' ', ${words.join(', ')}) END`
      : 'NULL'
  const urgent = (name: string) =>
    children?.some(table => table.name === name)
      ? `CASE WHEN e.analysis_state = 'current' THEN ${name}.urgent END::DOUBLE`
      : 'NULL'
  return `e.uf, e.modalidade, e.objeto, e.orgao, concat_ws(' ', e.numero, e.pncp_id, e.orgao_cnpj) AS identifiers, ${parts} AS parts,
      ${verdict} AS verdict, e.valor_estimado AS value,
      CASE WHEN ${isPlausible} THEN epoch_us(e.data_sessao) END::DOUBLE AS session, epoch_us(e.updated_at)::DOUBLE AS updated,
      ${urgent('requirements')} AS reds, ${urgent('alerts')} AS graves`
}

/** Returns the rows of a file; a column that an earlier version of this program did not write is NULL. */
function fileRows({ columns }: Table, path: string): string {
  const nulls = columns.map(({ name, type }) => `NULL::${type} AS ${identifier(name)}`)
  return `SELECT ${nulls.join(', ')} WHERE false UNION ALL BY NAME
      FROM read_parquet(${literal(path)}, hive_partitioning = false)`
}

function analysisObject(children: readonly Table[]): string {
  const array = (name: string) =>
    children.some(table => table.name === name)
      ? `'"${name}":[' || coalesce(${name}.list, '') || ']'`
      : `'"${name}":[]'`
  const repeated = editais.columns.filter(
    ({ from }) => 'field' in from && REPEATED_FIELDS.includes(from.field),
  )
  return object([
    `'"id":' || to_json(e.edital_id)`,
    ...repeated.map(column => field(column, 'e')),
    ...objectFields(analyses, 'a'),
    `'"verdict":' || ${object(objectFields(analyses, 'a', 'verdict'))}`,
    ...EMPTY_PARTS.map(name => group(name, objectFields(analyses, 'a', name))),
    ...['requirements', 'items', 'alerts'].map(array),
  ])
}

/** Returns SQL for an object of the fields that are not NULL; each field is SQL for `"name":value`. */
function object(fields: readonly string[]): string {
  return `'{' || concat_ws(',', ${fields.join(', ')}) || '}'`
}

/** Returns SQL for an object that is NULL if all its fields are, unless the document had it as an empty object. */
function group(name: string, fields: readonly string[]): string {
  const inner = `concat_ws(',', ${fields.join(', ')})`
  return `'"${name}":{' || CASE WHEN a.empty_parts IS NULL OR NOT contains(a.empty_parts, '"${name}"') THEN nullif(${inner}, '') ELSE '' END || '}'`
}

/** Returns the fields of a document, or of an object in it, that have columns of their own. */
function objectFields(table: Table, alias: string, within: string | null = null): string[] {
  return table.columns.flatMap(column => {
    if (!('field' in column.from)) return []
    const [name, inner] = column.from.field.split('.')
    const isIn = within === null ? inner === undefined : name === within && inner !== undefined
    return isIn ? [field(column, alias)] : []
  })
}

/** Returns SQL for `"name":value`; NULL if the column is. */
function field({ name, type, from }: Column, alias: string): string {
  if (!('field' in from)) throw new Error(`Column ${name} belongs to no document`)
  const value = `${alias}.${identifier(name)}`
  const property = from.field.split('.').at(-1) as string
  const written = from.json
    ? value
    : type === 'TIMESTAMPTZ'
      ? time(value, alias, property)
      : `to_json(${value})`
  return `'${JSON.stringify(property)}:' || ${written}`
}

/** Returns SQL for a time of a notice. Analyses have none: they repeat those of their notices. */
function time(value: string, alias: string, property: string): string {
  const fraction = `CASE WHEN epoch_us(${value}) % 1000000 = 0 THEN '' WHEN epoch_us(${value}) % 1000 = 0 THEN strftime(${value}, '.%g') ELSE strftime(${value}, '.%f') END`
  const inUtc = `strftime(${value}, '"%Y-%m-%dT%H:%M:%S') || ${fraction} || 'Z"'`
  const asSent = `(${alias}.times_as_sent::JSON -> ${literal(property)})::VARCHAR`
  return `CASE WHEN ${alias}.times_as_sent IS NULL THEN ${inUtc} ELSE coalesce(${asSent}, ${inUtc}) END`
}
