import { basename, join } from 'node:path'
import { type Examined, examineLog, readContents } from '#src/core/rawlog/examine.ts'
import { damagedDirectory, segmentPath } from '#src/core/rawlog/files.ts'
import type { Line } from '#src/core/rawlog/line.ts'
import { SegmentWriter } from '#src/core/rawlog/writer.ts'
import { makePrivateDirectory } from '#src/lib/access.ts'
import { pluralize } from '#src/lib/count.ts'
import { copyNew, linkFile, syncDirectory, syncFile } from '#src/lib/durable.ts'
import { findSystemCode } from '#src/lib/errors.ts'

/** The replacement of a segment that could not be used. */
export type Salvaged = {
  readonly segment: number
  /** The reason, as the predicate of a sentence. */
  readonly why: string
  /** The new place of the old file; null if there was none. */
  readonly moved_to: string | null
  /** Number of its lines kept in the log, by type. */
  readonly kept: Readonly<Record<string, number>>
}

/**
 * Repairs a log that has missing, damaged or foreign segments. The readable lines of a damaged segment replace it;
 * the file itself is kept in `damaged/`. A `lost` line records each loss in the log. The caller holds the company's
 * lock.
 * @param options.runId names the salvage, like a run.
 * @param options.onUnusable awaited before the first change, if there will be one.
 * @throws FatalError if a stray file is in the log.
 */
export async function salvageLog(options: {
  directory: string
  runId: string
  now: () => Date
  onSegment?: (done: number, total: number) => void
  onUnusable: () => Promise<void>
}): Promise<Salvaged[]> {
  const { directory, onUnusable } = options
  const examined = await examineLog(options)
  const unusable = examined.filter(({ state }) => state !== 'whole')
  if (unusable.length > 0) await onUnusable()
  const log = findName(examined)
  const salvaged: Salvaged[] = []
  for (const one of unusable) {
    // Set it aside first, by a hard link, so that a segment with that number always exists.
    const movedTo = one.state === 'missing' ? null : await setAside(directory, one)
    const kept = one.state === 'damaged' ? one.contents.kinds : new Map<string, number>()
    const why = one.why as string
    const lines = lostLines({ ...options, one, examined, log, keptLines: sum(kept.values()) })
    await replace(directory, one, lines)
    salvaged.push({ segment: one.number, why, moved_to: movedTo, kept: Object.fromEntries(kept) })
  }
  return salvaged
}

/** Returns the log's name, from the segments that `examineLog` accepted. Only a replaced first segment needs it. */
function findName(examined: readonly Examined[]): string | null {
  const own = examined.filter(({ state }) => state !== 'foreign')
  for (const { contents } of own) for (const log of contents.claims.logs) return log
  return null
}

type LostLine = Extract<Line, { type: 'lost' }> & { readonly run_id: string; readonly at: string }

/** Makes the salvage's own line, and one for each run whose start was lost here or is not known to be elsewhere. */
function lostLines(about: {
  runId: string
  now: () => Date
  one: Examined
  examined: readonly Examined[]
  log: string | null
  keptLines: number
}): LostLine[] {
  const { runId, now, one, examined, log, keptLines } = about
  const stay = keptLines === 0 ? 'no line was kept' : `${pluralize(keptLines, 'line')} kept`
  const own: LostLine = {
    run_id: `${runId}-${one.number}`,
    at: now().toISOString(),
    type: 'lost',
    mode: 'salvage',
    reason: `Segment ${basename(one.path)} of the raw log ${one.why}; ${stay}. The next run fetches lost notices and analyses again.`,
    ...(one.number === 1 && log !== null ? { log } : {}),
  }
  const runs = new Map<string, string>()
  // Up to the next unusable segment, whose loss explains the runs after it.
  for (const other of examined.slice(one.number - 1)) {
    if (other !== one && other.state !== 'whole') break
    for (const [run, at] of other.unexplained) runs.set(run, at)
  }
  return [
    own,
    ...[...runs].map(
      ([run_id, at]): LostLine => ({
        run_id,
        at,
        type: 'lost',
        reason: `The first lines of this run were lost with segment ${basename(one.path)}.`,
      }),
    ),
  ]
}

/** Links or copies the file to a free name in `damaged/`. */
async function setAside(directory: string, { number, path }: Examined): Promise<string> {
  const damaged = damagedDirectory(directory)
  await makePrivateDirectory(damaged)
  for (let copy = 1; ; copy += 1) {
    const target = join(damaged, basename(segmentPath('', number)).replace('.', copy > 1 ? `-${copy}.` : '.'))
    if (await linkedOrCopied(path, target)) {
      await syncDirectory('damaged.directory', damaged)
      await syncDirectory('damaged.directory', directory)
      return target
    }
  }
}

/** Links or copies a file; false if the name is taken. */
async function linkedOrCopied(from: string, to: string): Promise<boolean> {
  try {
    await linkFile('damaged.link', from, to)
  } catch (error) {
    const code = findSystemCode(error)
    if (code === 'EEXIST') return false
    if (!['EPERM', 'ENOTSUP', 'EMLINK'].includes(code ?? '')) throw error
    await copyNew(from, to)
    await syncFile('damaged.link', to)
  }
  return true
}

/** Rewrites the segment durably: first the `lost` lines, then the kept lines, numbered from 1. */
async function replace(directory: string, one: Examined, lost: readonly LostLine[]): Promise<void> {
  const writer = new SegmentWriter(directory, one.number, 0)
  const append = async (text: (seq: number) => string) =>
    await writer.append(seq => [Buffer.from(`${text(seq)}\n`)], { document: false, atMs: 0 })
  try {
    for (const line of lost) {
      await append(seq => JSON.stringify({ seq, ...(seq === 1 ? { number: one.number } : {}), ...line }))
    }
    if (one.state === 'damaged') {
      const kept: string[] = []
      await readContents(one.path, text => kept.push(text))
      for (const text of kept) await append(seq => numbered(text, seq))
    }
    await writer.finish()
  } catch (error) {
    await writer.drop()
    throw error
  }
}

/** Edits the text, because parsing and rewriting would lose digits of numbers. */
function numbered(text: string, seq: number): string {
  const rest = text.replace(/^\{"seq":\d+/, '')
  return rest === text ? JSON.stringify({ ...JSON.parse(text), seq }) : `{"seq":${seq}${rest}`
}

function sum(numbers: Iterable<number>): number {
  return [...numbers].reduce((total, number) => total + number, 0)
}
