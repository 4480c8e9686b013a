import { goodRunSql } from '#schema/sync_runs.ts'
import {
  analyses,
  editais,
  editalVersions,
  listStoredColumns,
  syncRuns,
  TABLES,
  type Table,
  wholeDocuments,
} from '#schema/tables.ts'
import type { Database } from './database.ts'
import { identifier, literal } from './quoted.ts'
import { arrivalTable, isRowTable, moveRows, placeRows, ROW_TABLES } from './row_sql.ts'
import {
  fingerprint,
  flatten,
  flattenedColumns,
  instant,
  loggedTimeKey,
  month,
  names,
  timeKeySql,
} from './sql.ts'

/** The statements that turn the staged lines of each type, in the table `lines`, into rows; which of them run, and in which order. */

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
  const held = await readTypes(db)
  // Many segments hold only one or two types of lines, and a statement takes time even without matching lines. With no
  // lines at all every statement runs: this is how `apply.ts` detects a fault in a statement.
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
export function listStatements(sourceTimezone: string): readonly string[] {
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
async function readTypes(db: Database): Promise<ReadonlySet<string>> {
  const types = await db.rows<{ type: string }>(
    `SELECT type FROM (SELECT DISTINCT unnest([type, if(drift IS NULL, NULL, '${DRIFTED}'),
       if(type = 'run_started' AND lines.analysis_statuses IS DISTINCT FROM meta.analysis_statuses, '${NEW_STATUSES}', NULL),
       if(EXISTS (FROM whole_parts) OR EXISTS (FROM whole_documents), '${CUT}', NULL)]) AS type FROM lines CROSS JOIN meta)
     WHERE type IS NOT NULL`,
  )
  return new Set(types.map(({ type }) => type))
}

/** A quarantined record is retried after this long, doubling with each attempt up to a day. */
const FIRST_RETRY_MINUTES = 15
const LAST_RETRY_MINUTES = 24 * 60

const ANALYSIS_TABLES = TABLES.filter(table => table.document === 'analysis')
/** The tables with one file per month. All of them change if a notice's month changes. */
const MONTHLY_TABLES = TABLES.filter(table => table.files === 'by_month')

/** The rules that the rows depend on besides the log. */
type Rules = { readonly sourceTimezone: string }

/** Returns SQL that notes that published data changed in the newest segment of these rows. */
function newData(from: string): string {
  return `UPDATE meta SET data_version = greatest(data_version, (SELECT max(segment) ${from}))`
}

function runStarted(): string[] {
  return [
    `INSERT INTO sync_runs (run_id, mode, status, started_at, error)
     SELECT run_id, mode, 'interrupted', "at", 'The process ended before the run did. The next run goes on from there.'
     FROM lines WHERE type = 'run_started'`,
    `UPDATE meta SET analysis_statuses = l.analysis_statuses
     FROM (FROM lines WHERE type = 'run_started' ORDER BY segment DESC, seq DESC LIMIT 1) l`,
  ]
}

/** Losses appear in `sync_runs`: as the salvage, and as each run whose start was lost. */
function lost(): string[] {
  return [
    `INSERT INTO sync_runs (run_id, mode, status, started_at, finished_at, error)
     SELECT run_id, mode, CASE mode WHEN 'salvage' THEN 'partial' ELSE 'interrupted' END, "at",
       CASE mode WHEN 'salvage' THEN "at" END, reason
     FROM lines WHERE type = 'lost'`,
  ]
}

function notices({ sourceTimezone }: Rules): string[] {
  const columns = flattenedColumns(editais)
  const kept = listStoredColumns(editais).filter(column => 'kept' in column.from)
  const versions = listStoredColumns(editalVersions)
  return [
    `CREATE OR REPLACE TEMP TABLE noticed AS
     SELECT n.*, e.first_seen_at, e.created_at AS previous_created_at, e.deleted_at AS gone_since
     FROM (${flatten(editais, `(FROM lines WHERE type = 'notice')`, sourceTimezone, ['"at"', 'segment'])}) n
     LEFT JOIN editais e USING (edital_id)`,
    `DELETE FROM editais WHERE edital_id IN (SELECT edital_id FROM noticed WHERE first_seen_at IS NOT NULL)`,
    `INSERT INTO editais (${columns}, ${names(kept)})
     SELECT ${columns}, coalesce(first_seen_at, "at"), "at", NULL, 'pending', ${fingerprint(editais, 'noticed')}
     FROM noticed`,
    // The tombstone is cleared; the version with which the notice returned keeps it.
    `INSERT INTO edital_versions (${names(versions)})
     SELECT ${versions.map(({ name }) => (name === 'observed_at' ? '"at"' : identifier(name))).join(', ')} FROM noticed`,
    ...touch([editais, editalVersions], `SELECT ${month('created_at')}, segment FROM noticed`),
    ...touch(
      MONTHLY_TABLES,
      `SELECT unnest([${month('created_at')}, ${month('previous_created_at')}]), segment FROM noticed
       WHERE ${HAS_MOVED}`,
    ),
  ]
}

/** The notices whose rows are still in another month. A table, because the rows move away from what it is made of. */
const STRAYED = `CREATE OR REPLACE TEMP TABLE strayed AS
  SELECT edital_id, ${month('e.created_at')} AS month
  FROM editais e JOIN row_places p USING (edital_id) WHERE p.month <> ${month('e.created_at')}`

const HAS_MOVED = `${month('created_at')} <> ${month('previous_created_at')}`
const MOVED_NOTICES = `(SELECT edital_id, ${month('created_at')} AS month FROM noticed WHERE ${HAS_MOVED})`

/** Stores whole the documents of the staged lines whose rows have cut texts, and removes what these lines replace: rarely any. */
function wholes(): string[] {
  const replaced = `w.edital_id = l.edital_id AND w.document = l.type`
  return [
    ...touch(
      [wholeDocuments],
      `SELECT ${month('e.created_at')}, l.segment FROM editais e JOIN lines l USING (edital_id)
       WHERE (l.segment, l.seq) IN (SELECT (segment, seq) FROM whole_parts)
         OR EXISTS (SELECT 1 FROM whole_documents w WHERE ${replaced})`,
    ),
    `DELETE FROM whole_documents w WHERE EXISTS (SELECT 1 FROM lines l WHERE ${replaced})`,
    `INSERT INTO whole_documents (edital_id, document, ordinal, content)
     SELECT l.edital_id, l.type, p.ordinal, p.content FROM whole_parts p JOIN lines l USING (segment, seq)
     WHERE l.edital_id IN (SELECT edital_id FROM editais)`,
  ]
}

function gone(): string[] {
  return [
    `UPDATE editais SET deleted_at = l."at", run_id = l.run_id
     FROM lines l WHERE l.type = 'gone' AND l.edital_id = editais.edital_id`,
    ...touch([editais], typeMonths('gone')),
  ]
}

function analysesLoaded({ sourceTimezone }: Rules): string[] {
  return [
    ANALYSED,
    replaced('analyses'),
    withoutReplaced('analyses'),
    ...ANALYSIS_TABLES.filter(table => !isRowTable(table)).map(table =>
      insert(table, ANALYSED_LINES, sourceTimezone),
    ),
    ...touch(ANALYSIS_TABLES, 'SELECT month, segment FROM analysed'),
  ]
}

/** The analysed notices that are known: if a notice's own line was quarantined, the next run lists it as new. */
const ANALYSED = `CREATE OR REPLACE TEMP TABLE analysed AS
  SELECT l.segment, l.seq, edital_id, ${month('e.created_at')} AS month
  FROM lines l JOIN editais e USING (edital_id) WHERE l.type = 'analysis'`

/** Returns SQL that selects the analysed notices that a table has already. */
function replaced(table: string): string {
  return `CREATE OR REPLACE TEMP TABLE replaced AS
    SELECT edital_id FROM analysed WHERE edital_id IN (SELECT edital_id FROM ${table})`
}

/** Returns SQL that deletes replaced rows. Without its first condition, a first load would scan the table for each segment. */
function withoutReplaced(table: string): string {
  return `DELETE FROM ${table} WHERE (SELECT count(*) > 0 FROM replaced)
    AND edital_id IN (SELECT edital_id FROM replaced)`
}

const ANALYSED_LINES = '(SELECT l.*, a.month FROM lines l JOIN analysed a USING (segment, seq))'

function elementsLoaded({ sourceTimezone }: Rules): string[] {
  return [
    ...['row_places', ...ROW_TABLES.map(arrivalTable)].map(withoutReplaced),
    ...ROW_TABLES.map(table => insert(table, ANALYSED_LINES, sourceTimezone)),
    placeRows(),
  ]
}

/** Analyses that were fetched again and did not change. */
function analysesSame({ sourceTimezone }: Rules): string[] {
  return [
    `UPDATE analyses SET fetched_at = l."at", _source_updated_at = ${timeKeySql('l.source_updated_at', sourceTimezone)}, _segment = l.segment, run_id = l.run_id,
       source_updated_at = ${instant('l.source_updated_at', sourceTimezone)}
     FROM lines l WHERE l.type = 'analysis_same' AND l.edital_id = analyses.edital_id`,
    ...touch([analyses], typeMonths('analysis_same')),
  ]
}

function rejected({ sourceTimezone }: Rules): string[] {
  return [
    `CREATE OR REPLACE TEMP TABLE rejected AS
     SELECT l.*, q.edital_id IS NOT NULL OR q._hash IS NOT NULL AS known,
       1 + CASE WHEN q._updated_at IS NOT DISTINCT FROM l.updated_at THEN coalesce(q.attempts, 0) ELSE 0 END AS attempts
     FROM (SELECT edital_id, kind, reason, path, "at", ${loggedTimeKey('updated_at', sourceTimezone)} AS updated_at, hash, excerpt,
         segment, seq FROM lines WHERE type = 'rejected') l
     LEFT JOIN quarantine q ON ${sameRecord('q', 'l')}`,
    `DELETE FROM quarantine WHERE EXISTS (SELECT 1 FROM rejected l WHERE ${sameRecord('quarantine', 'l')})`,
    `INSERT INTO quarantine (edital_id, kind, reason, path, observed_at, attempts, next_attempt_at, body_excerpt,
       _updated_at, _hash, _segment, _seq)
     SELECT edital_id, kind, reason, path, "at", attempts,
       "at" + to_minutes(least(${LAST_RETRY_MINUTES}, ${FIRST_RETRY_MINUTES} * pow(2, least(attempts - 1, 20)))::BIGINT),
       excerpt, updated_at, hash, segment, seq
     FROM rejected`,
  ]
}

/**
 * Returns statements that resolve the quarantine entries of records that are usable now, or whose notice is verified to be
 * deleted.
 */
function resolved(): string[] {
  return [
    `UPDATE quarantine SET resolved_at = l."at" FROM lines l
     WHERE quarantine.resolved_at IS NULL
       AND (quarantine.edital_id = l.edital_id OR (quarantine.edital_id IS NULL AND quarantine._hash = l.hash))
       AND (l.type = 'gone' OR (l.type = 'notice' AND quarantine.kind = 'notice')
         OR (l.type IN ('analysis', 'analysis_same') AND quarantine.kind = 'analysis'))`,
  ]
}

/** Returns statements that publish an unchanged analysis again if it was quarantined in between. */
function resolvedBySame(): string[] {
  return [
    newData(`FROM quarantine q JOIN lines l ON l.edital_id = q.edital_id AND l."at" = q.resolved_at
       WHERE l.type = 'analysis_same' AND q.kind = 'analysis'`),
  ]
}

function drift(): string[] {
  return [
    `CREATE OR REPLACE TEMP TABLE drifted AS
     SELECT path, kind, arg_min(sample, {'at': "at", 'sample': sample}) AS sample, sum("count")::BIGINT AS "count",
       min("at") AS first_seen_at, max("at") AS last_seen_at
     FROM (
       SELECT d.path, d.kind, d.sample, d."count", "at"
       FROM (SELECT unnest(drift) AS d, "at" FROM lines WHERE drift IS NOT NULL)
       UNION ALL
       SELECT path, kind, sample, "count", first_seen_at FROM schema_drift
       WHERE EXISTS (SELECT 1 FROM lines WHERE drift IS NOT NULL)
     ) GROUP BY path, kind`,
    // Known drift keeps its first time. Its last time is updated only if this segment has it.
    `UPDATE drifted SET last_seen_at = greatest(drifted.last_seen_at, s.last_seen_at)
     FROM schema_drift s WHERE s.path = drifted.path AND s.kind = drifted.kind`,
    `DELETE FROM schema_drift WHERE EXISTS (SELECT 1 FROM drifted)`,
    `INSERT INTO schema_drift (path, kind, sample, "count", first_seen_at, last_seen_at)
     SELECT path, kind, sample, "count", first_seen_at, last_seen_at FROM drifted`,
  ]
}

/** Otherwise each segment of a large company would join all of its notices and analyses. */
const IN_LINES = 'e.edital_id IN (SELECT edital_id FROM lines)'

/**
 * Returns SQL that updates the states of analyses (invariant I3): one is current only if it was fetched for the stored
 * `updated_at` after that was listed.
 * @param which the notices whose state may be another one, as a condition on `editais e`.
 */
function analysisStates(which: string): string[] {
  return [
    `CREATE OR REPLACE TEMP TABLE restated AS
     SELECT edital_id, created_at, state, coalesce(l.segment, (SELECT max(segment) FROM lines)) AS segment FROM (
       SELECT e.edital_id, e.created_at, e.analysis_state,
         CASE
           WHEN a._source_updated_at = e._updated_at AND a._segment >= e._segment THEN 'current'
           WHEN q.edital_id IS NOT NULL THEN 'quarantined'
           WHEN len(m.analysis_statuses) > 0 AND NOT list_contains(m.analysis_statuses, e.status) THEN 'excluded'
           ELSE 'pending'
         END AS state
       FROM editais e CROSS JOIN meta m
       LEFT JOIN analyses a USING (edital_id)
       LEFT JOIN (SELECT edital_id, _updated_at FROM quarantine WHERE kind = 'analysis' AND resolved_at IS NULL) q
         ON q.edital_id = e.edital_id AND q._updated_at = e._updated_at
       WHERE ${which}
     ) LEFT JOIN (SELECT edital_id, max(segment) AS segment FROM lines GROUP BY edital_id) l USING (edital_id)
     WHERE state IS DISTINCT FROM analysis_state`,
    `UPDATE editais SET analysis_state = r.state FROM restated r WHERE r.edital_id = editais.edital_id`,
    ...touch([editais], `SELECT ${month('created_at')}, segment FROM restated`),
    newData('FROM restated'),
  ]
}

/** Returns SQL that stores the reports of runs: the last one of each. */
function runFinished(): string[] {
  const columns = listStoredColumns(syncRuns)
  return [
    `DELETE FROM sync_runs WHERE run_id IN (SELECT run_id FROM lines WHERE type = 'run_finished')`,
    `INSERT INTO sync_runs (${names(columns)})
     SELECT ${columns.map(({ name }) => `report.${identifier(name)}`).join(', ')} FROM (
       SELECT arg_max(report, {'segment': segment, 'seq': seq}) AS report FROM lines WHERE type = 'run_finished' GROUP BY run_id)`,
  ]
}

/** Returns SQL that makes analyses due again for `--full`, which ends once an unfiltered run has attempted everything due. */
function refetch(): string[] {
  return [
    `UPDATE meta SET refetch_segment = l.segment
     FROM (SELECT max(segment) AS segment FROM lines WHERE type = 'run_started' AND refetch_before IS NOT NULL) l
     WHERE l.segment IS NOT NULL`,
    `UPDATE meta SET refetch_open = l.is_open
     FROM (SELECT type = 'run_started' AS is_open FROM lines
       WHERE (type = 'run_started' AND refetch_before IS NOT NULL)
         OR (type = 'run_finished' AND report.failed = 0 AND ${goodRunSql('report.')})
       ORDER BY segment DESC, seq DESC LIMIT 1) l`,
  ]
}

/**
 * Returns SQL that inserts the rows of a table.
 * @param lines those with the table's documents; for a child table, with the `month` of the notice.
 */
function insert(table: Table, lines: string, sourceTimezone: string): string {
  const others = isRowTable(table) ? ['month'] : []
  return `INSERT INTO ${arrivalTable(table)} (${[flattenedColumns(table), ...others].join(', ')})
    ${flatten(table, lines, sourceTimezone, others)}`
}

/**
 * Records that these months of these tables changed, so their published files are stale.
 * @param months a query for each month and the segment that changed it.
 */
function touch(tables: readonly Table[], months: string): string[] {
  const list = tables.map(({ name }) => `(${literal(name)})`).join(', ')
  return [
    `INSERT INTO touched SELECT t.name, m.month, max(m.segment) FROM (VALUES ${list}) t(name) CROSS JOIN (${months}) m(month, segment) GROUP BY ALL`,
  ]
}

function typeMonths(type: string): string {
  return `SELECT ${month('e.created_at')}, l.segment FROM editais e JOIN lines l USING (edital_id) WHERE l.type = ${literal(type)}`
}

function sameRecord(q: string, l: string): string {
  return `${q}.resolved_at IS NULL AND ${q}.kind = ${l}.kind
    AND (${q}.edital_id = ${l}.edital_id OR (${q}.edital_id IS NULL AND ${l}.edital_id IS NULL AND ${q}._hash = ${l}.hash))`
}
