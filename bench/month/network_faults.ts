import type { RunReport, RunStatus } from '#src/core/company/run_report.ts'
import type { Fault } from '#src/sandbox/faults.ts'
import { computeFraction } from '#src/sandbox/random.ts'

/** Share of the hours with network faults. */
const SHARE_OF_HOURS = 0.05
/** This many analyses are cut in half, if as many are requested. */
const TRUNCATED = 2

/** The network faults of an hour, and how the run of that hour must end. */
export type NetworkFaults = {
  readonly name: 'fair' | 'refused' | 'cut' | 'truncated' | 'failing' | 'away'
  readonly faults: readonly Fault[]
  readonly ends: (report: RunReport) => RunStatus
}

const attempted = ({ loaded, gone, quarantined, failed }: RunReport) => loaded + gone + quarantined + failed

export const FAIR: NetworkFaults = { name: 'fair', faults: [], ends: () => 'ok' }

/** Each is drawn in proportion to its number of entries. */
const BAD: readonly NetworkFaults[] = [
  // A burst of 503 answers: the run waits and retries.
  ...twice({
    ...FAIR,
    name: 'refused',
    faults: [{ fault: 'status', status: 503, skip: 10, first: 5 }],
  }),
  // Connections reset before or during an answer: the run retries.
  ...twice({
    ...FAIR,
    name: 'cut',
    faults: [
      { fault: 'reset', when: 'before_headers', probability: 0.05 },
      { fault: 'reset', when: 'mid_body', probability: 0.05 },
    ],
  }),
  // Half an analysis is quarantined and requested again an hour later.
  ...twice({
    name: 'truncated',
    faults: [{ fault: 'truncate', kinds: ['analysis'], first: TRUNCATED }],
    ends: report => (attempted(report) > 0 ? 'partial' : 'ok'),
  }),
  // No analysis is available: all wait for the next hour.
  ...twice({
    name: 'failing',
    faults: [{ fault: 'status', status: 500, kinds: ['analysis'] }],
    ends: report => (attempted(report) > 0 ? 'partial' : 'ok'),
  }),
  // Nothing is available.
  { name: 'away', faults: [{ fault: 'status', status: 500 }], ends: () => 'failed' },
]

function twice(networkFaults: NetworkFaults): readonly [NetworkFaults, NetworkFaults] {
  return [networkFaults, networkFaults]
}

/** The network faults of an hour; the same seed gives the same faults. */
export function networkFaultsAt(seed: string, hour: number): NetworkFaults {
  const at = computeFraction(`${seed} weather ${hour}`) / SHARE_OF_HOURS
  return BAD[Math.floor(at * BAD.length)] ?? FAIR
}

/** Values of a report that are unexpected with these network faults and this number of notices. */
export function complaints(
  report: RunReport,
  about: { networkFaults: NetworkFaults; notices: number; requests: number },
): string[] {
  const { networkFaults, notices, requests } = about
  const away = networkFaults.name === 'away'
  const quarantined = networkFaults.name === 'truncated' ? Math.min(TRUNCATED, attempted(report)) : 0
  const expected: Partial<RunReport> = {
    status: networkFaults.ends(report),
    requests,
    listed: away ? 0 : notices,
    ...(away ? {} : { scan_complete: true }),
    ...(networkFaults.name === 'failing' ? { loaded: 0 } : { quarantined, failed: 0, not_attempted: 0 }),
  }
  return Object.entries(expected).flatMap(([name, value]) => {
    const is = report[name as keyof RunReport]
    return is === value
      ? []
      : [`${networkFaults.name}: ${name} is ${is}, not ${value}: ${JSON.stringify(report)}`]
  })
}

/** Invariant I1, computed without the measured code. */
export function isConserved(report: RunReport): boolean {
  const { unchanged, loaded, deferred, gone, quarantined, failed, not_attempted } = report
  return report.listed === unchanged + loaded + deferred + gone + quarantined + failed + not_attempted
}
