import type { Database, StatementKind, Stream, Texts } from '#src/core/warehouse/database.ts'
import { literal } from '#src/core/warehouse/quoted.ts'
import { FatalError, getMessage } from '#src/lib/errors.ts'

/** Characters that DuckDB takes for a space, besides ASCII's: before it reads tokens, and not always in the same way. */
const UNUSUAL_SPACES = String.raw`\xa0\u2000-\u200d\u202f\u205f\u2060\u3000\ufeff`
const LETTER = String.raw`[[A-Za-z_\x80-\u{10ffff}]--[${UNUSUAL_SPACES}]]`
/** Between two parts of one text: a line feed, and comments. */
const GAP = String.raw`[ \t\f\v]*(?:--[^\n\r]*)?[\n\r](?:[ \t\n\r\f\v]|--[^\n\r]*[\n\r])*`

/**
 * DuckDB's tokens that may hide what looks like another one; the last of each kind may have no end. Exact, because a query that
 * seems to have a call in a text must not call it.
 */
const TOKENS = new RegExp(
  [
    String.raw`(?<comment>--[^\n\r]*|/\*)`,
    String.raw`(?<text>[eE]'(?:[^'\\]|\\[\s\S]|''|'${GAP}')*(?:'|\\?$)|'(?:[^']|'')*(?:'|$)`,
    String.raw`\$(?<tag>(?:${LETTER}(?:${LETTER}|\d)*)?)\$[\s\S]*?(?:\$\k<tag>\$|$))`,
    '(?<quoted>"(?:[^"]|"")*(?:"|$))',
    // A name may have a dollar sign in it, and end with what begins a text.
    String.raw`(?<word>${LETTER}(?:${LETTER}|[\d$])*|\d+(?:_\d+)*)`,
  ].join('|'),
  'gv',
)

type Kind = 'comment' | 'text' | 'quoted' | 'code'

/**
 * Returns SQL with a space for each comment, and a question mark for each string; and for each quoted name, unless they
 * are kept.
 */
export function maskTexts(sql: string, { keepNames = false } = {}): string {
  return mapParts(sql, (part, kind) => {
    if (kind === 'comment') return ' '
    return kind === 'text' || (kind === 'quoted' && !keepNames) ? '?' : part
  })
}

/** Replaces unusual spaces by plain ones, except in comments, texts and quoted names. */
function withPlainSpaces(sql: string): string {
  const unusual = new RegExp(`[${UNUSUAL_SPACES}]`, 'gv')
  return mapParts(sql, (part, kind) => (kind === 'code' ? part.replace(unusual, ' ') : part))
}

function mapParts(sql: string, map: (part: string, kind: Kind) => string): string {
  const parts: string[] = []
  let at = 0
  TOKENS.lastIndex = 0
  for (let found = TOKENS.exec(sql); found; found = TOKENS.exec(sql)) {
    const { comment, text, quoted } = found.groups as Record<string, string | undefined>
    const end = comment === '/*' ? endOfComment(sql, TOKENS.lastIndex) : TOKENS.lastIndex
    TOKENS.lastIndex = end
    const kind = comment !== undefined ? 'comment' : text !== undefined ? 'text' : quoted ? 'quoted' : 'code'
    parts.push(map(sql.slice(at, found.index), 'code'), map(sql.slice(found.index, end), kind))
    at = end
  }
  return parts.join('') + map(sql.slice(at), 'code')
}

/** Comments may be nested. @param from behind the beginning of one. */
function endOfComment(sql: string, from: number): number {
  let depth = 1
  for (const { 0: mark, index } of sql.slice(from).matchAll(/\/\*|\*\//g)) {
    depth += mark === '/*' ? 1 : -1
    if (depth === 0) return from + index + mark.length
  }
  return sql.length
}

const words = (text: string): string[] => text.trim().split(/\s+/)

/** Functions that compute rows from values, and read nothing. In lower case, as all here. */
export const COMPUTING: ReadonlySet<string> = new Set(
  words('generate_series json_each json_tree range unnest'),
)

/**
 * The functions of DuckDB 1.5.5 that a query behind the fence may call in FROM, or as a PRAGMA: those that compute, describe
 * the database or read files, which the fence limits. Not those that run SQL in a text, log, profile, or change how DuckDB
 * works: some end the process. One of a later DuckDB is refused until it is listed here.
 */
const ADMITTED: ReadonlySet<string> = new Set([
  ...COMPUTING,
  ...words(`
  duckdb_columns duckdb_constraints duckdb_databases duckdb_dependencies duckdb_extensions duckdb_functions duckdb_indexes
  duckdb_keywords duckdb_memory duckdb_schemas duckdb_sequences duckdb_settings duckdb_tables duckdb_temporary_files
  duckdb_types duckdb_variables duckdb_views icu_calendar_names pg_timezone_names pragma_collations pragma_database_size
  pragma_platform pragma_show pragma_storage_info pragma_table_info pragma_user_agent pragma_version
  glob parquet_bloom_probe parquet_file_metadata parquet_full_metadata parquet_kv_metadata parquet_metadata parquet_scan
  parquet_schema read_blob read_csv read_csv_auto read_json read_json_auto read_json_objects read_json_objects_auto
  read_ndjson read_ndjson_auto read_ndjson_objects read_parquet read_text sniff_csv
  histogram histogram_values repeat repeat_row seq_scan summary
  collations database_list database_size extension_versions functions platform show show_databases show_tables
  show_tables_expanded storage_info table_info user_agent version
`),
])

/**
 * The statements allowed behind the fence. Not `COPY`, because a file that may be read may also be overwritten, nor
 * statements that hide another one from this list (`PREPARE`, `EXECUTE`).
 */
const ADMITTED_STATEMENTS: readonly StatementKind[] = [
  ...(['SELECT', 'EXPLAIN', 'PRAGMA', 'SET', 'VARIABLE_SET', 'TRANSACTION', 'ANALYZE'] as const),
  // Only for temporary objects, because a catalog is read-only.
  ...(['CREATE', 'DROP', 'ALTER', 'INSERT', 'UPDATE', 'DELETE', 'MERGE_INTO'] as const),
]
/** `EXPLAIN ANALYZE` runs the statement that it explains. A keyword cannot be spelled in another way. */
const EXPLAINED_WRITES = /\b(copy|export)\b/i
/** Session settings that affect no file and no limit. */
const FREE_SETTINGS = ['TimeZone']

const IS_OFF = /^Permission Error|configuration has been locked|disabled (by|through) configuration/

/**
 * Fences the database, irreversibly: from now on, SQL can read only these files and the database itself, write only to its
 * temporary directory, and reach no network, extension or setting.
 */
export async function fence(db: Database, readable: readonly string[]): Promise<void> {
  await db.run(`SET allowed_paths = [${readable.map(literal).join(', ')}]`)
  await db.run('SET enable_external_access = false')
  await db.run(`SET allowed_configs = [${FREE_SETTINGS.map(literal).join(', ')}]`)
  await db.run('SET lock_configuration = true')
}

/** SQL that is not ours, and the file that it is from, if any. */
export type ForeignSql = {
  readonly text: string
  readonly file: string | null
  /** For its parameters, such as `$uf`. */
  readonly values?: Texts
}

/**
 * Returns the answer of a fenced database to any SQL.
 * @throws FatalError if the query fails or the fence forbids it; the answer's rows throw it, too.
 */
export async function askFenced(db: Database, foreign: ForeignSql): Promise<Stream> {
  const sql = { ...foreign, text: withPlainSpaces(foreign.text) }
  const admit = (kind: StatementKind) => {
    if (!ADMITTED_STATEMENTS.includes(kind)) throw off(`A query may not be ${article(kind)} statement.`)
    if (kind === 'EXPLAIN' && EXPLAINED_WRITES.test(sql.text))
      throw off('EXPLAIN may not name COPY or EXPORT, because EXPLAIN ANALYZE would run them.')
  }
  const called = await calledOffLimits(db, sql.text)
  if (called !== null) throw off(`A query may not call ${called}.`)
  return await explaining(db.ask(sql.text, admit, sql.values), error => {
    const explained = failed(error, sql)
    return IS_OFF.test(getMessage(error)) ? off(`${explained.message}.`) : explained
  })
}

/** Names with a bracket behind them, and what follows PRAGMA. */
const CALLS = /\b(\w+)"?\s*\(|\bpragma\b\s*"?(\w+)/gi

/** Returns the first function that SQL calls in FROM or as a PRAGMA and that is not admitted, or null. */
async function calledOffLimits(db: Database, sql: string): Promise<string | null> {
  const calls = [...maskTexts(sql, { keepNames: true }).matchAll(CALLS)]
  const names = calls.map(([, called, pragma]) => String(called ?? pragma).toLowerCase())
  const candidates = names.filter(name => !ADMITTED.has(name))
  if (candidates.length === 0) return null
  const known = await db.rows<{ name: string }>(
    `SELECT DISTINCT lower(function_name) AS name FROM duckdb_functions()
    WHERE internal AND function_type IN ('table', 'pragma', 'table_macro')`,
  )
  const offLimits = new Set(known.map(({ name }) => name))
  return candidates.find(name => offLimits.has(name)) ?? null
}

/** Returns the answer of a database without a fence, to SQL that the user trusts. */
export async function askFreely(db: Database, sql: ForeignSql): Promise<Stream> {
  return await explaining(
    db.ask(sql.text, () => {}, sql.values),
    error => failed(error, sql),
  )
}

/** Returns the answer with its errors explained for the user. */
async function explaining(asked: Promise<Stream>, explain: (error: unknown) => FatalError): Promise<Stream> {
  const shown = (error: unknown) => (error instanceof FatalError ? error : explain(error))
  const { columns, rows } = await asked.catch(error => {
    throw shown(error)
  })
  return {
    columns,
    rows: async function* (form) {
      try {
        yield* rows(form)
      } catch (error) {
        throw shown(error)
      }
    },
  }
}

function failed(error: unknown, { file }: ForeignSql): FatalError {
  // After its first line, the message shows the line of the SQL, if the database knows it.
  const text = error instanceof Error ? error.message : ''
  const [, line] = /^LINE (\d+):/m.exec(text) ?? []
  const hint = findHint(error)
  const place = file === null ? '' : ` in ${file}${line === undefined ? '' : `, line ${line}`}`
  return new FatalError(`The query failed${place}: ${getMessage(error)}${hint ? ` ${hint}` : ''}`)
}

/** Returns what DuckDB suggests instead of a wrong name, beside the first line of its message; null if it does not. */
export function findHint(error: unknown): string | null {
  const text = error instanceof Error ? error.message : ''
  return /^(?:Candidate \w+:|Did you mean) .*$/m.exec(text)?.[0] ?? null
}

function off(what: string): FatalError {
  return new FatalError(
    `${what} Queries can read only the snapshot. For SQL that you trust, --allow-files permits other files, extensions and settings.`,
  )
}

function article(kind: string): string {
  return `${/^[AEIOU]/.test(kind) ? 'an' : 'a'} ${kind.replaceAll('_', ' ')}`
}
