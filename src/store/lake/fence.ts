import { FatalError, messageOf } from '#src/platform/errors.ts'
import type { Answer, Database, StatementKind } from '#src/store/warehouse/database.ts'
import { literal } from '#src/store/warehouse/quoted.ts'

/**
 * The statements allowed behind the fence. Not `COPY`, because a file that may be read may also be overwritten, nor
 * statements that hide another one from this list (`PREPARE`, `EXECUTE`).
 */
const ADMITTED: readonly StatementKind[] = [
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
 * From now on, irreversibly, SQL can read only these files and the database itself, write only to its temporary
 * directory, and reach no network, extension or setting.
 */
export async function fence(db: Database, readable: readonly string[]): Promise<void> {
  await db.run(`SET allowed_paths = [${readable.map(literal).join(', ')}]`)
  await db.run('SET enable_external_access = false')
  await db.run(`SET allowed_configs = [${FREE_SETTINGS.map(literal).join(', ')}]`)
  await db.run('SET lock_configuration = true')
}

/**
 * The answer of a fenced database to any SQL.
 * @throws FatalError if the query fails or the fence forbids it.
 */
export async function askFenced(db: Database, sql: string): Promise<Answer> {
  const admit = (kind: StatementKind) => {
    if (!ADMITTED.includes(kind)) throw off(`A query may not be ${article(kind)} statement.`)
    if (kind === 'EXPLAIN' && EXPLAINED_WRITES.test(sql))
      throw off('EXPLAIN may not name COPY or EXPORT, because EXPLAIN ANALYZE would run them.')
  }
  return await db.ask(sql, admit).catch(error => {
    if (error instanceof FatalError) throw error
    const message = messageOf(error)
    throw IS_OFF.test(message) ? off(`The query failed: ${message}.`) : failed(error)
  })
}

/** The error shown to the user for a failed query. */
export function failed(error: unknown): FatalError {
  return new FatalError(`The query failed: ${messageOf(error)}`)
}

function off(what: string): FatalError {
  return new FatalError(
    `${what} Queries can read only the snapshot. For SQL that you trust, --allow-files permits other files, extensions and settings.`,
  )
}

function article(kind: string): string {
  return `${/^[AEIOU]/.test(kind) ? 'an' : 'a'} ${kind.replaceAll('_', ' ')}`
}
