import type { Logger } from 'pino'
import { makePrintableLines } from '#schema/text_key.ts'
import type { RunReport } from '#src/core/company/run_report.ts'
import type { PublishedFigures } from '#src/core/lake/publish.ts'
import { segmentPath } from '#src/core/rawlog/files.ts'
import type { CompanyContext } from '#src/extras/extra.ts'
import { formatCount, formatSeconds, pluralize } from '#src/lib/count.ts'
import { EXIT, explain } from '#src/lib/errors.ts'
import { endProcess } from '#src/lib/exit.ts'
import { publishBehind } from '#src/operate/extras.ts'
import type { RunPlan } from '#src/operate/plan.ts'
import type { Salvaged } from '#src/operate/salvage.ts'

/** Returns the result of a run, for people: what changed, what needs attention, where the snapshot is. */
export function describeRun(report: RunReport, published: PublishedFigures, seconds: number): string {
  const notices = counts({
    new: report.added,
    changed: report.changed,
    revived: report.revived,
    deleted: report.tombstoned,
  })
  const analyses = counts({
    loaded: report.loaded,
    deferred: report.deferred,
    quarantined: report.quarantined,
    failed: report.failed,
    gone: report.gone,
    'not attempted': report.not_attempted,
    'changed silently': report.silent_changes,
  })
  return [
    '',
    `${report.status.toUpperCase()}  ${report.mode === 'replay' ? 'replay' : `${report.mode} sync`} in ${formatSeconds(seconds)}, ${pluralize(report.requests, 'request')}`,
    `  notices   ${formatCount(report.listed)} listed; ${notices || 'none changed'}`,
    `  analyses  ${analyses || 'none to fetch'}`,
    `  snapshot  ${published.directory}${published.written ? '' : ' (unchanged)'}`,
    ...(report.scan_complete === false
      ? ['  note      the list changed while it was read; the next run reads it again']
      : []),
    ...(report.error ? [`  attention ${report.error}`] : []),
    '',
  ].join('\n')
}

export function describePlan(plan: RunPlan): string {
  const changes = counts({
    new: plan.added,
    changed: plan.changed,
    revived: plan.revived,
    'to mark deleted': plan.tombstoned,
  })
  return [
    `A run for ${plan.company} would take about ${formatSeconds(plan.estimated_seconds)} and ${pluralize(plan.requests, 'request')}:`,
    `  notices   ${formatCount(plan.listed)} listed; ${changes || 'none changed'}`,
    `  analyses  ${counts({ 'to fetch': plan.to_fetch, deferred: plan.deferred, 'not usable': plan.quarantined }) || 'none to fetch'}`,
    ...plan.problems.map(problem => `  attention ${problem}`),
    'Nothing was changed.',
    '',
  ].join('\n')
}

/** Returns what was kept of a damaged log: the output must show that something was lost. */
export function describeSalvage(salvaged: readonly Salvaged[], directory: string): string {
  if (salvaged.length === 0) return 'The raw log is intact: there is nothing to salvage.\n'
  const lines = salvaged.flatMap(({ segment, why, moved_to, kept }) => [
    `Segment ${segmentPath(directory, segment)} ${why}.`,
    `  kept      ${counts(kept) || 'nothing'}`,
    ...(moved_to ? [`  moved to  ${moved_to}`] : []),
  ])
  return `${lines.join('\n')}
\`editais sync\` fetches the lost notices and analyses again; with \`--full\` also those that changed without a new
updated_at. If a --full run was unfinished, start it again.
`
}

function counts(numbers: Readonly<Record<string, number>>): string {
  return Object.entries(numbers)
    .filter(([, count]) => count > 0)
    .map(([name, count]) => `${formatCount(count)} ${name}`)
    .join(', ')
}

/** A store that hangs does not hold a command that has printed its result. */
const SILENCE_MS = 4000

/**
 * Brings the latest snapshot to the object store, once a command has printed its result. Never throws, and does not
 * change the exit code: the local lake is right, and the next run tries again.
 */
export async function publishAfter(context: CompanyContext, log: Logger, what: string): Promise<void> {
  const { settings, signal } = context
  if (settings.remoteLake === null) return
  // The next publish finishes whatever is interrupted.
  const leave = () => endProcess(EXIT.interrupted)
  if (signal.aborted) return
  signal.addEventListener('abort', leave)
  const note = (text: string) =>
    void (process.stderr.isTTY ? process.stderr.write(`${makePrintableLines(text)}\n`) : log.info(text))
  try {
    const published = await publishBehind(
      context,
      { progress: () => {}, note },
      { what, silenceMs: SILENCE_MS },
    )
    if (published?.written)
      note(
        `Published ${published.snapshot} to the object store: ${pluralize(published.uploaded, 'new file')}, ${Math.ceil(published.bytesUploaded / 1000)} kB.`,
      )
  } catch (error) {
    warn(log, `The object store does not have the latest snapshot yet: ${explain(error).message}`)
  } finally {
    signal.removeEventListener('abort', leave)
  }
}

/** Prints a warning: for people as it is, for programs as a log line. Call it once the display has ended. */
export function warn(log: Logger, text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`${makePrintableLines(text)}\n`)
  else log.warn(text)
}
