import { CATALOG } from '#schema/marts/marts.ts'
import type { Database } from '#src/core/warehouse/database.ts'
import { FatalError } from '#src/lib/errors.ts'
import { COMPUTING } from '#src/present/sql/table_functions.ts'
import { FUNCTIONS } from './functions.ts'
import { MAX_SQL_LENGTH } from './limits.ts'

/*
 * The fence (`src/present/sql/fence.ts`) keeps SQL away from files. It does not hide what the database knows about itself:
 * settings, the paths of files, definitions of views. So the SQL of MCP is read as a syntax tree before it runs, and
 * may name only what is listed: relations of the catalog, and functions that compute.
 */

const RELATIONS = new Set(CATALOG.map(({ name }) => name))
/** The parts of a query. Everything else, such as statements that write, is refused. */
const NODES = ['SELECT_NODE', 'SET_OPERATION_NODE', 'RECURSIVE_CTE_NODE', 'CTE_NODE']
const TABLE_REFS = [
  'BASE_TABLE',
  'JOIN',
  'SUBQUERY',
  'TABLE_FUNCTION',
  'EXPRESSION_LIST',
  'EMPTY',
  'PIVOT',
  'SHOW_REF',
]
const SCHEMAS = ['', 'main']
/** Names of queries in WITH clauses: outside of their scope, FROM would take others for a file. */
const PLAIN_NAME = /^[\p{L}\p{N}_ -]+$/u

type Node = Readonly<Record<string, unknown>>
type Tree = {
  readonly error: boolean
  readonly error_message?: string
  readonly statements?: readonly { readonly node: Node }[]
}

/**
 * Lets only a single SELECT over the catalog's relations pass.
 * @param db behind the fence, because the SQL is parsed there.
 * @throws FatalError that names what is not allowed.
 */
export async function admitForeign(db: Database, sql: string): Promise<void> {
  if (sql.length > MAX_SQL_LENGTH)
    throw refused(`The SQL has ${sql.length} characters; at most ${MAX_SQL_LENGTH} are allowed.`)
  const { tree } = await db.row<{ tree: string }>('SELECT json_serialize_sql($sql::VARCHAR) AS tree', { sql })
  const { error, error_message: message = '', statements = [] } = parsed(tree)
  if (error && !message.startsWith('Only SELECT')) throw refused(`The SQL cannot be parsed: ${message}.`)
  if (error || statements.length !== 1)
    throw refused('The SQL must be one SELECT statement (also WITH, FROM, VALUES, DESCRIBE or SUMMARIZE).')
  const named = namesOfQueries(statements[0] as object)
  const known = await internalViews(db)
  const wrong = [...named].find(name => known.has(name) || !PLAIN_NAME.test(name))
  if (wrong !== undefined) throw refused(`A query of the WITH clause may not be called ${shown(wrong)}.`)
  for (const node of nodesOf(statements[0] as object)) check(node, named)
}

function parsed(tree: string): Tree {
  try {
    return JSON.parse(tree)
  } catch {
    // DuckDB writes such numbers as `Infinity`, which is no JSON.
    throw refused('A number in the SQL is too large for a DOUBLE.')
  }
}

/** Yields each object in the tree. Not recursive: the client decides how deep the tree is. */
function* nodesOf(root: object): Generator<Node> {
  const waiting: object[] = [root]
  for (let one = waiting.pop(); one; one = waiting.pop()) {
    if (!Array.isArray(one)) yield one as Node
    for (const child of Object.values(one))
      if (child !== null && typeof child === 'object') waiting.push(child)
  }
}

/** Returns the names that WITH clauses give to queries, in lower case. */
function namesOfQueries(root: object): Set<string> {
  const names = new Set<string>()
  for (const node of nodesOf(root)) {
    const { map } = (node.cte_map ?? {}) as { map?: readonly { key: string }[] }
    for (const { key } of map ?? []) names.add(key.toLowerCase())
  }
  return names
}

/**
 * Returns the names of DuckDB's own views. Otherwise a name that a WITH clause gives in one place would open the view of that
 * name in another.
 */
async function internalViews(db: Database): Promise<Set<string>> {
  const views = await db.rows<{ name: string }>(
    'SELECT lower(view_name) AS name FROM duckdb_views() WHERE internal',
  )
  return new Set(views.map(({ name }) => name))
}

/** Throws FatalError if this part of a query is not allowed. */
function check(node: Node, named: ReadonlySet<string>): void {
  const { type } = node
  if (typeof type !== 'string') return
  if (type.endsWith('_NODE') && !NODES.includes(type)) throw refused(`A query may not have a ${shown(type)}.`)
  // Only a part of FROM has both.
  if ('sample' in node && 'alias' in node && !TABLE_REFS.includes(type))
    throw refused(`FROM may not have a ${shown(type)}.`)
  if (type === 'BASE_TABLE') checkTable(node, named)
  if (type === 'SHOW_REF' && node.query === null)
    throw refused('SHOW is not available. DESCRIBE shows the columns of one table or mart.')
  if (type === 'TABLE_FUNCTION') checkTableFunction(node)
  else if (typeof node.function_name === 'string') checkFunction(node, node.function_name)
}

function checkTable(node: Node, named: ReadonlySet<string>): void {
  const name = String(node.table_name).toLowerCase()
  const isOurs = node.catalog_name === '' && SCHEMAS.includes(String(node.schema_name).toLowerCase())
  if (isOurs && (RELATIONS.has(name) || named.has(name))) return
  throw refused(`There is no table or mart ${shown(String(node.table_name))} here.`)
}

function checkTableFunction({ function: called }: Node): void {
  const { function_name: name } = (called ?? {}) as Node
  if (COMPUTING.has(String(name).toLowerCase())) return
  throw refused(`FROM may not call the function ${shown(String(name))}.`)
}

function checkFunction({ schema, catalog }: Node, name: string): void {
  const lower = name.toLowerCase()
  const isPlain = catalog === '' && SCHEMAS.includes(String(schema).toLowerCase())
  if (isPlain && (FUNCTIONS.has(lower) || COMPUTING.has(lower))) return
  throw refused(`The function ${shown(name)} is not available here.`)
}

function shown(name: string): string {
  return JSON.stringify(name.slice(0, 60))
}

function refused(what: string): FatalError {
  return new FatalError(`${what} Queries can only read the tables and marts of the snapshot.`)
}
