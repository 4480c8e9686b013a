import { expect, test, vi } from 'vitest'
import { listSealedSegments } from '#src/core/rawlog/files.ts'
import { DAEMON_TEST, killProcess, startDaemon, until } from '#test/support/daemon.ts'
import { nextRun, runsOf, startAcme, startTwoWorkers } from '#test/support/daemon_runs.ts'
import { holdAfter } from '#test/support/held.ts'
import { startSharedLog } from '#test/support/hosts.ts'
import { bareNotice, notices } from '#test/support/notices.ts'
import { rawDirectory, readLog } from '#test/support/prepared.ts'
import { asked, expectTruth, idsBut, publishedAnalyses } from '#test/support/truth.ts'
import type { S3Request } from '#tools/s3_server.ts'

vi.setConfig(DAEMON_TEST)

test('if a worker is killed together with its run, another one refetches nothing that was sealed', async () => {
  // More analyses than a segment holds, so that some are sealed during the run: each half of those to come.
  const total = 3200
  const { company, environment } = await startAcme(
    Array.from({ length: total }, (_, index) => bareNotice(index + 1)),
  )
  const held = holdAfter(company.sandbox, 'analysis', { passing: 3100 })
  const { busy, idle } = await startTwoWorkers(environment)
  await held.reached
  const raw = rawDirectory(company.environment)
  await until(async () => (await listSealedSegments(raw)).length >= 6, {
    what: 'four sealed segments of analyses',
  })
  const [run = 0] = busy.runs()
  await Promise.all([busy.kill(), killProcess(run)])
  held.release()
  const sealed = (await readLog(company)).filter(({ type }) => type === 'analysis')
  const sealedIds = sealed.map(({ edital_id }) => String(edital_id))
  expect(sealedIds.length).toBeGreaterThanOrEqual(3000)
  expect(sealedIds.length).toBeLessThan(3100)
  expect(runsOf(busy)).toEqual([])
  company.sandbox.requests.reset()

  expect(await nextRun(idle, 'acme', 0)).toMatchObject({ status: 'ok', unchanged: sealedIds.length })
  expect(asked(company, 'analysis')).toEqual(idsBut(total, sealedIds))
  await expectTruth(company)
  expect(await publishedAnalyses(company)).toHaveLength(total)
})

const ENDS_WITHIN_MS = 5000

test.each<[what: string, lake: object, isMeant: (request: S3Request) => boolean]>([
  ['the log', {}, ({ key }) => key.endsWith('owner.json')],
  ['a segment', {}, ({ method, key }) => method === 'PUT' && key.includes('/log/')],
  ['the lake', { LAKE_URL: 's3://lake/bi' }, ({ key }) => key.startsWith('bi/')],
])('a worker ends within seconds if the store of %s hangs', async (_, lake, isMeant) => {
  const { s3, settings } = await startSharedLog()
  const { environment } = await startAcme(notices(1, 12), { ...settings, ...lake })
  const reached = Promise.withResolvers<void>()
  s3.gate = async request => {
    if (!isMeant(request)) return
    reached.resolve()
    await new Promise(() => {})
  }
  const daemon = await startDaemon(environment)
  await reached.promise
  const startedMs = performance.now()
  expect(await daemon.stop()).toBe(0)
  expect(performance.now() - startedMs).toBeLessThan(ENDS_WITHIN_MS)
  expect(daemon.lines.map(({ msg }) => msg).join('\n')).not.toContain('    at ')
})
