import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import zlib from 'node:zlib'
import { onTestFinished } from 'vitest'
import { normalizeDateTime } from '#schema/times.ts'
import { ListedFile, stageListed } from '#src/core/pipeline/listed.ts'
import { type Verdict, validateNotice } from '#src/core/pipeline/validate.ts'
import { segmentPath } from '#src/core/rawlog/files.ts'
import { applySegment } from '#src/core/warehouse/apply.ts'
import type { Database, Row } from '#src/core/warehouse/database.ts'
import { literal } from '#src/core/warehouse/quoted.ts'
import { RowFiles } from '#src/core/warehouse/row_files.ts'
import { ROW_TABLES } from '#src/core/warehouse/row_sql.ts'
import { timeKeySql } from '#src/core/warehouse/sql.ts'
import { createWarehouse } from '#src/core/warehouse/warehouse.ts'
import { hashContent } from '#src/lib/hash.ts'
import type { Entry } from '#src/sandbox/world.ts'
import { temporaryDirectory } from './project.ts'
import { openScratch } from './worker_database.ts'

export const TIMEZONE = 'America/Sao_Paulo'
/** When the first run of each warehouse here started. */
export const STARTED = '2026-11-20T12:00:00.000Z'

/** As the writer of the log does. */
const CHECKED = { params: { [zlib.constants.ZSTD_c_checksumFlag]: 1 } }

type Fields = Readonly<Record<string, unknown>>
/** A line of the log, as a test gives it; the other fields are added when it is applied. */
export type TestLine = Fields & { readonly type: string }

/** What the warehouse knows of a notice besides its document. */
export type StoredNotice = { readonly segment?: number; readonly deletedAt?: string }
export type StoredAnalysis = {
  readonly segment?: number
  readonly fetchedAt?: string
  /** The notice's `updated_at` for which it was fetched, if that has changed since. */
  readonly updatedAt?: string
}
export type SetAside = {
  readonly id: string | null
  readonly kind: 'notice' | 'analysis'
  readonly updatedAt?: string
  readonly hash?: string
  readonly segment?: number
  readonly resolvedAt?: string
}

/** A warehouse, removed after the test. */
export type WarehouseCase = {
  readonly db: Database
  readonly rows: RowFiles
  readonly directory: string
  /** Applies these lines as the next segment; the first one begins with the start of a run, by default of `r1`. */
  apply(...lines: readonly TestLine[]): Promise<{ segment: number; setAside: readonly string[] }>
  /** Stages what the list shows, as the table `listed`. */
  list(...shown: readonly (Entry | Verdict)[]): Promise<ListedFile>
  /** Puts notices into it, as they would be if the list had shown them: quicker than lines of the log. */
  store(entries: readonly Entry[], about?: StoredNotice): Promise<void>
  /** The same for their analyses: only the columns that decide whether they are current. */
  storeAnalyses(entries: readonly Entry[], about?: StoredAnalysis): Promise<void>
  /** Puts a record into quarantine, at the start of the run and for a quarter of an hour. */
  setAside(record: SetAside): Promise<void>
}

/** @param db an empty database; by default one in memory. */
export async function openWarehouseCase(start: Fields = {}, db?: Database): Promise<WarehouseCase> {
  return await openIn(db ?? (await openScratch()), start)
}

async function openIn(db: Database, start: Fields, kept?: Kept): Promise<WarehouseCase> {
  const directory = await temporaryDirectory()
  await createWarehouse(db, { sourceTimezone: TIMEZONE, paths: { company: 'acme' }, id: 'w1' })
  // Rows wait there until they are written to files.
  for (const { name } of ROW_TABLES) await db.run(`CREATE VIEW ${name} AS FROM waiting_${name}`)
  const rows = await RowFiles.open(db, { directory: join(directory, 'rows', 'w1'), company: 'acme' })
  const projection = { sourceTimezone: TIMEZONE, temporaryDirectory: directory }
  const begin = { type: 'run_started', mode: 'full', analysis_statuses: [], ...start }
  let [segment, lists] = [kept?.segment ? 1 : 0, 0]

  async function list(...shown: readonly (Entry | Verdict)[]): Promise<ListedFile> {
    lists += 1
    const file = new ListedFile(join(directory, `listed-${lists}.ndjson`))
    onTestFinished(() => file.close())
    await file.add(shown.map(each => ('ok' in each ? each : verdictOf(each))))
    await file.flush()
    await stageListed(db, file, TIMEZONE)
    return file
  }

  if (kept) await restore(db, directory, kept)
  return {
    db,
    rows,
    directory,
    list,
    async apply(...lines) {
      segment += 1
      const path = segmentPath(directory, segment)
      const all = segment === 1 && lines[0]?.type !== 'run_started' ? [begin, ...lines] : lines
      const texts = all.map((line, index) => `${textOf(line, index + 1, segment)}\n`)
      await writeFile(path, zlib.zstdCompressSync(texts.join(''), CHECKED))
      return { segment, setAside: await applySegment(db, { number: segment, path }, projection) }
    },
    async store(entries, { segment = 1, deletedAt = null } = {}) {
      await list(...entries)
      await db.run(
        `INSERT INTO editais (edital_id, status, created_at, updated_at, first_seen_at, changed_at, deleted_at,
           analysis_state, _updated_at, _segment, _list_fields)
         SELECT edital_id, status, created_at, as_sent::TIMESTAMPTZ, $at, $at, $deleted_at, 'pending', _updated_at,
           $segment::BIGINT, list_fields
         FROM listed`,
        { at: STARTED, deleted_at: deletedAt, segment },
      )
    },
    async storeAnalyses(entries, { segment = 1, fetchedAt = STARTED, updatedAt } = {}) {
      const rows = entries.map(({ edital, analysis }) => {
        const version = comparedTime(updatedAt ?? edital.updated_at)
        return `(${literal(edital.id)}, $fetched_at, ${version}, ${literal(hashContent(JSON.stringify(analysis)))}, $segment::BIGINT)`
      })
      if (rows.length === 0) return
      await db.run(
        `INSERT INTO analyses (edital_id, fetched_at, _source_updated_at, _hash, _segment) VALUES ${rows.join(', ')}`,
        { fetched_at: fetchedAt, segment },
      )
    },
    async setAside({ id, kind, updatedAt = null, hash = 'h1', segment = 1, resolvedAt = null }) {
      await db.run(
        `INSERT INTO quarantine (edital_id, kind, reason, path, observed_at, attempts, next_attempt_at, resolved_at,
           _updated_at, _hash, _segment)
         VALUES ($id, $kind, 'the body is not JSON', '$', $at, 1, $at::TIMESTAMPTZ + INTERVAL 15 MINUTES, $resolved_at,
           ${updatedAt === null ? 'NULL' : comparedTime(updatedAt)}, $hash, $segment::BIGINT)`,
        { at: STARTED, id, kind, resolved_at: resolvedAt, hash, segment },
      )
    },
  }
}

/** SQL for a time as the warehouse compares it. */
export function comparedTime(text: string): string {
  return timeKeySql(literal(normalizeDateTime(text)), TIMEZONE)
}

function textOf(line: TestLine, seq: number, segment: number): string {
  const number = seq === 1 ? { number: segment } : {}
  return JSON.stringify({ seq, ...number, run_id: 'r1', at: STARTED, ...line })
}

function verdictOf({ edital }: Entry): Verdict {
  return validateNotice(Buffer.from(JSON.stringify(edital)), edital.id)
}

/** The line of a listed notice. */
export function noticeLine({ edital }: Entry, fields: Fields = {}): TestLine {
  return { type: 'notice', edital_id: edital.id, updated_at: edital.updated_at, notice: edital, ...fields }
}

/** The line of an analysis that was fetched for the notice as it is. */
export function analysisLine({ edital, analysis }: Entry, fields: Fields = {}): TestLine {
  return { type: 'analysis', ...aboutAnalysis({ edital, analysis }), analysis, ...fields }
}

/** The line of an analysis that was fetched again and is unchanged. */
export function sameLine(entry: Entry, fields: Fields = {}): TestLine {
  return { type: 'analysis_same', ...aboutAnalysis(entry), ...fields }
}

/** The line of an analysis that could not be used. */
export function rejectedLine({ edital }: Entry, fields: Fields = {}): TestLine {
  return {
    type: 'rejected',
    edital_id: edital.id,
    kind: 'analysis',
    updated_at: edital.updated_at,
    reason: 'the body is not JSON',
    path: '$',
    hash: 'h1',
    excerpt: '<html>',
    raw: '',
    ...fields,
  }
}

export function goneLine({ edital }: Entry, fields: Fields = {}): TestLine {
  return { type: 'gone', edital_id: edital.id, ...fields }
}

function aboutAnalysis({ edital, analysis }: Entry): Fields {
  return {
    edital_id: edital.id,
    updated_at: edital.updated_at,
    source_updated_at: normalizeDateTime(edital.updated_at),
    hash: hashContent(JSON.stringify(analysis)),
  }
}

/** The instant this many minutes after the first run started. */
export function minutesLater(minutes: number): string {
  return new Date(Date.parse(STARTED) + minutes * 60_000).toISOString()
}

/** The tables that this segment touched, by month: their published files are stale. */
export async function touchedBy({ db }: WarehouseCase, segment: number): Promise<Record<string, string[]>> {
  const rows = await db.rows<{ month: string; tables: string }>(
    `SELECT month, string_agg(table_name, ' ' ORDER BY table_name) AS tables FROM month_versions
     WHERE version = $segment GROUP BY month ORDER BY month`,
    { segment },
  )
  return Object.fromEntries(rows.map(({ month, tables }) => [month, tables.split(' ')]))
}

export async function metaOf({ db }: WarehouseCase): Promise<Row> {
  return await db.row('SELECT * FROM meta')
}

/** The state of a notice's analysis. */
export async function stateOf({ db }: WarehouseCase, id: string): Promise<unknown> {
  return (await db.row('SELECT analysis_state FROM editais WHERE edital_id = $id', { id })).analysis_state
}

/** A database with the rows of a warehouse, and its first segment if it has one. */
type Kept = { readonly name: string; readonly tables: readonly string[]; readonly segment: Buffer | null }
/** By what was done to it, for each database in which tests open their warehouses. */
const keptIn = new WeakMap<Database, Map<string, Kept>>()

/** A warehouse to which these lines were applied, as its first segment. */
export async function openApplied(...lines: readonly TestLine[]): Promise<WarehouseCase> {
  return await openKept(['lines', lines], warehouse => warehouse.apply(...lines))
}

/** A warehouse in which these notices are as the API has them, and so are their analyses, unless they were not fetched. */
export async function openStored(
  entries: readonly Entry[],
  { areFetched = true } = {},
): Promise<WarehouseCase> {
  return await openKept(['entries', entries, areFetched], async warehouse => {
    await warehouse.store(entries)
    if (areFetched) await warehouse.storeAnalyses(entries)
  })
}

/** A warehouse that was filled so: once in each worker, because a copy takes a fifth of the time. */
async function openKept(
  content: unknown,
  fill: (warehouse: WarehouseCase) => Promise<unknown>,
): Promise<WarehouseCase> {
  const db = await openScratch()
  const kept = keptIn.get(db) ?? new Map<string, Kept>()
  keptIn.set(db, kept)
  const key = hashContent(JSON.stringify(content))
  const before = kept.get(key)
  if (before) return await openIn(db, {}, before)
  const warehouse = await openIn(db, {})
  await fill(warehouse)
  kept.set(key, await keep(warehouse, `kept_${kept.size}`))
  return warehouse
}

async function keep({ db, directory }: WarehouseCase, name: string): Promise<Kept> {
  const filled = await db.rows<{ name: string }>(
    `SELECT table_name AS name FROM duckdb_tables() WHERE estimated_size > 0
       AND (database_name = current_database() OR (database_name = 'temp' AND name LIKE 'waiting\\_%' ESCAPE '\\'))`,
  )
  const tables = filled.map(table => table.name)
  const copies = tables.map(table => `CREATE TABLE ${name}.main.${table} AS FROM ${table}`)
  await db.run([`ATTACH ':memory:' AS ${name}`, ...copies].join(';\n'))
  return { name, tables, segment: await readFile(segmentPath(directory, 1)).catch(() => null) }
}

async function restore(db: Database, directory: string, { segment, name, tables }: Kept): Promise<void> {
  const rows = tables.map(table => `INSERT INTO ${table} FROM ${name}.main.${table}`)
  await db.run(['DELETE FROM meta', ...rows].join(';\n'))
  if (segment) await writeFile(segmentPath(directory, 1), segment)
}
