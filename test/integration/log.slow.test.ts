import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { until } from '#test/support/daemon.ts'
import { notices } from '#test/support/notices.ts'
import { startCommand } from '#test/support/project.ts'
import { askAt } from '#test/support/serve.ts'
import { runShared } from '#test/support/shared.ts'
import { startSynced } from '#test/support/synced.ts'

/** More lines than a pipe and the buffer of the process hold. */
const REQUESTS = 9000
const AT_ONCE = 30

test('a log that is not read stops no server: lines are dropped and counted, and the gap is marked', async () => {
  const company = await startSynced(notices(1, 2))
  const { environment } = company
  const key = (await runShared(['keys', 'create', '--description', 'CRM'], environment)).stdout.trim()
  const started = startCommand(
    ['serve'],
    { ...environment, HTTP_PORT: '0', LOG_LEVEL: 'info' },
    environment.DATA_DIR as string,
  )
  const { stderr } = started.child
  let text = ''
  stderr?.on('data', chunk => {
    text += chunk
  })
  const url = await until(() => /Listening on (http:\S+?);/.exec(text)?.[1], { what: 'the address' })
  const ask = (path: string, headers = {}) => askAt(`${url}${path}`, { method: 'GET', headers })
  await until(async () => (await ask('/api/v1/editais', { 'x-api-key': key })).status === 200, {
    what: 'the snapshot',
  })
  stderr?.pause()
  // Each request logs a line of about 250 bytes.
  let left = REQUESTS
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      while (left-- > 0) await ask(`/api/v1/editais/none-${left}`, { 'x-api-key': key })
    }),
  )
  expect((await ask('/healthz')).status).toBe(200)
  const metrics = (await ask('/metrics')).body.toString()
  const [, dropped] = /^editais_log_lines_dropped_total (\d+)$/m.exec(metrics) ?? []
  expect(Number(dropped)).toBeGreaterThan(0)

  stderr?.resume()
  await sleep(100)
  await ask('/api/v1/editais/after', { 'x-api-key': key })
  await until(() => text.includes('/editais/after'), { what: 'the line after the gap' })
  expect(text).toContain('log lines dropped here because stderr was not read in time.')
  expect(text.length).toBeLessThan(3_000_000)

  // The unread log does not keep the process from ending either.
  stderr?.pause()
  left = REQUESTS
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      while (left-- > 0) await ask('/api/v1/editais', { 'x-api-key': key })
    }),
  )
  const exited = new Promise(resolve => started.child.once('exit', resolve))
  started.child.kill('SIGTERM')
  expect(await exited).toBe(0)
})
