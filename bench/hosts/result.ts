import { renderTable } from '#src/cli/table.ts'
import { type Verdict, verdict } from '../bars.ts'
import { describeMachine, round, verdictCells } from '../result.ts'
import type { HostsBench } from './bench.ts'
import type { Storm } from './storm.ts'
import type { Takeover } from './takeover.ts'

const FIRST_SEGMENT_SECONDS = 15

export function judgeHosts(takeover: Takeover | null, storm: Storm | null): Verdict[] {
  return [
    ...(takeover
      ? [
          verdict(
            'an empty disk: to its first segment, s',
            takeover.firstSegmentSeconds,
            'most',
            FIRST_SEGMENT_SECONDS,
          ),
        ]
      : []),
    ...(storm
      ? [
          verdict('companies that differ from their API', storm.wrong.length, 'most', 0),
          verdict('analyses requested again although sealed', storm.repeated, 'most', 0),
          verdict('runs of one company at the same time', storm.overlaps, 'most', 0),
          verdict('runs that sealed something after a later one had', storm.interleaved, 'most', 0),
        ]
      : []),
    ...(storm?.requestOverlap
      ? [verdict('runs that requested analyses after another host had', storm.requestOverlap.runs, 'most', 0)]
      : []),
  ]
}

export function describeHosts({ machine, settings, takeover, storm, bars }: HostsBench): string {
  const { notices, latency, companies, small, workers, seconds } = settings
  const rows = [
    ...(takeover
      ? [
          [
            `${notices.toLocaleString('en-US')} notices, ${latency} ms: first run, s`,
            round(takeover.fullSeconds, 1),
          ],
          ['0.5 % changed, on the same host, s', round(takeover.ownSeconds, 1)],
          ['0.5 % changed, on an empty disk, s', round(takeover.seconds, 1)],
          ['… to its first segment, s', round(takeover.firstSegmentSeconds, 1)],
          ['… the same without a checkpoint, from the log, s', round(takeover.fromLogSeconds, 1)],
          ['requests to the store: nothing changed', takeover.requests.nothing],
          ['… 0.5 % changed', takeover.requests.own],
          ['… 0.5 % changed, on an empty disk', takeover.requests.taken],
          ['size of the log, MB', Math.round(takeover.logBytes / 1e6)],
        ]
      : []),
    ...(storm
      ? [
          [
            `${companies} companies of ${small} notices, ${workers} workers, ${seconds} s: hosts lost`,
            storm.losses,
          ],
          ...(storm.cuts === null ? [] : [[`hosts cut off for up to ${settings.cut} s`, storm.cuts]]),
          ['pauses of the store', storm.pauses],
          ['changes', storm.changes],
          ['runs that ended with a report', storm.runs],
          ['runs that ended because another host had taken over', storm.takenOver],
          ['requests for analyses', storm.requests],
          ['… of distinct versions', storm.distinct],
          ...(storm.requestOverlap
            ? [['… that may have been sent before a cut and arrived after it', storm.requestOverlap.late]]
            : []),
          ['companies that differ', storm.wrong.length],
        ]
      : []),
  ].map(([figure, value]) => ({ figure, value }))
  return [
    describeMachine(machine),
    renderTable(['figure', 'value'], rows),
    renderTable(['bar', 'value', 'limit', 'verdict'], bars.map(verdictCells)),
    ...(storm?.wrong ?? []),
  ].join('\n')
}
