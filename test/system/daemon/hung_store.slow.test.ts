import { expect, test, vi } from 'vitest'
import { DAEMON_TEST, startDaemon } from '#test/support/daemon.ts'
import { startAcme } from '#test/support/daemon_runs.ts'
import { startSharedLog } from '#test/support/hosts.ts'
import { notices } from '#test/support/notices.ts'
import type { S3Request } from '#tools/s3_server.ts'

vi.setConfig(DAEMON_TEST)

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
