import {
  CNPJ,
  DASH,
  MAX_CHARACTERS,
  PARTS,
  PLACES,
  PUNCTUATION,
  SEQUENCE,
  UNSEEN,
  YEAR,
} from '#schema/pncp_id.ts'
import {
  type Column,
  type ColumnType,
  listPublishedColumns,
  listStoredColumns,
  syncRuns,
  TABLES,
  type Table,
} from '#schema/tables.ts'
import { cleanIfOtherSql } from '#schema/text_key.ts'
import { mayBeCutSql } from './cut.ts'
import { identifier, literal } from './quoted.ts'
import { DEADLINES_FUNCTION } from './reader.ts'

/** A nested type for `read_json`: the fields of an object, or of an array's elements. */
type Shape = Map<string, string | Shape | { readonly each: Shape }>

/** Returns `CREATE TABLE` with the stored columns. */
export function createTable(table: Table): string[] {
  const columns = listStoredColumns(table).map(({ name, type }) => `${identifier(name)} ${type}`)
  return [`CREATE TABLE ${identifier(table.name)} (${columns.join(', ')})`]
}

/** Returns the type of one kind of document, so that `read_json` reads exactly the fields of all columns. */
export function documentType(document: 'notice' | 'analysis'): string {
  return structType(documentShape(document))
}

function documentShape(document: 'notice' | 'analysis'): Shape {
  const root: Shape = new Map()
  for (const table of TABLES.filter(table => table.document === document)) {
    for (const column of table.columns) {
      if (!('field' in column.from)) continue
      const shape = table.each ? elements(root, table.each) : root
      // Date-times are read as text, because DuckDB does not know the time zone of those without an offset.
      const type = column.from.json ? 'JSON' : column.type === 'TIMESTAMPTZ' ? 'VARCHAR' : column.type
      addField(shape, column.from.field.split('.'), type)
    }
  }
  return root
}

/** Returns the type of the report in a `run_finished` line. */
export function reportType(): string {
  return structType(
    new Map(listStoredColumns(syncRuns).map(({ name, type }) => [name, type] as [string, ColumnType])),
  )
}

/**
 * Returns `SELECT` of a table's stored columns that come from its documents in the staged lines.
 * @param lines a relation with `edital_id`, `run_id`, `at`, … and the document.
 * @param others further columns of it to select as they are.
 */
export function flatten(
  table: Table,
  lines: string,
  sourceTimezone: string,
  others: readonly string[] = [],
): string {
  const columns = listStoredColumns(table).filter(column => !('kept' in column.from))
  const list = columns.map(
    column => `${expression(column, table, sourceTimezone)} AS ${identifier(column.name)}`,
  )
  list.push(...others)
  if (!table.each) return `SELECT ${list.join(', ')} FROM ${withFreeForm(table, lines)}`
  const array = `analysis.${table.each}`
  return `SELECT ${list.join(', ')} FROM (
    SELECT *, generate_subscripts(${array}, 1) AS ordinal, unnest(${array}) AS element FROM ${lines})`
}

/** Returns SQL that is true for a line that might have a row of this table with texts that must be cut. */
export function longRow(table: Table): string {
  const texts = (document: string) =>
    mayBeCutSql(
      listStoredColumns(table).flatMap(({ type, from }) => {
        if (type !== 'VARCHAR' || !('field' in from)) return []
        const path = `${document}.${from.field.split('.').map(identifier).join('.')}`
        return [from.json ? `${path}::VARCHAR` : path]
      }),
    )
  if (!table.each) return `(${texts(table.document)})`
  return `(len(list_filter(${table.document}.${table.each}, lambda element: ${texts('element')})) > 0)`
}

/** Returns the names of the columns that `flatten` yields, in order. */
export function flattenedColumns(table: Table): string {
  return names(listStoredColumns(table).filter(column => !('kept' in column.from)))
}

/** Returns a query with these columns and no row. */
export function withoutRows(columns: readonly { readonly name: string; readonly type: string }[]): string {
  const nulls = columns.map(({ name, type }) => `NULL::${type} AS ${identifier(name)}`)
  return `SELECT ${nulls.join(', ')} WHERE false`
}

export function names(columns: readonly Column[]): string {
  return columns.map(({ name }) => identifier(name)).join(', ')
}

/**
 * Returns a fingerprint of a row's document fields, to compare two rows without holding both. How a time is written is
 * left out.
 */
export function fingerprint(table: Table, relation: string): string {
  const values = table.columns.flatMap(({ name, from }) => {
    const value = `${relation}.${identifier(name)}`
    if ('field' in from) return [value]
    return 'timesAsSent' in from ? [beyondInstants(table, value)] : []
  })
  return `hash(${values.join(', ')})`
}

/** Returns the published columns for an export; the company is a constant in its files. */
export function exportColumns(table: Table, company: string): string {
  return listPublishedColumns(table)
    .map(column =>
      'company' in column.from ? `${literal(company)} AS company` : `t.${identifier(column.name)}`,
    )
    .join(', ')
}

/** Returns an instant from canonical text (`schema/times.ts`); without an offset it is local time. */
export function instant(text: string, sourceTimezone: string): string {
  return `CASE WHEN regexp_matches(${text}, '(Z|[+-]\\d\\d:\\d\\d)$') THEN ${text}::TIMESTAMPTZ ELSE timezone(${literal(sourceTimezone)}, ${text}::TIMESTAMP) END`
}

/** Returns what all canonical texts of one time have in common, as `timeKey` of `schema/times.ts`. */
export function timeKeySql(text: string, sourceTimezone: string): string {
  return `epoch_us(${instant(text, sourceTimezone)})::VARCHAR || coalesce(' ' || ${beyondInstant(text)}, '')`
}

/** Returns `timeKeySql`, but the text itself if it has another form, as in earlier logs. */
export function loggedTimeKey(text: string, sourceTimezone: string): string {
  return `coalesce(TRY(${timeKeySql(text, sourceTimezone)}), ${text})`
}

/** Returns what a time is besides its instant in microseconds: a day alone, or one with more digits. NULL for most. */
function beyondInstant(text: string): string {
  return `CASE WHEN length(${text}) = ${'YYYY-MM-DD'.length} THEN 'day' WHEN length(${text}) > ${'YYYY-MM-DDTHH:MM:SS.ffffff'.length}
    THEN nullif(rtrim(regexp_extract(${text}, '\\.\\d{6}(\\d+)', 1), '0'), '') END`
}

/** Returns what the times of a row are besides their instants, from its `times_as_sent`. */
function beyondInstants(table: Table, timesAsSent: string): string {
  const times = table.columns.flatMap(({ type, from }) =>
    type === 'TIMESTAMPTZ' && 'field' in from
      ? [`${literal(`${from.field} `)} || ${beyondInstant(`(${timesAsSent} ->> ${literal(from.field)})`)}`]
      : [],
  )
  return `CASE WHEN ${timesAsSent} IS NOT NULL THEN nullif(concat_ws(',', ${times.join(', ')}), '') END`
}

function expression(column: Column, table: Table, sourceTimezone: string): string {
  const { from, type } = column
  const document = table.each ? 'element' : table.document
  if ('field' in from) {
    const path = `${document}.${from.field.split('.').map(identifier).join('.')}`
    if (from.json) return `${path}::VARCHAR`
    return type === 'TIMESTAMPTZ' ? instant(path, sourceTimezone) : path
  }
  if ('freeForm' in from) return freeForm(`${identifier(from.freeForm)}.${identifier(from.property)}`, type)
  if ('timesAsSent' in from) return timesAsSent(table)
  if ('deadlinesIn' in from) {
    const [text, law] = [from.deadlinesIn.text, from.deadlinesIn.law].map(
      part =>
        `coalesce(${freeForm(`${identifier(part.freeForm)}.${identifier(part.property)}`, 'VARCHAR')}, '')`,
    )
    return `${DEADLINES_FUNCTION}(${text}, ${law})`
  }
  if ('emptyOf' in from) return emptyParts(table, from.emptyOf)
  if ('pncpIdPart' in from) return pncpIdPart(`${document}.pncp_id`, from.pncpIdPart, type)
  if ('cleanOf' in from) return cleanIfOtherSql(`${document}.${identifier(from.cleanOf)}`)
  if ('ordinal' in from) return 'ordinal'
  if ('timeOf' in from) return timeKeySql(from.timeOf, sourceTimezone)
  if ('line' in from) return lineExpression(from.line, type, sourceTimezone)
  throw new Error(`column ${column.name} does not come from a document`)
}

/** Returns a part of an identifier at the portal, as `readPncpId` reads it. */
function pncpIdPart(text: string, part: 'cnpj' | 'year' | 'sequence', type: ColumnType): string {
  const visible = `regexp_replace(regexp_replace(${text}, ${literal(UNSEEN)}, '', 'g'), ${literal(DASH)}, '-', 'g')`
  const seen = `CASE WHEN length(${text}) <= ${MAX_CHARACTERS} THEN ${visible} END`
  const at = (places: readonly number[]) =>
    places.map(place => `regexp_extract(${seen}, ${literal(PARTS)}, ${place})`).join(' || ')
  const [cnpj, year, sequence] = [
    `nullif(regexp_extract(regexp_replace(${at(PLACES.cnpj)}, ${literal(PUNCTUATION)}, '', 'g'), ${literal(CNPJ)}), '')`,
    `nullif(regexp_extract(${at(PLACES.year)}, ${literal(YEAR)}), '')`,
    `nullif(regexp_extract(${at(PLACES.sequence)}, ${literal(SEQUENCE)}), '')`,
  ]
  if (part === 'cnpj') return `upper(${cnpj})`
  if (part === 'year') return `${year}::${type}`
  return `CASE WHEN coalesce(${cnpj}, ${year}) IS NOT NULL THEN TRY_CAST(${sequence} AS ${type}) END`
}

/**
 * Returns the times of a row that its instants do not show in full, as sent. Most times end with `Z` and have at most six
 * decimals, which is checked without a regular expression. With an offset, one of the first and the last year may be in a year of
 * UTC that has no four digits.
 */
function timesAsSent(table: Table): string {
  const members = table.columns.flatMap(({ type, from }) => {
    if (type !== 'TIMESTAMPTZ' || !('field' in from)) return []
    const text = `${table.document}.${identifier(from.field)}`
    return [
      `CASE WHEN right(${text}, 1) = 'Z' AND length(${text}) <= ${'YYYY-MM-DDTHH:MM:SS.ffffffZ'.length} THEN NULL
        WHEN regexp_matches(${text}, '^[^.]*(\\.\\d{1,6})?(Z|[+-]\\d\\d:\\d\\d)$') AND left(${text}, 4) NOT IN ('0001', '9999') THEN NULL
        ELSE '${JSON.stringify(from.field)}:' || to_json(${text}) END`,
    ]
  })
  return `'{' || nullif(concat_ws(',', ${members.join(', ')}), '') || '}'`
}

/**
 * Lists the parts that the document had as empty objects. DuckDB reads an object without any of the fields as a struct of NULLs,
 * and a null or missing one as NULL.
 */
function emptyParts(table: Table, parts: readonly string[]): string {
  const members = parts.map(part => {
    const fields = table.columns.flatMap(({ from }) =>
      'field' in from && from.field.startsWith(`${part}.`) ? [from.field] : [],
    )
    const values = fields.map(field => `${table.document}.${field.split('.').map(identifier).join('.')}`)
    return `CASE WHEN ${table.document}.${identifier(part)} IS NOT NULL AND coalesce(${values.map(value => `${value}::VARCHAR`).join(', ')}) IS NULL
      THEN '${JSON.stringify(part)}' END`
  })
  return `'[' || nullif(concat_ws(',', ${members.join(', ')}), '') || ']'`
}

function lineExpression(property: string, type: ColumnType, sourceTimezone: string): string {
  if (property === 'fetched_at') return 'coalesce(fetched_at, "at")'
  if (property === 'segment') return 'coalesce(fetched_in, segment)'
  if (property === 'updated_at' && type === 'TIMESTAMPTZ') return instant('source_updated_at', sourceTimezone)
  return identifier(property)
}

/**
 * Returns SQL that converts a value of any type.
 * @param value a JSON value. Only booleans become BOOLEAN; strings stay as they are, the rest becomes JSON text.
 */
function freeForm(value: string, type: ColumnType): string {
  if (type === 'BOOLEAN') return `CASE WHEN json_type(${value}) = 'BOOLEAN' THEN ${value}::BOOLEAN END`
  return `CASE json_type(${value}) WHEN 'NULL' THEN NULL WHEN 'VARCHAR' THEN ${value} ->> '$' ELSE ${value}::VARCHAR END`
}

/** Extracts the properties of a free-form object that have columns, in one pass over its text. */
function withFreeForm(table: Table, lines: string): string {
  const properties = Map.groupBy(
    table.columns.flatMap(({ from }) => ('freeForm' in from ? [from] : [])),
    from => from.freeForm,
  )
  const objects = [...properties].map(([object, list]) => {
    const structure = JSON.stringify(Object.fromEntries(list.map(({ property }) => [property, 'JSON'])))
    return `json_transform(${table.document}.${identifier(object)}, ${literal(structure)}) AS ${identifier(object)}`
  })
  return objects.length > 0 ? `(SELECT *, ${objects.join(', ')} FROM ${lines})` : lines
}

function elements(root: Shape, name: string): Shape {
  const existing = root.get(name)
  if (typeof existing === 'object' && 'each' in existing) return existing.each
  const each: Shape = new Map()
  root.set(name, { each })
  return each
}

function addField(shape: Shape, path: readonly string[], type: string): void {
  const [name, ...rest] = path as [string, ...string[]]
  if (rest.length === 0) {
    shape.set(name, type)
    return
  }
  const existing = shape.get(name)
  const child: Shape = existing instanceof Map ? existing : new Map()
  shape.set(name, child)
  addField(child, rest, type)
}

function structType(shape: Shape): string {
  const fields = [...shape].map(([name, type]) => {
    if (typeof type === 'string') return `${identifier(name)} ${type}`
    return `${identifier(name)} ${type instanceof Map ? structType(type) : `${structType(type.each)}[]`}`
  })
  return `STRUCT(${fields.join(', ')})`
}

/** Returns the month in UTC that names the file of a notice and of everything that belongs to it. */
export function month(createdAt: string): string {
  return `strftime(${createdAt}, '%Y-%m')`
}

/** Months whose first instant, and that of the next one, can be written with four digits for the year. */
const PLAIN_MONTH = /^(?!0000)\d{4}-\d\d$/
const LAST_PLAIN_MONTH = '9999-11'

/**
 * Returns SQL that is true in these months, as `month` names them. Instants are compared, because naming the month of each row
 * takes longer than reading the rows of one.
 */
export function isInMonths(createdAt: string, months: readonly string[]): string {
  const conditions = months.map(name => {
    if (!PLAIN_MONTH.test(name) || name > LAST_PLAIN_MONTH) return `${month(createdAt)} = ${literal(name)}`
    const next = Temporal.PlainYearMonth.from(name).add({ months: 1 }).toString()
    return `(${createdAt} >= ${firstInstant(name)} AND ${createdAt} < ${firstInstant(next)})`
  })
  return `(${conditions.join(' OR ')})`
}

function firstInstant(month: string): string {
  return `TIMESTAMPTZ ${literal(`${month}-01 00:00:00+00`)}`
}
