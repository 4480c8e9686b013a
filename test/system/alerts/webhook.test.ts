import type { RedisKey } from 'ioredis'
import { expect, it, test } from 'vitest'
import { post, visit } from '#jobs/alerts/receivers.ts'
import { ACCEPTED, REFUSED, setUpAlerts } from '#test/support/alerting.ts'
import { scanAll } from '#test/support/redis.ts'
import { arrived, holding, received, refusing, startWebhook, type Webhook } from '#test/support/webhook.ts'

const MINUTE = 60_000

test('a webhook that is down is retried at growing intervals, gets its alerts later, and logs one line', async () => {
  const { webhook, clock, worker } = await setUpAlerts()
  const alerts = worker()
  await webhook.stop()
  await alerts.raise(REFUSED)
  await alerts.raise({ ...REFUSED, company: 'boreal' })
  await alerts.deliver()
  await webhook.start()
  webhook.answer = refusing(503)
  const waits: number[] = []
  for (let waited = 0; waits.length < 8; waited += 1) {
    const before = webhook.messages.length
    await alerts.deliver()
    if (webhook.messages.length > before) {
      expect(webhook.messages).toHaveLength(before + 2)
      waits.push(waited / 2)
      waited = 0
    }
    clock.pass(MINUTE / 2)
  }
  expect(waits).toEqual([0.5, 1, 2, 4, 8, 15, 15, 15])
  webhook.answer = (_, response) => void response.end()
  webhook.messages.length = 0
  clock.pass(15 * MINUTE)
  await alerts.deliver()
  expect(received(webhook)).toEqual(['key_refused raised', 'key_refused raised'])
  expect(webhook.messages.map(({ company }) => company).sort()).toEqual(['acme', 'boreal'])
  await alerts.deliver()
  expect(webhook.messages).toHaveLength(2)
  const about = alerts.lines
    .filter(({ msg }) => String(msg).includes('webhook'))
    .map(({ level, msg }) => [level, msg])
  expect(about).toEqual([
    [
      'error',
      expect.stringMatching(/^The alert webhook at 127\.0\.0\.1:\d+ did not answer \(ECONNREFUSED\)/),
    ],
    ['info', expect.stringContaining('accepts alerts again')],
  ])
})

test('a refused message does not hold back the others', async () => {
  const { webhook, clock, worker } = await setUpAlerts()
  const alerts = worker()
  webhook.answer = ({ company }, response) => void response.writeHead(company === 'acme' ? 400 : 204).end()
  await alerts.raise(REFUSED)
  clock.pass(1)
  await alerts.raise({ ...REFUSED, company: 'boreal' })
  await alerts.deliver()
  expect(webhook.messages.map(({ company }) => company)).toEqual(['acme', 'boreal'])
  clock.pass(MINUTE)
  await alerts.deliver()
  expect(webhook.messages.map(({ company }) => company)).toEqual(['acme', 'boreal', 'acme'])
})

test('an alert that the webhook refused sends no recovery', async () => {
  const { webhook, clock, worker } = await setUpAlerts()
  const alerts = worker()
  webhook.answer = refusing(500)
  await alerts.raise(REFUSED)
  await alerts.deliver()
  await alerts.clear(ACCEPTED)
  clock.pass(15 * MINUTE)
  await alerts.deliver()
  expect(received(webhook)).toEqual(['key_refused raised'])
})

test('nor does an alert whose webhook could not be reached', async () => {
  const { redis, webhook, worker } = await setUpAlerts()
  const alerts = worker()
  await webhook.stop()
  await alerts.raise(REFUSED)
  await alerts.deliver()
  await alerts.clear(ACCEPTED)
  expect(await scanAll(redis.url, redis.prefix)).toBe('')
})

test('an alert without an answer may have arrived, so its recovery is sent', async () => {
  const { webhook, clock, worker } = await setUpAlerts()
  const alerts = worker()
  webhook.answer = (_, response) => void response.destroy()
  await alerts.raise(REFUSED)
  await alerts.deliver()
  await alerts.clear(ACCEPTED)
  webhook.answer = (_, response) => void response.end()
  clock.pass(MINUTE)
  await alerts.deliver()
  await alerts.deliver()
  expect(received(webhook)).toEqual(['key_refused raised', 'key_refused recovered'])
})

test('a slow webhook neither blocks raising nor lets another worker send the same alert', async () => {
  const { webhook, worker } = await setUpAlerts()
  const [alerts, other] = [worker(), worker()]
  const { waiting } = holding(webhook)
  await alerts.raise(REFUSED)
  const delivered = alerts.deliver()
  await arrived(webhook, 1)
  await other.raise({ ...REFUSED, name: 'stale' })
  await other.clear({ ...ACCEPTED, name: 'stale' })
  await other.deliver()
  expect(webhook.messages).toHaveLength(1)
  waiting[0]?.end()
  await delivered
  await other.deliver()
  expect(webhook.messages).toHaveLength(1)
})

test('a worker that read an alert before another one sent it does not send it again', async () => {
  const { webhook, worker } = await setUpAlerts()
  const [alerts, other] = [worker(), worker()]
  await alerts.raise(REFUSED)
  const hgetall = other.redis.hgetall.bind(other.redis)
  other.redis.hgetall = async (key: RedisKey) => {
    const looked = await hgetall(key)
    await alerts.deliver()
    return looked
  }
  await other.deliver()
  expect(received(webhook)).toEqual(['key_refused raised'])
})

test.each([
  ['sends its recovery too', 200, ['key_refused raised', 'key_refused recovered']],
  ['has nothing to recover from if the alert is refused', 503, ['key_refused raised']],
] as const)('a problem that ends while its alert is being sent %s', async (_, status, messages) => {
  const { redis, webhook, worker } = await setUpAlerts()
  const alerts = worker()
  const { waiting } = holding(webhook)
  await alerts.raise(REFUSED)
  const delivered = alerts.deliver()
  await arrived(webhook, 1)
  await alerts.clear(ACCEPTED)
  waiting[0]?.writeHead(status).end()
  await delivered
  webhook.answer = (_, response) => void response.end()
  await alerts.deliver()
  await alerts.deliver()
  expect(received(webhook)).toEqual(messages)
  expect(await scanAll(redis.url, redis.prefix)).toBe('')
})

test('a problem that returns while its recovery is being sent is sent again', async () => {
  const { webhook, worker } = await setUpAlerts()
  const alerts = worker()
  await alerts.raise(REFUSED)
  await alerts.deliver()
  const { waiting } = holding(webhook)
  await alerts.clear(ACCEPTED)
  const delivered = alerts.deliver()
  await arrived(webhook, 2)
  await alerts.raise(REFUSED)
  waiting[0]?.end()
  await delivered
  webhook.answer = (_, response) => void response.end()
  await alerts.deliver()
  expect(received(webhook)).toEqual(['key_refused raised', 'key_refused recovered', 'key_refused raised'])
})

test('a message without an answer is sent again unchanged', async () => {
  const { webhook, clock, worker } = await setUpAlerts()
  const alerts = worker({ timeoutMs: 100 })
  holding(webhook)
  await alerts.raise(REFUSED)
  await alerts.deliver()
  expect(alerts.lines.at(-1)?.msg).toMatch(/did not answer within 0.1 s/)
  webhook.answer = (_, response) => void response.end()
  clock.pass(MINUTE)
  await alerts.deliver()
  await alerts.deliver()
  expect(received(webhook)).toEqual(['key_refused raised', 'key_refused raised'])
  expect(webhook.messages[1]).toEqual(webhook.messages[0])
})

test('if a worker dies while sending, another one sends once the claim has expired', async () => {
  const { redis, webhook, worker } = await setUpAlerts()
  const [dying, other] = [worker(), worker()]
  const { waiting } = holding(webhook)
  await dying.raise(REFUSED)
  const delivered = dying.deliver().catch(() => 'died')
  await arrived(webhook, 1)
  dying.redis.disconnect()
  waiting[0]?.end()
  expect(await delivered).toBe('died')
  webhook.answer = (_, response) => void response.end()
  await other.deliver()
  expect(webhook.messages).toHaveLength(1)
  const claim = `${redis.prefix}:alerts:sending:webhook:key_refused:acme`
  expect(await other.redis.pttl(claim)).toBeGreaterThan(10_000)
  await other.redis.del(claim)
  await other.deliver()
  expect(webhook.messages[1]).toEqual(webhook.messages[0])
  expect(webhook.messages).toHaveLength(2)
})

test('a redirect is not followed', async () => {
  const { webhook, worker } = await setUpAlerts()
  const elsewhere = await startWebhook()
  const alerts = worker()
  await alerts.raise(REFUSED)
  webhook.answer = refusing(307, { location: elsewhere.url })
  await alerts.deliver()
  expect(webhook.messages).toHaveLength(1)
  expect(elsewhere.messages).toEqual([])
  expect(alerts.lines.at(-1)?.msg).toMatch(/rejected the request \(307, a redirect, which is not followed\)/)
})

test("the webhook's token is in no Redis value and no log line, whatever happens", async () => {
  const { redis, webhook, clock, worker } = await setUpAlerts()
  const url = webhook.url.replace('127.0.0.1', `hook:${webhook.token}@127.0.0.1`)
  const seen: string[] = []
  const alerts = worker({ webhookUrl: url, timeoutMs: 100 })
  const tryWith = async (answer: Webhook['answer']) => {
    webhook.answer = answer
    clock.pass(15 * MINUTE)
    await alerts.deliver()
    seen.push(await scanAll(redis.url, redis.prefix))
  }
  await alerts.raise(REFUSED)
  await tryWith((_, response) => void response.writeHead(403).end(`${url} is wrong`))
  await tryWith(refusing(302, { location: url }))
  await tryWith((_, response) => void response.destroy())
  await tryWith(() => {})
  await tryWith(async () => void seen.push(await scanAll(redis.url, redis.prefix)))
  await webhook.stop()
  await tryWith(() => {})
  await webhook.start()
  await tryWith((_, response) => void response.end())
  const basic = `Basic ${Buffer.from(`hook:${webhook.token}`).toString('base64')}`
  expect(webhook.requests.at(-1)?.headers.authorization).toBe(basic)
  expect(await alerts.active()).toMatchObject([{ receipts: { webhook: { state: 'raised' } } }])
  expect(seen.join()).toContain('key_refused')
  expect(`${seen.join()}${JSON.stringify(alerts.lines)}`).not.toMatch(
    new RegExp(`${webhook.token}|${basic.slice(6)}|hooks`),
  )
})

it.each([
  ['no address', 'ERR_INVALID_URL'],
  ['ftp://127.0.0.1/hook', 'UND_ERR_INVALID_ARG'],
  ['http://na%ZZme@127.0.0.1:1/hook', 'unknown error'],
])('an address that cannot be called (%s) is an answer, and never throws', async (url, code) => {
  const answer = { outcome: 'unanswered', said: `did not answer (${code})` }
  expect(await post(url, {})).toEqual(answer)
  expect(await visit(url)).toEqual(answer)
})
