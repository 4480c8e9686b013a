import { existsSync } from 'node:fs'
import { stat, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { FatalError, InterruptedError, messageOf } from '#src/platform/errors.ts'
import type { Examined } from '#src/store/rawlog/examine.ts'
import { segmentNumbers, WAYS_OUT } from '#src/store/rawlog/files.ts'
import { Database, identifier, literal } from '#src/store/warehouse/database.ts'
import {
  buildWarehouse,
  hasCurrentSchema,
  refuseNewer,
  type WarehouseOptions,
} from '#src/store/warehouse/warehouse.ts'
import { type Finding, ok, problem, warning } from './finding.ts'
import { LEAST_FREE_BYTES, MEBIBYTE } from './place.ts'
import { linesIn } from './raw_log.ts'

const CHECK = 'warehouse'
const ROWS = 'rows'
const MAX_SAMPLE_CHARACTERS = 160
const MORE_ROOM = 'Where it is space or memory, give it more; then run it again'

/** What the lake is compared with. */
export type WarehouseState = { readonly warehouse_id: string; readonly data_version: number }

type Meta = WarehouseState & { readonly applied: number }

type Options = WarehouseOptions & {
  /** Null where the log cannot be read at all. */
  readonly examined: readonly Examined[] | null
  /** A directory of our own for a second warehouse; null to compare no rows. */
  readonly scratch: string | null
  /** False where a run may go on meanwhile. */
  readonly isHeld: boolean
}

/** The warehouse opens, has applied what is sealed, and holds what the log says. */
export async function checkWarehouse(
  options: Options,
): Promise<{ findings: Finding[]; state: WarehouseState | null }> {
  const { paths, examined, scratch, isHeld } = options
  const path = paths.warehouse
  if (!existsSync(path)) {
    const missing =
      examined?.length === 0
        ? ok(CHECK, path, 'There is none yet')
        : warning(CHECK, path, 'is not there: the next run makes it from the raw log', '`npm run rebuild`')
    return { findings: [missing], state: null }
  }
  const opened = await readMeta(options)
  if ('status' in opened) return { findings: [opened], state: null }
  // A run that was not kept out has sealed more since the log was read.
  const sealed = isHeld ? undefined : (await segmentNumbers(paths.raw)).length
  const findings = checkApplied(path, opened, examined, sealed)
  if (scratch === null) return { findings, state: opened }
  const canRebuild = examined?.every(({ state }) => state === 'whole') ?? false
  const isBehind = findings.some(({ status }) => status === 'problem')
  if (!canRebuild || isBehind) {
    const why = 'was not compared with the raw log, which cannot be rebuilt from as it is'
    return { findings: [...findings, warning(ROWS, path, why)], state: opened }
  }
  return { findings: [...findings, ...(await checkRows(options, scratch, opened.applied))], state: opened }
}

/** What the warehouse says of itself, or why it cannot be asked. */
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
    return problem(CHECK, path, `cannot be opened: ${messageOf(error)}`, '`npm run rebuild`')
  }
  try {
    if (!(await hasCurrentSchema(db, sourceTimezone))) {
      await refuseNewer(db, paths)
      return warning(
        CHECK,
        path,
        'is of another version of the program, or of another SOURCE_TIMEZONE: the next run rebuilds it',
        '`npm run rebuild`',
      )
    }
    const meta = await db.row<Meta>('SELECT warehouse_id, data_version, applied_segment AS applied FROM meta')
    const segments = await db.rows<{ segment: number; lines: number }>('FROM applied_segments')
    return { ...meta, lines: new Map(segments.map(({ segment, lines }) => [segment, lines])) }
  } catch (error) {
    if (error instanceof FatalError && error.why === 'newer_schema') {
      return warning(CHECK, path, 'was made by a newer version of the program', 'Run its doctor')
    }
    return problem(CHECK, path, `cannot be read: ${messageOf(error)}`, '`npm run rebuild`')
  } finally {
    db.close()
  }
}

function checkApplied(
  path: string,
  { applied, lines }: Meta & { lines: ReadonlyMap<number, number> },
  examined: readonly Examined[] | null,
  sealed = examined?.length,
): Finding[] {
  if (examined === null || sealed === undefined)
    return [ok(CHECK, path, `Opens; ${applied} segments are applied`)]
  if (applied > sealed) {
    return [
      problem(
        CHECK,
        path,
        `was built from ${applied} segments, but the raw log holds ${sealed}`,
        'Put the missing ones back from a backup; or accept what is left with `npm run rebuild`, and run `npm run sync`',
      ),
    ]
  }
  // A file that ends early where a block does is whole by itself.
  const short = examined.find(
    ({ number, state, contents }) =>
      state === 'whole' && number <= applied && lines.get(number) !== linesIn(contents),
  )
  if (short) {
    return [
      problem(
        CHECK,
        short.path,
        `holds ${linesIn(short.contents)} lines, but ${lines.get(short.number) ?? 'none'} of it were applied`,
        'Put the right file back from a backup; or accept what is left with `npm run rebuild`, and run `npm run sync`',
      ),
    ]
  }
  if (applied === sealed) return [ok(CHECK, path, `Opens; all ${sealed} segments are applied`)]
  const left = sealed - applied === 1 ? 'the last segment' : `the last ${sealed - applied} segments`
  return [warning(CHECK, path, `has not applied ${left} yet: the next run does`)]
}

/** Rebuilds the same in another file, and compares table by table. */
async function checkRows(options: Options, scratch: string, applied: number): Promise<Finding[]> {
  const rebuilt = join(scratch, 'warehouse.duckdb')
  const own = { ...options, paths: { ...options.paths, temporary: scratch } }
  const path = options.paths.warehouse
  const [disk, { size }] = await Promise.all([statfs(scratch), stat(path)])
  const tight = judgeRoom(path, { freeBytes: disk.bavail * disk.bsize, warehouseBytes: size })
  if (tight !== null) return [tight]
  try {
    await buildWarehouse(rebuilt, own, applied)
  } catch (error) {
    if (error instanceof InterruptedError) throw error
    return [failedBuild(path, error)]
  }
  return await compare(options, { rebuilt, scratch, applied })
}

/** Why no second warehouse should be written; null where it may. Others need room on that disk too. */
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
    `was not compared with the raw log: that needs ${wanted.toLocaleString('en-US')} MiB, and ${free.toLocaleString('en-US')} MiB are free`,
    'Free some space, and run it again',
  )
}

/** A rebuild for use would fail as well. */
function failedBuild(path: string, error: unknown): Finding {
  const failed = (why: string) => `was not compared with the raw log: a rebuild of that failed: ${why}`
  if (error instanceof FatalError && error.message.includes(WAYS_OUT)) {
    const [why = ''] = error.message.split(` ${WAYS_OUT}`)
    return problem(ROWS, path, failed(why.replace(/\.$/, '')), WAYS_OUT)
  }
  return problem(ROWS, path, failed(messageOf(error)), MORE_ROOM)
}

async function compare(
  { paths, isHeld }: Options,
  { rebuilt, scratch, applied }: { rebuilt: string; scratch: string; applied: number },
): Promise<Finding[]> {
  const path = paths.warehouse
  const db = await Database.open(':memory:', { temporaryDirectory: scratch })
  try {
    await db.run(`ATTACH ${literal(path)} AS stored (READ_ONLY)`)
    await db.run(`ATTACH ${literal(rebuilt)} AS rebuilt (READ_ONLY)`)
    // From here on no run can open it.
    const stored = await db.row<{ applied: number }>(
      'SELECT applied_segment AS applied FROM stored.main.meta',
    )
    if (!isHeld && stored.applied !== applied) return [changedMeanwhile(path)]
    const tables = await db.rows<{ name: string; both: boolean }>(
      `SELECT table_name AS name, count(*) = 2 AS both FROM duckdb_tables()
       WHERE database_name IN ('stored', 'rebuilt') GROUP BY ALL ORDER BY ALL`,
    )
    const differences: Finding[] = []
    for (const { name, both } of tables) {
      const what = both ? await difference(db, name) : `table ${name} is not in both`
      if (what !== null) differences.push(problem(ROWS, path, what, '`npm run rebuild`'))
    }
    if (differences.length > 0) return differences
    return [ok(ROWS, path, `${tables.length} tables hold what the raw log says, row for row`)]
  } catch (error) {
    if (!isHeld && isOpenElsewhere(error)) return [changedMeanwhile(path)]
    // Nothing is wrong with the warehouse then.
    if (/^Out of Memory Error|No space left on device/.test(messageOf(error)))
      return [problem(ROWS, path, `cannot be compared with the raw log: ${messageOf(error)}`, MORE_ROOM)]
    return [problem(ROWS, path, `cannot be read: ${messageOf(error)}`, '`npm run rebuild`')]
  } finally {
    db.close()
  }
}

function changedMeanwhile(path: string): Finding {
  return warning(ROWS, path, 'was not compared with the raw log: a run began meanwhile')
}

function isOpenElsewhere(error: unknown): boolean {
  return /Conflicting lock|Could not set lock/.test(messageOf(error))
}

/** How a table differs from the one that the log gives; null where it does not. Rows have no order. */
async function difference(db: Database, name: string): Promise<string | null> {
  // A warehouse's own name is not in the log.
  const columns = name === 'meta' ? '* EXCLUDE (warehouse_id)' : '*'
  const [stored, rebuilt] = ['stored', 'rebuilt'].map(
    database => `(SELECT ${columns} FROM ${database}.main.${identifier(name)})`,
  ) as [string, string]
  const sum = (rows: string) =>
    `(SELECT {'rows': count(*), 'mixed': bit_xor(hash(t)), 'summed': sum(hash(t)::HUGEINT)} FROM ${rows} t)`
  const { same } = await db.row<{ same: boolean }>(
    `SELECT ${sum(stored)} IS NOT DISTINCT FROM ${sum(rebuilt)} AS same`,
  )
  if (same) return null
  const { surplus, lacking, sample } = await db.row<{ surplus: number; lacking: number; sample: string }>(
    `WITH surplus AS (FROM ${stored} EXCEPT ALL FROM ${rebuilt}), lacking AS (FROM ${rebuilt} EXCEPT ALL FROM ${stored})
     SELECT (SELECT count(*) FROM surplus) AS surplus, (SELECT count(*) FROM lacking) AS lacking,
       coalesce((SELECT min(to_json(t)::VARCHAR) FROM surplus t), (SELECT min(to_json(t)::VARCHAR) FROM lacking t)) AS sample`,
  )
  const cut = sample.length > MAX_SAMPLE_CHARACTERS ? `${sample.slice(0, MAX_SAMPLE_CHARACTERS)}…` : sample
  return `${name}: ${surplus} rows that the raw log does not give, ${lacking} that it gives are not there, such as ${cut}`
}
