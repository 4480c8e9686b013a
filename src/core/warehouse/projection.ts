import type { Database } from './database.ts'
import { literal } from './quoted.ts'
import { moveRows } from './row_sql.ts'
import {
  ANALYSED,
  analysesLoaded,
  analysesSame,
  analysisStates,
  drift,
  elementsLoaded,
  gone,
  IN_LINES,
  lost,
  MOVED_NOTICES,
  newData,
  notices,
  type Rules,
  refetch,
  rejected,
  replaced,
  resolved,
  resolvedBySame,
  runFinished,
  runStarted,
  STRAYED,
  wholes,
} from './statements.ts'

/** Which statements run for staged lines, and in which order. */

/** Lines of these types change published data, so they raise `data_version`. */
const DATA_TYPES = ['notice', 'analysis', 'gone', 'rejected'] as const
/** Lines of any type may report drift. */
const DRIFTED = 'drifted'
/** A run has other ANALYSIS_STATUSES than the one before. */
const NEW_STATUSES = 'new_statuses'
/** Documents in the lines, or those that they replace, are cut in the tables. */
const CUT = 'cut'

/** The input of the rows besides the log, and a directory for temporary files. */
export type Projection = Rules & { readonly temporaryDirectory: string }

/**
 * Runs every statement that the staged lines need, in order, in the caller's transaction. They may be of several segments,
 * each notice's of one.
 * @param elements whether the rows for elements of analyses follow as well.
 */
export async function projectLines(
  db: Database,
  projection: Projection,
  { elements }: { elements: boolean } = { elements: true },
): Promise<void> {
  const held = await typesOf(db)
  // Many segments hold only one or two types of lines, and a statement takes time even without matching lines. With no
  // lines at all every statement runs: this is how `poison.ts` detects a fault in a statement.
  const needed: Choose = (types, sql) => (held.size === 0 || types.some(type => held.has(type)) ? sql : [])
  for (const sql of rowStatements(projection, needed)) await db.run(sql)
  if (elements) for (const sql of elementStatements(projection, needed)) await db.run(sql)
  await db.run(MONTHS_TOUCHED)
}

/** Projects the rows for elements of the analyses in the staged lines, whose other rows are there. */
export async function projectElements(db: Database, projection: Projection): Promise<void> {
  for (const sql of [
    STRAYED,
    ...moveRows('strayed'),
    ANALYSED,
    replaced('row_places'),
    ...elementsLoaded(projection),
  ])
    await db.run(sql)
}

/** Returns all statements, whatever the lines. The same lines give other rows only if these change. */
export function allStatements(sourceTimezone: string): readonly string[] {
  return [
    ...rowStatements({ sourceTimezone }, (_, sql) => sql),
    ...elementStatements({ sourceTimezone }, (_, sql) => sql),
    MONTHS_TOUCHED,
    SEGMENT_APPLIED,
    UP_TO,
    LOG_NAMED,
  ]
}

/** Chooses statements by the types of lines that they are for. */
type Choose = (types: readonly string[], sql: readonly string[]) => readonly string[]

function rowStatements(rules: Rules, of: Choose): string[] {
  return [
    `CREATE OR REPLACE TEMP TABLE touched (table_name VARCHAR, month VARCHAR, segment BIGINT)`,
    ...of(['run_started'], runStarted()),
    ...of(['lost'], lost()),
    ...of(['notice'], notices(rules)),
    ...of(['gone'], gone()),
    ...of(['analysis'], analysesLoaded(rules)),
    ...of(['analysis_same'], analysesSame(rules)),
    ...of([CUT], wholes()),
    ...of(['rejected'], rejected(rules)),
    ...of(['notice', 'gone', 'analysis', 'analysis_same'], resolved()),
    ...of(['analysis_same'], resolvedBySame()),
    ...of([DRIFTED], drift()),
    ...of([NEW_STATUSES], analysisStates('TRUE')),
    ...of(['analysis_same', ...DATA_TYPES], analysisStates(IN_LINES)),
    ...of(['run_finished'], runFinished()),
    ...of(['run_started', 'run_finished'], refetch()),
    ...of(DATA_TYPES, [newData(`FROM lines WHERE type IN (${DATA_TYPES.map(literal).join(', ')})`)]),
  ]
}

/** Returns the rows for elements of analyses, after `rowStatements` with the same lines. */
function elementStatements(rules: Rules, of: Choose): string[] {
  return [...of(['notice'], moveRows(MOVED_NOTICES)), ...of(['analysis'], elementsLoaded(rules))]
}

const MONTHS_TOUCHED = `INSERT INTO month_versions
   SELECT table_name, month, max(segment) FROM touched WHERE month IS NOT NULL GROUP BY ALL
   ON CONFLICT DO UPDATE SET version = greatest(version, excluded.version)`

export const SEGMENT_APPLIED = 'INSERT INTO applied_segments VALUES ($segment, $lines)'

export const UP_TO = 'UPDATE meta SET applied_segment = $segment'

/** The first segment names the log. */
export const LOG_NAMED = `UPDATE meta SET log = (SELECT coalesce(first(log ORDER BY seq), first(run_id ORDER BY seq)) FROM lines)`

/** Returns the types of the staged lines, with `DRIFTED`, `NEW_STATUSES` and `CUT`. */
async function typesOf(db: Database): Promise<ReadonlySet<string>> {
  const types = await db.rows<{ type: string }>(
    `SELECT type FROM (SELECT DISTINCT unnest([type, if(drift IS NULL, NULL, '${DRIFTED}'),
       if(type = 'run_started' AND lines.analysis_statuses IS DISTINCT FROM meta.analysis_statuses, '${NEW_STATUSES}', NULL),
       if(EXISTS (FROM whole_parts) OR EXISTS (FROM whole_documents), '${CUT}', NULL)]) AS type FROM lines CROSS JOIN meta)
     WHERE type IS NOT NULL`,
  )
  return new Set(types.map(({ type }) => type))
}
