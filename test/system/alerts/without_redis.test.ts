import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { readDaemonSettings } from '#config/daemon.ts'
import { createAlerts } from '#jobs/alerts/alerts.ts'
import { inspect } from '#jobs/alerts/inspect.ts'
import { openQueues } from '#jobs/queues/queue.ts'
import { createLogger } from '#src/lib/log.ts'
import { ACCEPTED, REFUSED, startClock } from '#test/support/alerting.ts'
import { DAEMON_TEST, startDaemon, until } from '#test/support/daemon.ts'
import { NEVER } from '#test/support/daemon_runs.ts'
import { temporaryDirectory } from '#test/support/project.ts'
import { openRedis, type RedisProxy, startProxy } from '#test/support/redis.ts'
import { arrived, holding, received, startWebhook } from '#test/support/webhook.ts'

vi.setConfig(DAEMON_TEST)

const MINUTE = 60_000

/** A worker's alerts and queues, through a proxy to Redis. */
async function startWorker() {
  const redis = await openRedis()
  const proxy = await startProxy(redis.url)
  const webhook = await startWebhook()
  const clock = startClock()
  const log = createLogger('silent', {})
  const queues = openQueues({ url: proxy.url, prefix: redis.prefix }, log)
  onTestFinished(() => queues.close())
  await queues.redis.ping()
  const settings = readDaemonSettings({ ALERT_WEBHOOK_URL: webhook.url }).alerts
  const options = { redis: queues.redis, prefix: redis.prefix, settings, log, now: clock }
  return { proxy, webhook, clock, queues, alerts: createAlerts(options), redis, log }
}

async function cut(proxy: RedisProxy, { problem }: { problem(): unknown }): Promise<void> {
  await proxy.cut()
  await expect.poll(problem).not.toBeNull()
}

test('without Redis a new alert is sent once, and alerts that were sent before are not repeated', async () => {
  const { proxy, webhook, queues, alerts } = await startWorker()
  await alerts.raise(REFUSED)
  await alerts.deliver()
  await cut(proxy, queues)
  const boreal = { ...REFUSED, company: 'boreal' }
  for (let time = 0; time < 3; time += 1) {
    await alerts.raise(REFUSED)
    await alerts.raise(boreal)
    await alerts.deliver()
  }
  await alerts.clear(ACCEPTED)
  await alerts.deliver()
  const sent = ['key_refused raised', 'key_refused raised', 'key_refused recovered']
  expect(received(webhook)).toEqual(sent)
  expect(webhook.messages.map(({ company }) => company)).toEqual(['acme', 'boreal', 'acme'])

  await proxy.mend()
  await expect.poll(() => queues.redis.status, { timeout: 10_000 }).toBe('ready')
  expect(await alerts.raise(boreal)).toBe(false)
  await alerts.deliver()
  expect(await alerts.active()).toMatchObject([
    { company: 'boreal', receipts: { webhook: { state: 'raised' } } },
  ])
  expect(received(webhook)).toEqual(sent)
})

test('without Redis an alert that is being sent is not sent twice', async () => {
  const { proxy, webhook, queues, alerts } = await startWorker()
  await cut(proxy, queues)
  await alerts.raise(REFUSED)
  const { waiting } = holding(webhook)
  const first = alerts.deliver()
  await arrived(webhook, 1)
  // Every run that ends delivers alerts, even while one is being sent.
  await alerts.deliver()
  expect(received(webhook)).toEqual(['key_refused raised'])
  waiting[0]?.end()
  await first
  await alerts.deliver()
  expect(received(webhook)).toEqual(['key_refused raised'])
  await alerts.clear(ACCEPTED)
  webhook.answer = (_, response) => void response.end('ok')
  await alerts.deliver()
  expect(received(webhook)).toEqual(['key_refused raised', 'key_refused recovered'])
})

test('an outage of Redis alerts once it lasts, and its end sends the recovery', async () => {
  const { proxy, webhook, clock, queues, alerts, redis, log } = await startWorker()
  const look = async () => {
    await inspect({
      queues,
      alerts,
      log,
      startedAt: clock(),
      now: clock(),
      isActive: () => false,
      settings: { redis: { prefix: redis.prefix } },
      registry: { companies: new Map(), broken: new Map(), problem: 'companies.yaml is broken.' },
    })
    await alerts.deliver()
  }
  await cut(proxy, queues)
  await look()
  expect(webhook.messages).toEqual([])
  clock.pass(MINUTE)
  await look()
  // Problems with the file are found without Redis too.
  expect(received(webhook).sort()).toEqual(['redis_unusable raised', 'wrong_configuration raised'])
  const about = webhook.messages.find(({ alert }) => alert === 'redis_unusable')
  expect(about?.message).toMatch(
    /^A worker cannot use Redis, so it starts no runs\. Redis at 127\.0\.0\.1:\d+ does not answer \(\w+\)\. Start it, or set REDIS_URL\./,
  )
  await proxy.mend()
  await expect.poll(queues.problem, { timeout: 10_000 }).toBeNull()
  clock.pass(MINUTE)
  await look()
  clock.pass(MINUTE)
  await look()
  expect(received(webhook).slice(2)).toEqual(['redis_unusable recovered'])
})

test("a companies' file that changes while Redis is down is reread", async () => {
  const directory = await temporaryDirectory()
  const file = join(directory, 'companies.yaml')
  const company = (slug: string) =>
    `  ${slug}: { api_base_url: "http://127.0.0.1:9", api_key_file: /none, sync_cron: "${NEVER}" }\n`
  await writeFile(file, `companies:\n${company('acme')}`)
  const proxy = await startProxy((await openRedis()).url)
  const daemon = await startDaemon({
    COMPANIES_FILE: file,
    DATA_DIR: join(directory, 'data'),
    REDIS_URL: proxy.url,
    REDIS_PREFIX: 'followed',
  })
  await until(async () => (await daemon.ask('/readyz')).status === 200, { what: 'a ready worker' })
  await proxy.cut()
  await daemon.waitFor(({ msg }) => msg.includes('does not answer'))
  await writeFile(file, `companies:\n${company('acme')}${company('boreal')}`)
  const status = async () => (await daemon.ask('/companies/boreal/status')).status
  // Known, but without a snapshot.
  await until(async () => (await status()) === 409, { what: 'the new company', withinMs: 10_000 })
  await writeFile(file, 'companies: [')
  const ready = async () => JSON.stringify(await (await daemon.ask('/readyz')).json())
  await until(async () => (await ready()).includes(file), { what: 'the broken file', withinMs: 10_000 })
})
