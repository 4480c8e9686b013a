import { expect, test, vi } from 'vitest'
import { DAEMON_TEST, startDaemon, until } from '#test/support/daemon.ts'
import { nextRun, OFTEN, redisSettings } from '#test/support/daemon_runs.ts'
import { startReceiver } from '#test/support/otlp.ts'
import { startRemote } from '#test/support/remote_lake.ts'
import { KEY } from '#test/support/synced.ts'
import { endpoint, NOT_SENT, TOKEN } from '#test/support/traces.ts'

vi.setConfig(DAEMON_TEST)

test('each run of a daemon is a trace, and so is each publish to the object store; secrets are in none', async () => {
  const remote = await startRemote({ SYNC_CRON: OFTEN })
  const { url, received } = await startReceiver()
  const headers = { OTEL_EXPORTER_OTLP_HEADERS: `x-token=${TOKEN}` }
  const environment = { ...remote.environment, ...(await redisSettings()), ...endpoint(url, headers) }
  const daemon = await startDaemon(environment, { env: { LOG_LEVEL: 'trace' } })
  const run = await nextRun(daemon, 'acme', 0)
  await until(() => received.length >= 2, { what: 'two traces' })
  const rootOf = (name: string) =>
    received.flatMap(({ spans }) => spans.filter(span => span.name === name && span.parentSpanId === ''))[0]
  expect(rootOf('sync')?.attributes).toMatchObject({
    'editais.company': 'acme',
    'editais.run_id': run.run_id,
    'editais.job': run.job,
    'editais.loaded': run.loaded,
    'editais.status': 'ok',
  })
  const upload = received.flatMap(({ spans }) => spans).find(({ name }) => name === 'upload')
  expect(upload?.parentSpanId).toBe(rootOf('object_store')?.spanId)
  expect(received.every(trace => trace.headers['x-token'] === TOKEN)).toBe(true)
  expect(await daemon.stop()).toBe(0)
  const texts = [JSON.stringify(daemon.lines), ...received.map(({ body }) => body.toString('latin1'))].join()
  expect(texts).toContain('run finished')
  for (const secret of [TOKEN, KEY]) expect(texts).not.toContain(secret)
})

test('a collector that hangs fails no run of a daemon', async () => {
  const remote = await startRemote({ SYNC_CRON: OFTEN })
  const { url, received } = await startReceiver(response => void response.write('x'))
  const environment = { ...remote.environment, ...(await redisSettings()), ...endpoint(url) }
  const daemon = await startDaemon(environment)
  expect(await nextRun(daemon, 'acme', 0)).toMatchObject({ status: 'ok' })
  const line = await daemon.waitFor(({ msg }) => msg.startsWith(NOT_SENT))
  expect(line).toMatchObject({ level: 'warn', company: 'acme' })
  remote.world.update(remote.world.ids()[0] as string, { edital: { objeto: 'Outro' } })
  expect(await nextRun(daemon, 'acme')).toMatchObject({ status: 'ok', changed: 1 })
  expect(received.length).toBeGreaterThan(0)
  expect(await daemon.stop()).toBe(0)
})
