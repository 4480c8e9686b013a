import { expect, test, vi } from 'vitest'
import { DAEMON_TEST, startDaemon } from '#test/support/daemon.ts'
import { nextRun, requestSync, startAcme, untilIdle } from '#test/support/daemon_runs.ts'
import { notices } from '#test/support/notices.ts'
import { readMetrics } from '#test/support/prometheus.ts'

vi.setConfig(DAEMON_TEST)

test('a short run logs one line, and its duration includes publishing', async () => {
  const { environment } = await startAcme(notices(1, 30))
  const daemon = await startDaemon(environment)
  const first = await nextRun(daemon, 'acme', 0)
  await untilIdle(daemon)
  await requestSync(daemon, 'acme')
  const second = await nextRun(daemon, 'acme')
  await untilIdle(daemon)
  // The first opening of the warehouse may take long enough to be logged.
  const ofSecond = daemon.lines.filter(line => line.run_id === second.run_id)
  expect(ofSecond.map(({ msg }) => msg)).toEqual(['run finished'])

  const untilReport = ({ started_at, finished_at }: typeof first) =>
    (Date.parse(finished_at ?? '') - Date.parse(started_at)) / 1000
  // The report is part of the snapshot, so it ends before the snapshot is published.
  expect(Number(first.seconds)).toBeGreaterThan(untilReport(first))
  const scraped = await readMetrics(await (await daemon.ask('/metrics')).text())
  const durations = scraped.get('editais_run_duration_seconds')?.values ?? {}
  expect(durations['company=acme,mode=incremental,count']).toBe(2)
  expect(durations['company=acme,mode=incremental,sum']).toBeCloseTo(
    Number(first.seconds) + Number(second.seconds),
    6,
  )
})
