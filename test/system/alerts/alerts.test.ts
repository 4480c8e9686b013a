import { expect, test } from 'vitest'
import { openOutbox } from '#jobs/alerts/outbox.ts'
import { ACCEPTED, type Alerter, REFUSED, setUpAlerts } from '#test/support/alerting.ts'
import { scanAll } from '#test/support/redis.ts'
import { arrived, holding, received } from '#test/support/webhook.ts'

const MINUTE = 60_000

test('a problem alerts once, and its recovery once', async () => {
  const { webhook, clock, worker } = await setUpAlerts()
  const alerts = worker()
  expect(await alerts.clear(ACCEPTED)).toBe(false)
  expect(await alerts.raise({ ...REFUSED, details: { status: 401 } })).toBe(true)
  expect(await alerts.active()).toMatchObject([{ name: 'key_refused', company: 'acme', subject: 'acme' }])
  for (let time = 0; time < 3; time += 1) {
    await alerts.deliver()
    clock.pass(MINUTE)
    expect(await alerts.raise({ ...REFUSED, message: 'In other words.' })).toBe(false)
  }
  expect(await alerts.clear(ACCEPTED)).toBe(true)
  expect(await alerts.clear(ACCEPTED)).toBe(false)
  await alerts.deliver()
  await alerts.deliver()

  const since = '2026-11-21T12:00:00.000Z'
  const shared = {
    ...{ company: 'acme', alert: 'key_refused', severity: 'critical', since, repeated: 0 },
    details: { status: 401 },
  }
  expect(webhook.messages).toEqual([
    {
      ...shared,
      id: expect.any(String),
      at: since,
      state: 'raised',
      message: 'The API refuses the key.',
      text: '[editais-sync] acme: The API refuses the key.',
    },
    {
      ...shared,
      id: expect.any(String),
      at: '2026-11-21T12:03:00.000Z',
      state: 'recovered',
      message: 'The API accepts the key again.',
      text: '[editais-sync] acme: The API accepts the key again.',
    },
  ])
  expect(new Set(webhook.messages.map(({ id }) => id)).size).toBe(2)
  expect(webhook.requests[0]).toMatchObject({
    method: 'POST',
    headers: { 'content-type': 'application/json' },
  })
  expect(await alerts.active()).toEqual([])
  expect(alerts.lines.map(({ level, alert, company, msg }) => [level, alert, company, msg])).toEqual([
    ['warn', 'key_refused', 'acme', 'The API refuses the key.'],
    ['info', 'key_refused', 'acme', 'The API accepts the key again.'],
  ])
})

test('alerts are separate by name, company and subject', async () => {
  const { webhook, worker } = await setUpAlerts()
  const alerts = worker()
  await alerts.raise(REFUSED)
  await alerts.raise({ ...REFUSED, company: 'boreal' })
  await alerts.raise({ ...REFUSED, name: 'stale' })
  await alerts.raise({ name: 'disk_low', company: null, subject: '/data', message: 'Full.' })
  await alerts.raise({ name: 'disk_low', company: null, subject: '/more', message: 'Full.' })
  await alerts.raise({ name: 'redis_evicts', company: null, message: 'Evicts.' })
  await alerts.deliver()
  expect(webhook.messages).toHaveLength(6)
  expect(webhook.messages.map(({ text }) => text)).toContain('[editais-sync] Evicts.')
  await alerts.clear({ name: 'disk_low', company: null, subject: '/data', message: 'Space.' })
  expect((await alerts.active()).map(({ name, subject }) => `${name} ${subject}`).sort()).toEqual([
    ...['disk_low /more', 'key_refused acme', 'key_refused boreal', 'redis_evicts worker', 'stale acme'],
  ])
})

test('two workers that raise and deliver at the same time send one alert', async () => {
  const { webhook, worker } = await setUpAlerts()
  const workers = [worker(), worker()]
  const all = (act: (alerts: Alerter) => Promise<unknown>) =>
    Promise.all(Array.from({ length: 100 }, (_, index) => act(workers[index % 2] as Alerter)))
  webhook.answer = (_, response) => void setTimeout(() => response.end('ok'), 20)
  for (const [act, news] of [
    ['raise', REFUSED],
    ['clear', ACCEPTED],
  ] as const) {
    const changed = await all(alerts => alerts[act](news))
    expect(changed.filter(Boolean)).toHaveLength(1)
    await all(alerts => alerts.deliver())
  }
  expect(received(webhook)).toEqual(['key_refused raised', 'key_refused recovered'])
})

test('a problem that ends before its alert is sent sends nothing', async () => {
  const { redis, webhook, worker } = await setUpAlerts()
  const alerts = worker()
  await alerts.raise(REFUSED)
  await alerts.clear(ACCEPTED)
  await alerts.deliver()
  expect(webhook.messages).toEqual([])
  expect(await scanAll(redis.url, redis.prefix)).toBe('')
})

test('a problem that returns before its recovery is sent sends nothing new', async () => {
  const { webhook, clock, worker } = await setUpAlerts()
  const alerts = worker()
  await alerts.raise(REFUSED)
  await alerts.deliver()
  clock.pass(MINUTE)
  await alerts.clear(ACCEPTED)
  await alerts.raise(REFUSED)
  await alerts.deliver()
  expect(received(webhook)).toEqual(['key_refused raised'])
  await alerts.clear(ACCEPTED)
  await alerts.deliver()
  expect(received(webhook)).toEqual(['key_refused raised', 'key_refused recovered'])
  expect(webhook.messages[1]?.since).toBe('2026-11-21T12:00:00.000Z')
})

test('a restart changes neither the known alerts nor what was sent', async () => {
  const { webhook, worker } = await setUpAlerts()
  const first = worker()
  await first.raise(REFUSED)
  await first.deliver()
  await first.raise({ ...REFUSED, name: 'stale' })
  first.redis.disconnect()
  const second = worker()
  expect(await second.active()).toHaveLength(2)
  expect(await second.raise(REFUSED)).toBe(false)
  await second.deliver()
  await second.clear(ACCEPTED)
  await second.deliver()
  expect(received(webhook)).toEqual(['key_refused raised', 'stale raised', 'key_refused recovered'])
})

test('without a webhook alerts are kept and logged; a webhook added later gets only the active ones', async () => {
  const { webhook, worker } = await setUpAlerts()
  const alerts = worker({ webhookUrl: null })
  await alerts.raise(REFUSED)
  await alerts.raise({ ...REFUSED, name: 'stale' })
  await alerts.clear({ ...ACCEPTED, name: 'stale' })
  await alerts.deliver()
  expect(await alerts.active()).toHaveLength(1)
  expect(alerts.lines).toHaveLength(3)
  await worker().deliver()
  expect(received(webhook)).toEqual(['key_refused raised'])
})

test('an alert with a settling time is sent only if it lasts', async () => {
  const { webhook, clock, worker } = await setUpAlerts()
  const alerts = worker()
  const settling = { settleMs: 20_000 }
  const step = async (act: 'raise' | 'clear') => {
    await alerts[act]({ ...(act === 'raise' ? REFUSED : ACCEPTED), ...settling })
    await alerts.deliver()
    clock.pass(15_000)
    await alerts.deliver()
  }
  for (const act of ['raise', 'clear', 'raise'] as const) await step(act)
  expect(webhook.messages).toEqual([])
  clock.pass(5000)
  await alerts.deliver()
  for (const act of ['clear', 'raise', 'clear'] as const) await step(act)
  expect(received(webhook)).toEqual(['key_refused raised'])
  clock.pass(5000)
  await alerts.deliver()
  expect(received(webhook)).toEqual(['key_refused raised', 'key_refused recovered'])
})

test('a forgotten company leaves nothing in Redis, even if a message is still being sent', async () => {
  const { redis, webhook, worker } = await setUpAlerts()
  const alerts = worker()
  await alerts.raise({ ...REFUSED, company: 'boreal' })
  const { waiting } = holding(webhook)
  await alerts.raise(REFUSED)
  await alerts.forget('boreal')
  const delivered = alerts.deliver()
  await arrived(webhook, 1)
  await alerts.forget('acme')
  await alerts.raise({ ...REFUSED, message: 'Another time.' })
  waiting[0]?.end()
  await delivered
  expect(await openOutbox(alerts.redis, redis.prefix).all()).toMatchObject([
    { receipts: {}, message: 'Another time.' },
  ])
  await alerts.forget('acme')
  expect(await scanAll(redis.url, redis.prefix)).toBe('')
  expect(webhook.messages.map(({ company }) => company)).toEqual(['acme'])
})

test('a long message of several lines becomes one short line', async () => {
  const { webhook, worker } = await setUpAlerts()
  const alerts = worker()
  await alerts.raise({ ...REFUSED, message: `One\n two ${'x'.repeat(5000)}` })
  await alerts.deliver()
  expect(webhook.messages[0]?.message).toMatch(/^One two x{992}$/)
})
