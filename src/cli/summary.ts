import type { RunReport } from '#src/core/company/run_report.ts'
import type { PublishedFigures } from '#src/core/lake/publish.ts'
import { segmentPath } from '#src/core/rawlog/files.ts'
import type { Salvaged } from '#src/core/rawlog/salvage.ts'
import { counted, formatCount } from '#src/lib/count.ts'
import type { RunPlan } from '#src/operate/plan.ts'
import { formatSeconds } from '../lib/count.ts'

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
    `${report.status.toUpperCase()}  ${report.mode === 'replay' ? 'replay' : `${report.mode} sync`} in ${formatSeconds(seconds)}, ${counted(report.requests, 'request')}`,
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
    `A run for ${plan.company} would take about ${formatSeconds(plan.estimated_seconds)} and ${counted(plan.requests, 'request')}:`,
    `  notices   ${formatCount(plan.listed)} listed; ${changes || 'none changed'}`,
    `  analyses  ${counts({ 'to fetch': plan.to_fetch, deferred: plan.deferred, 'not usable': plan.quarantined }) || 'none to fetch'}`,
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
