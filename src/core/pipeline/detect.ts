import { createReadStream } from 'node:fs'
import { join } from 'node:path'
import { OPEN_STATUSES } from '#schema/notice.ts'
import type { Database } from '#src/core/warehouse/database.ts'
import { literal } from '#src/core/warehouse/quoted.ts'
import { month } from '#src/core/warehouse/sql.ts'
import { streamLines } from '#src/lib/lines.ts'
import { type ListedRecord, readReceived } from './listed.ts'

/**
 * Analyses are fetched month by month, so that the rows of a month arrive together and are written once. Newer months
 * come first, but in this many strides that differ in each run, and so does the order within a month: a few notices that
 * always fail must not be adjacent and open the circuit before the rest are fetched.
 */
const STRIDES = 8

export type DetectOptions = {
  readonly db: Database
  readonly now: Date
  readonly analysisStatuses: readonly string[]
  /** Analyses received up to this segment of the raw log are due again (`--full`). */
  readonly refetchSegment: number | null
  readonly analysisMaxAge: { readonly openMs: number | null; readonly closedMs: number | null }
  /** Fetch every analysis, even if it is current or its next attempt is not due. */
  readonly force: boolean
  readonly temporaryDirectory: string
}

/** The plan of a run; the counts are of listed notices. */
export type Plan = {
  readonly listed: number
  readonly added: number
  readonly changed: number
  readonly revived: number
  readonly unchanged: number
  readonly deferred: number
  readonly rejected: number
  readonly toFetch: number
  /** The records to log: lines of the list's file, from 1, ascending. */
  readonly records: readonly number[]
  /** A file with the analyses to fetch, one JSON object per line. */
  readonly workPath: string
}

/** An analysis to fetch. */
export type Work = {
  readonly edital_id: string
  readonly updated_at: string
  /** Hash of the stored analysis; null if there is none. */
  readonly hash: string | null
  /** Whether the stored analysis was fetched for the `updated_at` last listed. */
  readonly same_version: boolean
}

/**
 * Compares the table `listed` with the warehouse. The analyses to fetch go to a file, not into memory: `readWork` streams
 * it while the warehouse is loading.
 */
export async function detect(options: DetectOptions): Promise<Plan> {
  const { db, temporaryDirectory } = options
  await db.run(`CREATE OR REPLACE TEMP TABLE detected AS ${compare(options)}`, bindValues(options))
  const counts = await db.row<Omit<Plan, 'records' | 'workPath'>>(
    `SELECT count(*) AS listed, count(*) FILTER (change = 'new') AS added, count(*) FILTER (change = 'changed') AS changed,
       count(*) FILTER (change = 'revived') AS revived, count(*) FILTER (action = 'none') AS unchanged,
       count(*) FILTER (action = 'defer') AS deferred, count(*) FILTER (action = 'set_aside') AS rejected,
       count(*) FILTER (action = 'fetch') AS "toFetch"
     FROM detected`,
  )
  const records = await db.rows<{ read: number }>(
    `SELECT read FROM detected WHERE change NOT IN ('same', 'known') ORDER BY read`,
  )
  const now = literal(options.now.toISOString())
  const workPath = join(temporaryDirectory, 'work.ndjson')
  await db.run(`COPY (
      SELECT edital_id, as_sent AS updated_at, hash, same_version FROM detected WHERE action = 'fetch'
      ORDER BY hash(${month('created_at')} || ${now}) % ${STRIDES}, ${month('created_at')} DESC, hash(edital_id || ${now}), edital_id
    ) TO ${literal(workPath)} (FORMAT json)`)
  return { ...counts, records: records.map(({ read }) => read), workPath }
}

/** The settings that a comparison takes into account. */
export type CompareOptions = Omit<DetectOptions, 'temporaryDirectory'>

/** The work that the next run would have if the list were unchanged; at `dueAt`, it has more to do in any case. */
type Left = {
  readonly listed: number
  readonly deferred: number
  readonly toDo: number
  readonly dueAt: Date | null
}

/** Compares the table `listed` once more, with what the run has made of it. */
export async function detectLeft(options: CompareOptions): Promise<Left> {
  const { dueMs, ...counts } = await options.db.row<Omit<Left, 'dueAt'> & { dueMs: number | null }>(
    `SELECT count(*) AS listed, count(*) FILTER (action = 'defer') AS deferred,
       count(*) FILTER (change NOT IN ('same', 'known') OR action = 'fetch') AS "toDo", epoch_ms(min(due_at)) AS "dueMs"
     FROM (${compare(options)})`,
    bindValues(options),
  )
  return { ...counts, dueAt: dueMs === null ? null : new Date(dueMs) }
}

function bindValues({ now, force, refetchSegment }: CompareOptions) {
  return { now: now.toISOString(), force, refetch_segment: refetchSegment }
}

function compare(options: CompareOptions): string {
  return `
    SELECT edital_id, read, as_sent, created_at, hash, same_version, change, due_at,
      CASE
        WHEN change = 'known' THEN 'defer'
        WHEN change = 'rejected' THEN 'set_aside'
        WHEN change = 'same' AND same_version AND NOT due AND NOT $force THEN 'none'
        WHEN (${isExcluded(options)} OR waits) AND NOT $force THEN 'defer'
        ELSE 'fetch'
      END AS action
    FROM (
      SELECT l.edital_id, l.read, l.as_sent, l.created_at, l.status, a._hash AS hash,
        CASE
          WHEN l.reason IS NOT NULL AND bad._hash = l.hash AND ${isWaiting('bad')} AND NOT $force THEN 'known'
          WHEN l.reason IS NOT NULL THEN 'rejected'
          WHEN e.edital_id IS NULL THEN 'new'
          WHEN e.deleted_at IS NOT NULL THEN 'revived'
          WHEN l.list_fields <> e._list_fields OR bad.kind IS NOT NULL THEN 'changed'
          ELSE 'same'
        END AS change,
        a._source_updated_at IS NOT DISTINCT FROM l._updated_at AND a._segment >= e._segment AS same_version,
        q.edital_id IS NOT NULL OR coalesce(a._segment <= $refetch_segment::BIGINT, false)
          OR coalesce(${isOld(options)}, false) AS due,
        q._updated_at IS NOT DISTINCT FROM l._updated_at AND ${isWaiting('q')}
          AND NOT coalesce(q._segment <= $refetch_segment::BIGINT, false) AS waits,
        CASE
          WHEN l.reason IS NOT NULL THEN bad.next_attempt_at
          WHEN ${isExcluded(options, 'l.status')} THEN NULL
          WHEN q.edital_id IS NOT NULL THEN q.next_attempt_at
          ELSE a.fetched_at + ${maxAge(options)}
        END AS due_at
      FROM listed l
      LEFT JOIN editais e ON e.edital_id = l.edital_id
      LEFT JOIN analyses a ON a.edital_id = l.edital_id
      LEFT JOIN (FROM quarantine WHERE kind = 'analysis' AND resolved_at IS NULL) q ON q.edital_id = l.edital_id
      LEFT JOIN (FROM quarantine WHERE kind = 'notice' AND resolved_at IS NULL) bad
        ON coalesce(bad.edital_id, bad._hash) = coalesce(l.edital_id, l.hash)
    )`
}

/**
 * Returns SQL for whether analyses of a status are not fetched. An empty list excludes none: phases not yet in the contract have
 * analyses, too.
 */
function isExcluded({ analysisStatuses }: CompareOptions, status = 'status'): string {
  if (analysisStatuses.length === 0) return 'false'
  return `NOT list_contains([${analysisStatuses.map(literal).join(', ')}], ${status})`
}

/** Waits until its next attempt. Not if `observed_at` is in the future: the clock was wrong, then or now. */
function isWaiting(q: string): string {
  return `(${q}.observed_at <= $now::TIMESTAMPTZ AND $now::TIMESTAMPTZ < ${q}.next_attempt_at)`
}

/**
 * Returns SQL for whether an analysis is old. A date far in the future counts as old, too: a clock that was ahead must not keep
 * an analysis for a year.
 */
function isOld(options: CompareOptions): string {
  const age = maxAge(options)
  return `NOT ($now::TIMESTAMPTZ > a.fetched_at - ${age} AND $now::TIMESTAMPTZ < a.fetched_at + ${age})`
}

/**
 * Returns the maximum age of an analysis. Each notice gets its own share, between half and all of the maximum, so
 * that analyses fetched together do not stay due together.
 */
function maxAge({ analysisMaxAge: { openMs, closedMs } }: CompareOptions): string {
  const open = OPEN_STATUSES.map(literal).join(', ')
  const ageMs = `CASE WHEN l.status IN (${open}) THEN ${openMs ?? 'NULL'} ELSE ${closedMs ?? 'NULL'} END`
  return `to_milliseconds(((${ageMs}) * (0.5 + hash(l.edital_id) % 1000 / 2000.0))::BIGINT)`
}

/** Streams the records to log from the list's file. */
export async function* readRecords(
  { records }: Pick<Plan, 'records'>,
  path: string,
): AsyncGenerator<ListedRecord> {
  if (records.length === 0) return
  let [read, next] = [0, 0]
  for await (const line of streamLines(createReadStream(path))) {
    read += 1
    if (read !== records[next]) continue
    yield readReceived(line)
    next += 1
    if (next === records.length) return
  }
  throw new Error(`${path} has ${read} lines, but line ${records[next]} is to be logged`)
}

/** Streams the analyses to fetch. */
export async function* readWork({ workPath }: Pick<Plan, 'workPath'>): AsyncGenerator<Work> {
  for await (const line of streamLines(createReadStream(workPath))) yield JSON.parse(line) as Work
}
