import type { RunReport } from '#src/core/company/run_report.ts'
import type { Entry } from '#src/sandbox/world.ts'
import { editalRow } from '#test/support/rows.ts'
import { assertHolds } from './assertions.ts'
import type { Ledger, Shown } from './company.ts'
import { analysisText, noticeText, type Stored, type StoredNotice, saysTheSame } from './stored.ts'

/** I1, I9: each listed notice has one outcome, and the run sent no more requests than that takes. */
export function checkReport(
  report: RunReport,
  server: { requests: number; peakConcurrent: number },
  { concurrency, retries }: { concurrency: number; retries: number },
): void {
  const { unchanged, loaded, deferred, gone, quarantined, failed, not_attempted, listed } = report
  const outcomes = unchanged + loaded + deferred + gone + quarantined + failed + not_attempted
  assertHolds(
    outcomes === listed,
    () => `I1: ${listed} notices listed, ${outcomes} outcomes: ${JSON.stringify(report)}`,
  )
  const counts = Object.entries(report).filter(([, value]) => typeof value === 'number')
  assertHolds(
    counts.every(([, value]) => Number(value) >= 0),
    () => `I1: a negative count: ${JSON.stringify(report)}`,
  )
  assertHolds(
    report.status !== 'ok' || quarantined + failed + not_attempted === 0,
    () => `I1: the run is ok, but not everything was loaded: ${JSON.stringify(report)}`,
  )
  assertHolds(
    server.peakConcurrent <= concurrency,
    () => `I9: ${server.peakConcurrent} concurrent requests, ${concurrency} allowed`,
  )
  const most = (4 * (listed + 60) + 200) * (retries + 11)
  assertHolds(server.requests <= most, () => `I9: ${server.requests} requests for ${listed} notices`)
}

/** Each row matches a document that the API sent, and all rows of an analysis match one document. */
export function checkJustified(stored: Stored, ledger: Ledger): void {
  for (const [id, notice] of stored.notices) {
    const shown = ledger.notices.get(id) ?? []
    assertHolds(
      shown.some(({ entry }) => entry && noticeText(entry) === notice.text),
      () => `the row of ${id} matches no document that the API sent: ${notice.text}`,
    )
  }
  for (const [id, text] of stored.analyses) {
    const seqs = showings(ledger.analyses.get(id), text)
    assertHolds(
      seqs.length > 0,
      () => `I2: the analysis of ${id} and its rows match no document that the API sent: ${text}`,
    )
    const notice = stored.notices.get(id)
    assertHolds(notice !== undefined, () => `the analysis of ${id} has no notice`)
    if (notice.state !== 'current') continue
    assertHolds(
      stored.sources.get(id) === notice.updatedAt,
      () => `I3: the analysis of ${id} is marked current, but belongs to another updated_at`,
    )
    const since = firstShown(ledger.notices.get(id), notice.updatedAt)
    assertHolds(
      seqs.some(seq => seq > since),
      () =>
        `I3: the analysis of ${id} is marked current, but was last read before its updated_at was first sent`,
    )
  }
  for (const [id, { state }] of stored.notices)
    if (state === 'current')
      assertHolds(stored.analyses.has(id), () => `I3: ${id} is marked current, but has no analysis`)
}

function showings(shown: readonly Shown[] | undefined, text: string): number[] {
  return (shown ?? []).flatMap(({ seq, entry }) => (entry && analysisText(entry) === text ? [seq] : []))
}

function firstShown(shown: readonly Shown[] | undefined, updatedAt: number): number {
  const first = (shown ?? []).find(({ entry }) => entry && Number(editalRow(entry).updated_at) === updatedAt)
  return first?.seq ?? Number.POSITIVE_INFINITY
}

/** Checks a run that read the whole list and lost no answers. */
export function checkFresh(stored: Stored, { ofRun }: Ledger): void {
  for (const id of ofRun.notices.keys()) {
    if (ofRun.unusable.has(id)) continue
    const notice = stored.notices.get(id)
    assertHolds(notice !== undefined, () => `${id} was sent in this run, but has no row`)
    assertHolds(!notice.deleted, () => `I4: ${id} was sent in this run, but is marked deleted`)
    const shown = ofRun.notices.get(id) ?? []
    assertHolds(
      shown.some(({ entry }) => entry && saysTheSame(noticeText(entry), notice.text)),
      () => `${id}: its row matches no document that was sent in this run: ${notice.text}`,
    )
  }
}

/** I3: a run that reports ok leaves no analysis pending. */
export function checkNothingPending(stored: Stored, report: RunReport): void {
  const { status, mode, deferred, quarantined, failed, not_attempted, gone } = report
  if (status !== 'ok' || (mode !== 'full' && mode !== 'incremental')) return
  if (deferred + quarantined + failed + not_attempted + gone > 0) return
  for (const [id, { state, deleted }] of stored.notices)
    assertHolds(
      deleted || state === 'current',
      () => `I3: the run was ok, but the analysis of ${id} is ${state}`,
    )
}

/** A `--full` run that reports ok has read every analysis again. */
export function checkRefetched(stored: Stored, { analyses, ofRun }: Ledger, report: RunReport): void {
  if (report.status !== 'ok' || report.deferred + report.gone > 0) return
  for (const [id, { deleted }] of stored.notices) {
    const last = analyses.get(id)?.at(-1)?.seq ?? 0
    assertHolds(deleted || last > ofRun.since, () => `--full was ok, but the analysis of ${id} was not read`)
  }
}

/** I4, I10: only notices that were not listed and answered 404 are deleted, and never implausibly many. */
export function checkDeleted(
  before: Stored | null,
  after: Stored,
  { ofRun, absent }: Ledger,
  { trusted, losesAnswers, settled }: { trusted: boolean; losesAnswers: boolean; settled: boolean },
): void {
  const live = [...(before?.notices.values() ?? [])].filter(({ deleted }) => !deleted).length
  const fresh = [...after.notices].filter(
    ([id, notice]) => notice.deleted && before?.notices.get(id)?.deleted === false,
  )
  for (const [id] of fresh) {
    assertHolds(absent.has(id), () => `I4: ${id} is marked deleted, but no answer was 404`)
    assertHolds(
      // A notice listed without a usable id counts as not listed.
      losesAnswers || !settled || ofRun.unusable.has(id) || !ofRun.listed.has(id),
      () => `I4: ${id} is marked deleted, but was listed in this run`,
    )
  }
  const most = trusted ? Number.POSITIVE_INFINITY : Math.max(20, live * 0.05)
  assertHolds(
    !settled || fresh.length <= most,
    () => `I10: ${fresh.length} of ${live} notices were marked deleted at once`,
  )
}

/** I10: a run with another company's key changes nothing. */
export function checkUntouched(before: Stored | null, after: Stored, { status }: RunReport): void {
  assertHolds(status === 'failed', () => `I10: a run with another company's key ended ${status}`)
  assertHolds(
    JSON.stringify([...(before?.notices ?? [])].sort()) === JSON.stringify([...after.notices].sort()) &&
      JSON.stringify([...(before?.analyses ?? [])].sort()) === JSON.stringify([...after.analyses].sort()),
    () => `I10: a run with another company's key changed rows`,
  )
}

/** I6: published data is never lost. */
export function checkKept(before: Stored | null, after: Stored): void {
  for (const id of before?.notices.keys() ?? [])
    assertHolds(after.notices.has(id), () => `I6: ${id} was published, but has no row any more`)
  for (const id of before?.analyses.keys() ?? [])
    assertHolds(
      after.analyses.has(id),
      () => `I6: the analysis of ${id} was published, but has no row any more`,
    )
  for (const version of before?.history ?? [])
    assertHolds(after.history.has(version), () => `I6: a published version is missing: ${version}`)
}

/** The report's counts match the rows, provided that no document was lost or broken. */
export function checkCounts(
  before: Stored | null,
  after: Stored,
  { ofRun }: Ledger,
  report: RunReport,
): void {
  const shown = new Set([...ofRun.listed, ...ofRun.notices.keys()])
  const fresh = [...after.notices.keys()].filter(id => !before?.notices.has(id))
  const gone = [...after.notices].filter(
    ([id, { deleted }]) => deleted && before?.notices.get(id)?.deleted === false,
  )
  const counted = { listed: shown.size, added: fresh.length, tombstoned: gone.length }
  for (const [name, count] of Object.entries(counted))
    assertHolds(
      report[name as keyof typeof counted] === count,
      () => `I1: ${name} should be ${count}: ${JSON.stringify(report)}`,
    )
}

/** At the end, without faults, the warehouse matches the company. */
export function checkTruth(
  stored: Stored,
  world: { ids(): string[]; entry(id: string): Entry | undefined },
  { isExcluded, silentChangesSeen }: { isExcluded: (status: string) => boolean; silentChangesSeen: boolean },
): void {
  const live = [...stored.notices].filter(([, { deleted }]) => !deleted).map(([id]) => id)
  assertHolds(
    String(live.sort()) === String(world.ids().sort()),
    () => `live notices are ${live.sort()}, but the company has ${world.ids().sort()}`,
  )
  for (const id of live) {
    const entry = world.entry(id) as Entry
    const notice = stored.notices.get(id) as StoredNotice
    assertHolds(
      saysTheSame(notice.text, noticeText(entry)),
      () => `${id} is ${noticeText(entry)}, but its row is ${notice.text}`,
    )
    assertHolds(!stored.quarantined.has(`notice ${id}`), () => `${id} is valid, but still quarantined`)
    if (isExcluded(entry.edital.status)) continue
    assertHolds(
      !stored.quarantined.has(`analysis ${id}`),
      () => `the analysis of ${id} is valid, but still quarantined`,
    )
    assertHolds(notice.state === 'current', () => `the analysis of ${id} is ${notice.state} at the end`)
    if (!silentChangesSeen) continue
    const text = analysisText(entry)
    assertHolds(
      stored.analyses.get(id) === text,
      () => `the analysis of ${id} is ${text}, but its rows are ${stored.analyses.get(id)}`,
    )
  }
}
