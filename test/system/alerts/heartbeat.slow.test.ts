import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test, vi } from 'vitest'
import { readSchedule } from '#config/daemon.ts'
import { createHeartbeat } from '#jobs/alerts/receivers.ts'
import { createLogger } from '#src/lib/log.ts'
import { startCompanies } from '#test/support/companies.ts'
import { DAEMON_TEST, startDaemon, until } from '#test/support/daemon.ts'
import { NEVER, nextRun, OFTEN, redisSettings, startAcme } from '#test/support/daemon_runs.ts'
import { notices } from '#test/support/notices.ts'

vi.setConfig(DAEMON_TEST)

const TOKEN = 'h34rtb34t-5up3r-s3cr3t'

/** A heartbeat receiver, with the requests that it got, in order. */
async function startReceiver() {
  const asked: string[] = []
  const receiver = {
    asked,
    answer: (_: IncomingMessage, response: ServerResponse) => void response.end('ok'),
    url: '',
  }
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`)
    receiver.answer(request, response)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  receiver.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/ping/${TOKEN}/{company}`
  return receiver
}

test('each good run sends a heartbeat, and no other run does', async () => {
  const receiver = await startReceiver()
  const { company, environment } = await startAcme(notices(1, 3), {
    SYNC_CRON: OFTEN,
    HEARTBEAT_URL: receiver.url,
    LOG_LEVEL: 'trace',
  })
  const daemon = await startDaemon(environment, { env: { LOG_LEVEL: 'trace' } })
  await until(() => receiver.asked.length >= 2, { what: 'two heartbeats' })
  expect(new Set(receiver.asked)).toEqual(new Set([`GET /ping/${TOKEN}/acme`]))
  company.sandbox.revoke(company.environment.API_KEY ?? '')
  await daemon.waitFor(({ msg, status }) => msg === 'run finished' && status === 'failed')
  const { length } = receiver.asked
  expect(await nextRun(daemon, 'acme')).toMatchObject({ status: 'failed' })
  expect(await nextRun(daemon, 'acme')).toMatchObject({ status: 'failed' })
  expect(receiver.asked).toHaveLength(length)
  expect(JSON.stringify(daemon.lines)).not.toContain(TOKEN)
})

test('a failed heartbeat is retried and logged once, and logged again when it recovers', async () => {
  const receiver = await startReceiver()
  const lines: Record<string, unknown>[] = []
  const log = createLogger('trace', {}, { write: line => void lines.push(JSON.parse(line)) })
  const heartbeat = createHeartbeat({ log, pausesMs: [1, 1] })
  const acme = {
    slug: 'acme',
    schedule: readSchedule({ COMPANY: 'acme', HEARTBEAT_URL: receiver.url }),
  }
  receiver.answer = (_, response) => void response.writeHead(503).end()
  await heartbeat(acme)
  expect(receiver.asked).toHaveLength(3)
  receiver.answer = (_, response) => void response.destroy()
  await heartbeat(acme)
  expect(lines).toMatchObject([
    {
      level: 'error',
      company: 'acme',
      msg: expect.stringMatching(
        /^The heartbeat at 127\.0\.0\.1:\d+ rejected the request \(503\)\. Check HEARTBEAT_URL\.$/,
      ),
    },
  ])
  receiver.answer = (_, response) => void response.end('ok')
  await heartbeat(acme)
  expect(lines.slice(1)).toMatchObject([
    { level: 'info', msg: expect.stringMatching(/is accepted again\.$/) },
  ])
  expect(JSON.stringify(lines)).not.toContain(TOKEN)
  await heartbeat({ slug: 'boreal', schedule: readSchedule({ COMPANY: 'boreal' }) })
  expect(receiver.asked).toHaveLength(7)
})

test("a company's own heartbeat address in the companies' file overrides that of the environment", async () => {
  const receiver = await startReceiver()
  const companies = await startCompanies(['acme', 'boreal'])
  const own = `${new URL(receiver.url).origin}/own`
  await companies.configure({ acme: { sync_cron: NEVER, heartbeat_url: own }, boreal: { sync_cron: NEVER } })
  const daemon = await startDaemon({
    ...companies.environment,
    ...(await redisSettings()),
    HEARTBEAT_URL: receiver.url,
  })
  await until(() => receiver.asked.length === 2, { what: 'two heartbeats' })
  expect(receiver.asked.toSorted()).toEqual(['GET /own', `GET /ping/${TOKEN}/boreal`])
  expect(await daemon.stop()).toBe(0)
})

test('an invalid address is refused without being shown', () => {
  expect(() => readSchedule({ HEARTBEAT_URL: TOKEN })).toThrow(
    'HEARTBEAT_URL=(not shown): must be an http or https address.',
  )
})
