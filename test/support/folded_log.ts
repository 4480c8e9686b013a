import { mkdir } from 'node:fs/promises'
import { listSealedSegments, readLines, segmentPath } from '#src/core/rawlog/files.ts'
import { SegmentWriter } from '#src/core/rawlog/writer.ts'
import { idOf, noticeEntry, notices } from './notices.ts'
import { type SyncedCompany, startCompany } from './synced.ts'

type Line = Readonly<Record<string, unknown>> & { readonly type: string; readonly edital_id: string | null }

/**
 * Writes a log anew, as `log fold` of an earlier version did: lines about no notice come first, and each further segment
 * has the lines of one old segment about each notice. What later lines made irrelevant is left out.
 * @returns how many lines lost their lists or their bytes, and how many are gone.
 */
export async function foldLog(from: string, to: string) {
  const lost = { lists: 0, bytes: 0, lines: 0 }
  const waves: Line[][] = [[]]
  for (const [subject, lines] of await linesBySubject(from)) {
    const segments = [...new Set(lines.map(({ segment }) => segment))]
    for (const [index, { segment, line }] of lines.entries()) {
      const later = lines.slice(index + 1).map(other => other.line)
      const kept = subject === null ? line : shortened(line, later, lost)
      const wave = subject === null ? 0 : segments.indexOf(segment) + 1
      waves[wave] = [...(waves[wave] ?? []), ...(kept === null ? [] : [kept])]
    }
  }
  const filled = waves.filter(({ length }) => length > 0)
  await writeLog(to, filled)
  return lost
}

/** Writes a log anew with three segments for each run, as earlier versions sealed them: its list, its analyses and its report. */
export async function splitRuns(raw: string): Promise<void> {
  const parts: Line[][] = []
  for (const segment of await listSealedSegments(raw)) {
    const texts = await Array.fromAsync(readLines(segmentPath(raw, segment)))
    const lines = texts.map(text => JSON.parse(text) as Line)
    const partOf = ({ type, kind }: Line) => /analysis|run_finished/.exec(`${type} ${kind}`)?.[0] ?? 'list'
    parts.push(...Map.groupBy(lines, partOf).values())
  }
  await writeLog(raw, parts)
}

async function writeLog(to: string, segments: readonly (readonly Line[])[]): Promise<void> {
  await mkdir(to, { recursive: true })
  for (const [index, lines] of segments.entries()) {
    const writer = new SegmentWriter(to, index + 1, 0)
    for (const { seq: _seq, number: _number, ...rest } of lines)
      await writer.append(
        seq => [
          Buffer.from(`${JSON.stringify({ seq, ...(seq === 1 ? { number: index + 1 } : {}), ...rest })}\n`),
        ],
        { document: false, atMs: 0 },
      )
    await writer.finish()
  }
}

/** The lines about each notice, or each record without an id, in the order of the log. */
async function linesBySubject(raw: string) {
  const lines: { segment: number; line: Line }[] = []
  for (const segment of await listSealedSegments(raw))
    for await (const text of readLines(segmentPath(raw, segment)))
      lines.push({ segment, line: JSON.parse(text) })
  return Map.groupBy(lines, ({ line }) => line.edital_id ?? line.hash ?? null)
}

/** Null for a line that is left out. */
function shortened(
  line: Line,
  later: readonly Line[],
  lost: { lists: number; bytes: number; lines: number },
): Line | null {
  const types = new Set(later.map(({ type }) => type))
  const isFetchedLater = types.has('analysis') || types.has('analysis_same')
  if (line.type === 'analysis_same' && isFetchedLater && !types.has('rejected')) {
    lost.lines += 1
    return null
  }
  if (line.type === 'analysis' && types.has('analysis')) {
    lost.lists += 1
    return { ...line, analysis: { ...(line.analysis as object), requirements: [], items: [], alerts: [] } }
  }
  if (line.type === 'rejected' && types.has(String(line.kind))) {
    lost.bytes += 1
    const { raw: _raw, ...rest } = line
    return rest as Line
  }
  return line
}

const NOON = new Date('2026-11-20T12:00:00Z')

/** Three runs whose log has every kind of line, most of them for several notices. */
export async function startWithHistory(): Promise<SyncedCompany> {
  const company = await startCompany([
    ...notices(1, 20),
    noticeEntry(21, { dias: 3, valor_estimado: '12.5' }, { analysis_level: 'deepest', novo: [1] }),
  ])
  const { world, faults } = company
  const [broken, unreadable, gone, returning, changed, silent, listedWrong] = [1, 2, 3, 4, 5, 6, 7].map(
    idOf,
  ) as [...[string, string, string, string, string, string, string]]
  faults.plan = [{ fault: 'truncate', kinds: ['analysis'], ids: [broken, unreadable] }]
  world.update(listedWrong, { edital: { participation_confirmed: undefined } })
  await company.syncHere()

  world.remove(gone)
  world.remove(returning)
  world.update(changed, { edital: { objeto: 'Mudou', created_at: '2026-08-15T12:00:00Z' }, updatedAt: NOON })
  world.update(listedWrong, { edital: { participation_confirmed: true } })
  world.update(unreadable, { updatedAt: NOON })
  await company.syncHere()

  world.restore(returning)
  world.update(silent, { analysis: { alerts: [] } })
  faults.plan = [{ fault: 'truncate', kinds: ['analysis'], ids: [unreadable] }]
  await company.syncHere({ full: true })
  return company
}
