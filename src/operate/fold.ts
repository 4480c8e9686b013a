import { existsSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { openOptions, publishWarehouse, type RunContext } from '#src/pipeline/run.ts'
import { makePrivateDirectory } from '#src/platform/access.ts'
import { counted } from '#src/platform/count.ts'
import { move, remove, syncDirectory } from '#src/platform/durable.ts'
import { EXIT, FatalError, systemCode, throwIfInterrupted } from '#src/platform/errors.ts'
import { type CompanyPaths, freshTemporary } from '#src/store/company.ts'
import type { Published } from '#src/store/lake/publish.ts'
import { type RawLogSize, rawLogSize, removeUnsealed, sealedSegments } from '#src/store/rawlog/files.ts'
import { foldLog } from '#src/store/rawlog/fold.ts'
import { readState, writeState } from '#src/store/state.ts'
import { Database } from '#src/store/warehouse/database.ts'
import { hashTables } from '#src/store/warehouse/same_tables.ts'
import {
  type BuiltWarehouse,
  buildWarehouse,
  openWarehouse,
  takePlace,
} from '#src/store/warehouse/warehouse.ts'

export type Folded = {
  readonly before: RawLogSize
  readonly after: RawLogSize
  /** Where the old log is now; null if folding would not make it smaller, and nothing was changed. */
  readonly old_log: string | null
}

type Result = { readonly folded: Folded; readonly published: Published | null }

/** Where a record is in the log: it moves, and is not part of the data. */
const PLACES = ['_segment', '_seq']
/** Another process may put the old log back while there is none for an instant. */
const SWAPS = 5

/**
 * Replaces the raw log by a smaller one that gives the same tables: a warehouse is built from each, and they are compared.
 * The old log is kept beside it. The caller holds the company's lock.
 * @throws FatalError if the log cannot be folded; then nothing was changed.
 */
export async function fold(context: RunContext): Promise<Result> {
  refuse(context)
  await freshTemporary(context.paths)
  try {
    return await foldInto(context, join(context.paths.temporary, 'raw'))
  } finally {
    await remove('temporary.remove', context.paths.temporary)
  }
}

async function foldInto(context: RunContext, directory: string): Promise<Result> {
  const { paths, signal, onProgress } = context
  await removeUnsealed(paths.raw)
  const segments = await sealedSegments(paths.raw)
  const before = await rawLogSize(paths.raw)
  const old = await build(context, 'before', paths.raw)
  await remove('temporary.remove', dirname(old.path))
  if (old.isRefetching)
    throw new FatalError(
      `${paths.company}: a run with --full has not fetched everything yet, so the log was not folded. Let a run finish it, then fold.`,
      EXIT.failed,
    )
  await makePrivateDirectory(directory)
  let read = 0
  await foldLog({
    from: { directory: paths.raw, segments },
    to: directory,
    isNeeded: (segment, seq) => old.unresolved.has(`${segment} ${seq}`),
    onSegment: () => {
      throwIfInterrupted(signal)
      const done = read++ % segments.length
      onProgress({ stage: 'open', done, total: segments.length, note: 'Fold the raw log' })
    },
  })
  const after = await rawLogSize(directory)
  if (after.bytes >= before.bytes)
    return { folded: { before, after: before, old_log: null }, published: null }
  const next = await build(context, 'after', directory)
  refuseOtherTables(old.tables, next.tables, paths)
  await swap(paths, directory)
  await takePlace(paths, next)
  const warehouse = await openWarehouse(openOptions(context))
  try {
    const published = await publishWarehouse(context, warehouse)
    await rememberSize(paths, after, published)
    return { folded: { before, after, old_log: paths.rawBefore }, published }
  } finally {
    warehouse.db.close()
  }
}

function refuse({ paths, sharedLog }: RunContext): void {
  if (sharedLog !== null)
    throw new FatalError(
      `${paths.company}: its raw log is in an object store (LOG_URL), where segments are never replaced, so it cannot be folded there. Checkpoints keep the start of a host short.`,
      EXIT.usage,
    )
  if (existsSync(paths.rawBefore))
    throw new FatalError(
      `${paths.rawBefore} is the log as it was before the last fold. If you no longer need it, remove it; then run this again.`,
      EXIT.usage,
    )
}

type Built = BuiltWarehouse & {
  /** What its tables hold, by name. */
  readonly tables: Readonly<Record<string, string>>
  /** Places of the records that are in quarantine, as `<segment> <seq>`. */
  readonly unresolved: ReadonlySet<string>
  readonly isRefetching: boolean
}

/** Builds a warehouse from a log. */
async function build(context: RunContext, name: string, raw: string): Promise<Built> {
  const directory = join(context.paths.temporary, name)
  await mkdir(directory, { mode: 0o700 })
  const path = join(directory, 'warehouse.duckdb')
  const options = openOptions(context)
  const built = await buildWarehouse(path, { ...options, paths: { ...options.paths, raw } })
  const db = await Database.open(path, { readOnly: true })
  try {
    const unresolved = await db.rows<{ segment: number; seq: number }>(
      'SELECT _segment AS segment, _seq AS seq FROM quarantine WHERE resolved_at IS NULL',
    )
    const { open } = await db.row<{ open: boolean }>('SELECT refetch_open AS open FROM meta')
    return {
      ...built,
      tables: await hashTables(db, built.rows, PLACES),
      unresolved: new Set(unresolved.map(({ segment, seq }) => `${segment} ${seq}`)),
      isRefetching: open,
    }
  } finally {
    db.close()
  }
}

function refuseOtherTables(before: Built['tables'], after: Built['tables'], { company }: CompanyPaths): void {
  const different = Object.keys(before).filter(name => before[name] !== after[name])
  if (different.length === 0) return
  throw new Error(
    `${company}: the folded log gives other rows of ${different.join(', ')}; the log was not changed`,
  )
}

/** The warehouse goes first: whoever opens the company next rebuilds it from the log that is there. */
async function swap(paths: CompanyPaths, folded: string): Promise<void> {
  const { root, raw, rawBefore, warehouse } = paths
  await remove('rebuilt.remove', warehouse)
  await syncDirectory('rebuilt.directory', root)
  for (let swaps = 1; ; swaps += 1) {
    await move('fold.aside', raw, rawBefore)
    try {
      await move('fold.rename', folded, raw)
      break
    } catch (error) {
      const isBack = ['ENOTEMPTY', 'EEXIST'].includes(systemCode(error) ?? '') && !existsSync(rawBefore)
      if (!isBack || swaps === SWAPS) throw error
    }
  }
  await syncDirectory('fold.directory', root)
}

async function rememberSize(paths: CompanyPaths, raw_log: RawLogSize, published: Published): Promise<void> {
  const state = await readState(paths)
  const { directory, bytes } = published
  if (state !== null) await writeState(paths, { ...state, raw_log, snapshot: { directory, bytes } })
}

/** For the user. */
export function describeFolded({ before, after, old_log }: Folded): string {
  const kilobytes = (bytes: number) => `${Math.ceil(bytes / 1000)} kB`
  const sizes = `${counted(before.segments, 'segment')}, ${kilobytes(before.bytes)}`
  if (old_log === null) return `Nothing to fold: ${sizes}.\n`
  return `Folded ${sizes} into ${counted(after.segments, 'segment')}, ${kilobytes(after.bytes)}, with the same tables. The old log is ${old_log}: remove it when you no longer need it.\n`
}
