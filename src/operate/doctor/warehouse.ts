import { existsSync } from 'node:fs'
import { stat, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import type { Examined } from '#src/core/rawlog/examine.ts'
import { listSegmentNumbers, readBase, WAYS_OUT } from '#src/core/rawlog/files.ts'
import { Database, isMemoryError } from '#src/core/warehouse/database.ts'
import { identifier, literal } from '#src/core/warehouse/quoted.ts'
import { listRowFiles, rowDirectory, storedRows } from '#src/core/warehouse/row_files.ts'
import { ROW_TABLES } from '#src/core/warehouse/row_sql.ts'
import {
  buildWarehouse,
  hasCurrentSchema,
  refuseNewer,
  type WarehouseOptions,
} from '#src/core/warehouse/warehouse.ts'
import { type Finding, ok, problem, warning } from '#src/extras/extra.ts'
import { formatCount, pluralize } from '#src/lib/count.ts'
import { FatalError, getMessage, InterruptedError } from '#src/lib/errors.ts'
import { LEAST_FREE_BYTES, MEBIBYTE } from './place.ts'
import { sumLines } from './raw_log.ts'

const CHECK = 'warehouse'
const ROWS = 'rows'
const MAX_SAMPLE_CHARACTERS = 160
const MORE_ROOM = 'If space or memory ran out, provide more, then run the doctor again'

/** The state of the warehouse that the lake is compared with. */
export type WarehouseState = { readonly warehouse_id: string; readonly data_version: number }

type Meta = WarehouseState & {
  readonly applied: number
  /** Size of the files with its rows. */
  readonly rowBytes: number
}

type Options = WarehouseOptions & {
  /** Null if the log cannot be read at all. */
  readonly examined: readonly Examined[] | null
  /** A temporary directory for a second warehouse; null to compare no rows. */
  readonly scratch: string | null
  /** False if a run may be active during the check. */
  readonly isHeld: boolean
}

/** Checks that the warehouse opens, has applied all sealed segments, and holds the same data as the log. */
export async function checkWarehouse(
  options: Options,
): Promise<{ findings: Finding[]; state: WarehouseState | null }> {
  const { paths, examined, scratch, isHeld } = options
  const path = paths.warehouse
  if (!existsSync(path)) {
    const missing =
      examined?.length === 0
        ? ok(CHECK, path, 'No warehouse yet')
        : warning(CHECK, path, 'is missing: the next run rebuilds it from the raw log', '`editais rebuild`')
    return { findings: [missing], state: null }
  }
  const opened = await readMeta(options)
  if ('status' in opened) return { findings: [opened], state: null }
  const { segments: base } = await readBase(paths.raw)
  // Without the lock, a run may have sealed more segments since the log was read.
  const numbers = (await listSegmentNumbers(paths.raw)).filter(number => number > base)
  const sealed = isHeld ? examined && base + examined.length : base + numbers.length
  const findings = checkApplied(path, opened, examined, sealed)
  if (scratch === null) return { findings, state: opened }
  if (base > 0) {
    const why = `was not compared with the raw log: the first ${pluralize(base, 'segment')} are only in the object store`
    const mend = 'To compare, copy them with `editais log pull`, and run the doctor again'
    return { findings: [...findings, warning(ROWS, path, why, mend)], state: opened }
  }
  const canRebuild = examined?.every(({ state }) => state === 'whole') ?? false
  const isBehind = findings.some(({ status }) => status === 'problem')
  if (!canRebuild || isBehind) {
    const why = 'was not compared with the raw log: a rebuild from the log as it is would fail'
    return { findings: [...findings, warning(ROWS, path, why)], state: opened }
  }
  return { findings: [...findings, ...(await checkRows(options, scratch, opened))], state: opened }
}

/** Reads the metadata of the warehouse; returns a finding if they cannot be read. */
async function readMeta({
  paths,
  sourceTimezone,
}: Options): Promise<(Meta & { lines: ReadonlyMap<number, number> }) | Finding> {
  const path = paths.warehouse
  let db: Database
  try {
    db = await Database.open(path, { readOnly: true, threads: 1 })
  } catch (error) {
    if (isOpenElsewhere(error)) return problem(CHECK, path, 'is open in another process', 'Close it there')
    return problem(CHECK, path, `cannot be opened: ${getMessage(error)}`, '`editais rebuild`')
  }
  try {
    if (!(await hasCurrentSchema(db, { sourceTimezone, paths }))) {
      await refuseNewer(db, paths)
      return warning(
        CHECK,
        path,
        'was built by another version of the program, with another SOURCE_TIMEZONE or for a company of another name: the next run rebuilds it',
        '`editais rebuild`',
      )
    }
    const meta = await db.row<Meta>(
      `SELECT warehouse_id, data_version, applied_segment AS applied,
         (SELECT coalesce(sum(bytes), 0)::BIGINT FROM row_files) AS "rowBytes" FROM meta`,
    )
    const segments = await db.rows<{ segment: number; lines: number }>('FROM applied_segments')
    return { ...meta, lines: new Map(segments.map(({ segment, lines }) => [segment, lines])) }
  } catch (error) {
    if (error instanceof FatalError && error.why === 'newer_schema') {
      return warning(
        CHECK,
        path,
        'was built by a newer version of the program',
        'Run the doctor of that version',
      )
    }
    return problem(CHECK, path, `cannot be read: ${getMessage(error)}`, '`editais rebuild`')
  } finally {
    db.close()
  }
}

function checkApplied(
  path: string,
  { applied, lines }: Meta & { lines: ReadonlyMap<number, number> },
  examined: readonly Examined[] | null,
  sealed: number | null,
): Finding[] {
  if (examined === null || sealed === null)
    return [ok(CHECK, path, `Opens; ${pluralize(applied, 'segment')} applied`)]
  if (applied > sealed) {
    return [
      problem(
        CHECK,
        path,
        `was built from ${pluralize(applied, 'segment')}, but the raw log holds ${sealed}`,
        'Restore the missing segments from a backup; or accept the loss with `editais rebuild`, then run `editais sync`',
      ),
    ]
  }
  // A file that is cut off at the end of a block looks intact by itself.
  const short = examined.find(
    ({ number, state, contents }) =>
      state === 'whole' && number <= applied && lines.get(number) !== sumLines(contents),
  )
  if (short) {
    return [
      problem(
        CHECK,
        short.path,
        `has ${pluralize(sumLines(short.contents), 'line')}, but the warehouse applied ${lines.get(short.number) ?? 'none'} of this segment`,
        'Restore the file from a backup; or accept the loss with `editais rebuild`, then run `editais sync`',
      ),
    ]
  }
  if (applied === sealed)
    return [ok(CHECK, path, `Opens; ${formatCount(applied)} of ${pluralize(sealed, 'segment')} applied`)]
  const [left, it] =
    sealed - applied === 1
      ? ['the last segment', 'it']
      : [`the last ${formatCount(sealed - applied)} segments`, 'them']
  return [warning(CHECK, path, `has not applied ${left} yet: the next run that opens it applies ${it}`)]
}

/** Rebuilds the warehouse in another file, and compares the two table by table. */
async function checkRows(options: Options, scratch: string, { applied, rowBytes }: Meta): Promise<Finding[]> {
  const rebuilt = join(scratch, 'warehouse.duckdb')
  const own = { ...options, paths: { ...options.paths, temporary: scratch } }
  const path = options.paths.warehouse
  const [disk, { size }] = await Promise.all([statfs(scratch), stat(path)])
  const tight = judgeRoom(path, { freeBytes: disk.bavail * disk.bsize, warehouseBytes: size + rowBytes })
  if (tight !== null) return [tight]
  try {
    const { rows } = await buildWarehouse(rebuilt, own, applied)
    return await compare(options, { rebuilt, rows, scratch, applied })
  } catch (error) {
    if (error instanceof InterruptedError) throw error
    return [failedBuild(path, error)]
  }
}

/** Returns why a second warehouse must not be written; null if it may. Other programs need room on that disk too. */
export function judgeRoom(
  path: string,
  { freeBytes, warehouseBytes }: { freeBytes: number; warehouseBytes: number },
): Finding | null {
  const wantedBytes = warehouseBytes + LEAST_FREE_BYTES
  if (freeBytes >= wantedBytes) return null
  const [free, wanted] = [Math.floor(freeBytes / MEBIBYTE), Math.ceil(wantedBytes / MEBIBYTE)]
  return warning(
    ROWS,
    path,
    `was not compared with the raw log: that needs ${wanted.toLocaleString('en-US')} MiB, but only ${free.toLocaleString('en-US')} MiB are free`,
    'Free some space, and run the doctor again',
  )
}

/** Reports a rebuild that failed: a problem, because a real one would fail as well. */
function failedBuild(path: string, error: unknown): Finding {
  const failed = (why: string) => `was not compared with the raw log: the rebuild from it failed: ${why}`
  if (error instanceof FatalError && error.message.includes(WAYS_OUT)) {
    const [why = ''] = error.message.split(` ${WAYS_OUT}`)
    return problem(ROWS, path, failed(why.replace(/\.$/, '')), WAYS_OUT)
  }
  return problem(ROWS, path, failed(getMessage(error)), MORE_ROOM)
}

async function compare(
  { paths, isHeld }: Options,
  to: { rebuilt: string; rows: string; scratch: string; applied: number },
): Promise<Finding[]> {
  const path = paths.warehouse
  const db = await Database.open(':memory:', { temporaryDirectory: to.scratch })
  try {
    await db.run(`ATTACH ${literal(path)} AS stored (READ_ONLY)`)
    await db.run(`ATTACH ${literal(to.rebuilt)} AS rebuilt (READ_ONLY)`)
    // From here on, no run can open the warehouse.
    const stored = await db.row<{ applied: number; id: string }>(
      'SELECT applied_segment AS applied, warehouse_id AS id FROM stored.main.meta',
    )
    if (!isHeld && stored.applied !== to.applied) return [changedMeanwhile(path)]
    const differences: Finding[] = []
    const tables = await relations(db, { stored: rowDirectory(paths.rows, stored.id), rebuilt: to.rows })
    for (const [name, pair] of tables) {
      const what = pair ? await difference(db, name, pair) : `table ${name} is not in both`
      if (what !== null) differences.push(problem(ROWS, path, what, '`editais rebuild`'))
    }
    if (differences.length > 0) return differences
    return [ok(ROWS, path, `${tables.size} tables match the raw log, row for row`)]
  } catch (error) {
    if (!isHeld && isOpenElsewhere(error)) return [changedMeanwhile(path)]
    // This does not mean that anything is wrong with the warehouse.
    if (isMemoryError(error) || /No space left on device/.test(getMessage(error)))
      return [problem(ROWS, path, `cannot be compared with the raw log: ${getMessage(error)}`, MORE_ROOM)]
    return [problem(ROWS, path, `cannot be read: ${getMessage(error)}`, '`editais rebuild`')]
  } finally {
    db.close()
  }
}

function changedMeanwhile(path: string): Finding {
  return warning(ROWS, path, 'was not compared with the raw log: a run began during the check')
}

function isOpenElsewhere(error: unknown): boolean {
  return /Conflicting lock|Could not set lock/.test(getMessage(error))
}

/** Queries for the rows of the same table in both warehouses. */
type Pair = readonly [stored: string, rebuilt: string]

/** Values that the log does not decide: the warehouse's own id, and how rows are divided among files. */
const OWN: Readonly<Record<string, string>> = { meta: 'warehouse_id', row_places: 'file' }

/**
 * Returns the tables of both warehouses; null for one that only one of them has.
 * @param directories those with the rows of child tables.
 */
async function relations(
  db: Database,
  directories: { stored: string; rebuilt: string },
): Promise<ReadonlyMap<string, Pair | null>> {
  const tables = await db.rows<{ name: string; both: boolean }>(
    `SELECT table_name AS name, count(*) = 2 AS both FROM duckdb_tables()
     WHERE database_name IN ('stored', 'rebuilt') AND table_name <> 'row_files' GROUP BY ALL ORDER BY ALL`,
  )
  const pairs = new Map<string, Pair | null>()
  for (const { name, both } of tables) {
    const columns = OWN[name] ? `* EXCLUDE (${OWN[name]})` : '*'
    const of = (database: string) => `(SELECT ${columns} FROM ${database}.main.${identifier(name)})`
    pairs.set(name, both ? [of('stored'), of('rebuilt')] : null)
  }
  const stored = await listRowFiles(db, 'stored.main.')
  const rebuilt = await listRowFiles(db, 'rebuilt.main.')
  for (const table of ROW_TABLES)
    pairs.set(table.name, [
      `(${storedRows(table, directories.stored, stored)})`,
      `(${storedRows(table, directories.rebuilt, rebuilt)})`,
    ])
  return pairs
}

/**
 * Returns SQL for a value that two relations share if they have the same rows, in any order.
 * @param rows a relation.
 */
function fingerprintOfRows(rows: string): string {
  return `(SELECT {'rows': count(*), 'mixed': bit_xor(hash(t)), 'summed': sum(hash(t)::HUGEINT)} FROM ${rows} t)`
}

/** Returns how a table differs from the one rebuilt from the log; null if it does not. Rows have no order. */
async function difference(db: Database, name: string, [stored, rebuilt]: Pair): Promise<string | null> {
  const { same } = await db.row<{ same: boolean }>(
    `SELECT ${fingerprintOfRows(stored)} IS NOT DISTINCT FROM ${fingerprintOfRows(rebuilt)} AS same`,
  )
  if (same) return null
  const { surplus, lacking, sample } = await db.row<{ surplus: number; lacking: number; sample: string }>(
    `WITH surplus AS (FROM ${stored} EXCEPT ALL FROM ${rebuilt}), lacking AS (FROM ${rebuilt} EXCEPT ALL FROM ${stored})
     SELECT (SELECT count(*) FROM surplus) AS surplus, (SELECT count(*) FROM lacking) AS lacking,
       coalesce((SELECT min(to_json(t)::VARCHAR) FROM surplus t), (SELECT min(to_json(t)::VARCHAR) FROM lacking t)) AS sample`,
  )
  const cut = sample.length > MAX_SAMPLE_CHARACTERS ? `${sample.slice(0, MAX_SAMPLE_CHARACTERS)}…` : sample
  return `${name}: ${pluralize(surplus, 'row')} not in the raw log, ${pluralize(lacking, 'row')} of the raw log missing, such as ${cut}`
}
