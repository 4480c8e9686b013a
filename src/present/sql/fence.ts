import type { Database, StatementKind, Stream, Texts } from '#src/core/warehouse/database.ts'
import { literal } from '#src/core/warehouse/quoted.ts'
import { FatalError, messageOf } from '#src/lib/errors.ts'
import { withoutTexts, withPlainSpaces } from './sql_text.ts'
import { ADMITTED } from './table_functions.ts'

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
    return IS_OFF.test(messageOf(error)) ? off(`${explained.message}.`) : explained
  })
}

/** Names with a bracket behind them, and what follows PRAGMA. */
const CALLS = /\b(\w+)"?\s*\(|\bpragma\b\s*"?(\w+)/gi

/** Returns the first function that SQL calls in FROM or as a PRAGMA and that is not admitted, or null. */
async function calledOffLimits(db: Database, sql: string): Promise<string | null> {
  const calls = [...withoutTexts(sql, { keepNames: true }).matchAll(CALLS)]
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
  const hint = hintOf(error)
  const place = file === null ? '' : ` in ${file}${line === undefined ? '' : `, line ${line}`}`
  return new FatalError(`The query failed${place}: ${messageOf(error)}${hint ? ` ${hint}` : ''}`)
}

/** Returns what DuckDB suggests instead of a wrong name, beside the first line of its message; null if it does not. */
export function hintOf(error: unknown): string | null {
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
