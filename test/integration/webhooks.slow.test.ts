import { rename } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { Registry } from 'prom-client'
import { Webhook } from 'standardwebhooks'
import { expect, onTestFinished, test } from 'vitest'
import { openQueues } from '#jobs/queues/queue.ts'
import { createWebhookMetrics } from '#jobs/webhooks/deliver.ts'
import { startWebhooks } from '#jobs/webhooks/webhooks.ts'
import { createLogger } from '#src/lib/log.ts'
import { KeyStore } from '#src/server/keys.ts'
import { composeEvent, type Feeds, type ShownEvent } from '#src/server/webhooks/feed.ts'
import { Subscriptions } from '#src/server/webhooks/subscriptions.ts'
import { until } from '#test/support/daemon.ts'
import { temporaryDirectory } from '#test/support/project.ts'
import { readMetrics } from '#test/support/prometheus.ts'
import { canOwnRedis, openRedis, startOwnRedis } from '#test/support/redis.ts'

type Received = { readonly headers: IncomingMessage['headers']; readonly body: string }

/** A receiver whose answer can be chosen. */
async function startReceiver() {
  const received: Received[] = []
  const receiver = {
    url: '',
    received,
    answer: (_: Received, response: ServerResponse) => void response.writeHead(204).end(),
  }
  const server = createServer(async (request, response) => {
    const one = { headers: request.headers, body: await text(request) }
    received.push(one)
    receiver.answer(one, response)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  receiver.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks?secret=1`
  return receiver
}

/** A feed of numbered events. */
function feedOf(events: ShownEvent[]): Feeds & { isOther: boolean } {
  return {
    isOther: false,
    latest: async () => String(events.length),
    async read(_, since, limit) {
      if (this.isOther && since !== null && Number(since) > events.length) return 'gone'
      const from = Number(since ?? 0)
      const some = events.slice(from, from + limit)
      return { events: some, next: String(from + some.length) }
    },
  }
}

function eventsOf(count: number, kind = 'notice_changed'): ShownEvent[] {
  return Array.from({ length: count }, (_, index) => ({
    cursor: String(index + 1),
    at: '2026-11-24T12:00:00.000Z',
    kind,
    edital_id: `e${index}`,
  }))
}

type Setup = {
  readonly events: ShownEvent[]
  readonly redisUrl?: string
  readonly allowPrivate?: boolean
  readonly delaysMs?: readonly number[]
  readonly rests?: { readonly first: number; readonly most: number }
}

async function startAll({ events, redisUrl, allowPrivate = true, ...delays }: Setup) {
  const dataDir = await temporaryDirectory()
  const { url, prefix } = redisUrl === undefined ? await openRedis() : { url: redisUrl, prefix: 'test' }
  const keys = KeyStore.open(dataDir, 1000)
  const key = keys.create('acme', 'ERP', new Date()).slice(0, 12)
  const store = Subscriptions.open(dataDir, 1000)
  const lines: string[] = []
  const log = createLogger('info', {}, { write: line => void lines.push(line) })
  const registry = new Registry()
  const metrics = createWebhookMetrics(registry, () => new Date())
  const scrape = async (name: string) => {
    metrics.show()
    return (await readMetrics(await registry.metrics())).get(`editais_webhook_${name}`)?.values ?? {}
  }
  const feeds = feedOf(events)
  let asked = 0
  const start = () => {
    const queues = openQueues({ url, prefix }, log)
    const webhooks = startWebhooks({
      ...{ queues, dataDir, feeds, allowPrivate, log, metrics },
      findLake: () => '',
      findLog: () => null,
      ...delays,
      isOurs(company) {
        asked += 1
        return company === 'acme'
      },
      now: () => new Date(),
    })
    const stop = async () => {
      await webhooks.stop()
      await queues.close()
    }
    onTestFinished(stop)
    return { stop, queue: webhooks.queue }
  }
  onTestFinished(() => {
    store.close()
    keys.close()
  })
  return { dataDir, keys, key, store, lines, feeds, start, scrape, asked: () => asked }
}

const about = { company: 'acme', events: null, cursor: null }
const idsOf = (received: readonly Received[]) => received.map(({ headers }) => headers['webhook-id'])

test('events are posted, each once, signed as Standard Webhooks says; a worker that follows sends only what is new', async () => {
  const events = eventsOf(3)
  const { key, store, start } = await startAll({ events })
  const receiver = await startReceiver()
  const { secret } = store.add({ ...about, key, url: receiver.url }, new Date())
  const first = start()
  await until(() => receiver.received.length === 3, { what: 'three messages' })
  for (const { headers, body } of receiver.received) {
    const verified = new Webhook(secret).verify(body, headers as Record<string, string>)
    expect(verified).toMatchObject({ type: 'notice_changed', data: { company: 'acme' } })
    expect(() => new Webhook(secret).verify(`${body} `, headers as Record<string, string>)).toThrow()
  }
  expect(new Set(idsOf(receiver.received)).size).toBe(3)
  await first.stop()
  events.push(...eventsOf(4).slice(3))
  start()
  await until(() => receiver.received.length === 4, { what: 'the fourth message' })
  expect(new Set(idsOf(receiver.received)).size).toBe(4)
})

test.skipIf(!canOwnRedis)('no message is lost or repeated if Redis loses everything', async () => {
  const redis = await startOwnRedis({ args: ['--save', '', '--appendonly', 'no'] })
  const { key, store, start } = await startAll({ events: eventsOf(5), redisUrl: redis.url })
  const receiver = await startReceiver()
  const seen = new Set<unknown>()
  receiver.answer = ({ headers }, response) => {
    // Two are received; the others are refused as long as there is the first Redis.
    if (seen.size < 2) seen.add(headers['webhook-id'])
    response.writeHead(seen.has(headers['webhook-id']) ? 200 : 500).end()
  }
  const { subscription } = store.add({ ...about, key, url: receiver.url }, new Date())
  const { stop } = start()
  await until(() => store.counts(subscription.id).received === 2, { what: 'two messages' })
  await stop()
  await redis.kill()
  await redis.start()
  receiver.received.length = 0
  receiver.answer = (_, response) => void response.writeHead(200).end()
  start()
  await until(() => store.counts(subscription.id).received === 5, { what: 'the others' })
  expect(receiver.received).toHaveLength(3)
  for (const id of idsOf(receiver.received)) expect(seen.has(id)).toBe(false)
})

test('a receiver that fails holds up no other one; one that is gone, or whose key is revoked, gets no more', async () => {
  const { key, keys, store, start, lines } = await startAll({ events: eventsOf(20) })
  const [good, bad, gone] = [await startReceiver(), await startReceiver(), await startReceiver()]
  bad.answer = (_, response) => void response.writeHead(302, { location: good.url }).end()
  gone.answer = (_, response) => void response.writeHead(410).end()
  const add = (url: string) => store.add({ ...about, key, url }, new Date()).subscription.id
  const [goodId, badId, goneId] = [add(good.url), add(bad.url), add(gone.url)]
  start()
  await until(() => store.counts(goodId).received === 20, { what: 'all messages' })
  await until(() => store.find(goneId)?.stoppedBecause, { what: 'the end of the one that is gone' })
  expect(store.find(goneId)?.stoppedBecause).toContain('410 Gone')
  expect(lines.filter(line => line.includes('410 Gone'))).toHaveLength(1)
  await until(() => lines.some(line => line.includes('a redirect, which is not followed')), {
    what: () => `the redirect in ${lines.join('')}`,
  })
  // It rests after its first failures.
  expect(bad.received.length).toBeLessThan(10)
  expect(store.counts(badId)).toMatchObject({ queued: 20, dead: 0 })
  expect(lines.join('')).not.toContain('secret=1')
  keys.revoke(key, new Date())
  await until(() => store.find(goodId)?.stoppedBecause, { what: 'the end of the subscriptions' })
  expect(store.find(goodId)?.stoppedBecause).toContain('is no longer valid')
})

test('a private address gets nothing unless it is allowed, even if its name looks public; nor one without TLS', async () => {
  const { key, store, start, lines } = await startAll({ events: eventsOf(1), allowPrivate: false })
  const receiver = await startReceiver()
  const numbered = receiver.url.replace('http:', 'https:')
  const named = numbered.replace('127.0.0.1', 'localhost')
  const plain = 'http://receiver.example.com/hooks'
  for (const url of [numbered, named, plain]) store.add({ ...about, key, url }, new Date())
  start()
  await until(() => lines.filter(line => line.includes('WEBHOOKS_ALLOW_PRIVATE')).length === 3, {
    what: () => `three refusals in ${lines.join('')}`,
  })
  expect(lines.filter(line => line.includes('has a private address'))).toHaveLength(2)
  expect(lines.filter(line => line.includes('has an address without TLS'))).toHaveLength(1)
  expect(receiver.received).toEqual([])
})

test('if the log was replaced, the receiver is asked to read everything once, and gets what follows', async () => {
  const events = eventsOf(6)
  const { key, store, feeds, start } = await startAll({ events })
  const receiver = await startReceiver()
  store.add({ ...about, key, url: receiver.url, events: ['notice_arrived'], cursor: '6' }, new Date())
  events.length = 2
  feeds.isOther = true
  start()
  await until(() => receiver.received.length === 1, { what: 'the reset' })
  expect(JSON.parse(receiver.received[0]?.body ?? '')).toMatchObject({ type: 'feed_reset' })
  events.push(...eventsOf(4).slice(2), ...eventsOf(5, 'notice_arrived').slice(4))
  await until(() => receiver.received.length === 2, { what: 'the next event' })
  expect(JSON.parse(receiver.received[1]?.body ?? '')).toMatchObject({
    type: 'notice_arrived',
    data: { edital_id: 'e4' },
  })
})

test('a message that is refused again and again is given up, shown with the reason, and sent when it is replayed', async () => {
  const { key, store, start, scrape } = await startAll({
    events: eventsOf(2),
    delaysMs: [20, 40],
    rests: { first: 20, most: 40 },
  })
  const receiver = await startReceiver()
  receiver.answer = (_, response) => void response.writeHead(503).end()
  const { id } = store.add({ ...about, key, url: receiver.url }, new Date()).subscription
  start()
  await until(() => store.counts(id).dead === 2, { what: 'two dead letters' })
  expect(store.deadLetters(id, 5).map(({ because }) => because)).toEqual(
    Array(2).fill('the receiver refused it (503)'),
  )
  const attempts = receiver.received.length
  expect(attempts).toBe(6)
  const of = (state: string) => `company=acme,webhook=${id},state=${state}`
  expect(await scrape('messages')).toEqual({ [of('waiting')]: 0, [of('given_up')]: 2 })
  expect(await scrape('attempts_total')).toEqual({ 'company=acme,outcome=failed': 6 })
  expect(await scrape('oldest_waiting_seconds')).toEqual({ [`company=acme,webhook=${id}`]: 0 })
  receiver.answer = (_, response) => void response.writeHead(200).end()
  expect(store.replay(id, new Date())).toBe(2)
  await until(() => store.counts(id).received === 2, { what: 'both messages' })
  expect(receiver.received).toHaveLength(attempts + 2)
  expect(new Set(idsOf(receiver.received)).size).toBe(2)
  expect(await scrape('messages')).toEqual({ [of('waiting')]: 0, [of('given_up')]: 0 })
  expect(await scrape('attempts_total')).toMatchObject({ 'company=acme,outcome=received': 2 })
})

test('metrics show since when messages wait, and which webhooks are stopped; discarded messages are never sent', async () => {
  const { key, store, start, scrape } = await startAll({ events: [] })
  const receiver = await startReceiver()
  const add = () => store.add({ ...about, key, url: receiver.url }, new Date()).subscription
  const [waiting, stopped] = [add(), add()]
  const message = (id: string) => ({ id, subscription: waiting.id, body: '{}' })
  const anHourAgo = new Date(Date.now() - 3_600_000)
  store.take(waiting, { deliveries: [message('msg_1'), message('msg_2')], next: '0' }, anHourAgo)
  store.noteDead('msg_1', 'the receiver refused it (500)', anHourAgo)
  store.noteDead('msg_2', 'the receiver refused it (500)', anHourAgo)
  store.stop(stopped.id, 'its receiver answered 410 Gone: it wants no more messages')
  expect(store.discard(waiting.id)).toBe(2)
  expect(store.replay(waiting.id, new Date())).toBe(0)
  store.take({ ...waiting, cursor: '0' }, { deliveries: [message('msg_3')], next: '1' }, anHourAgo)
  receiver.answer = () => {}
  start()
  await until(() => receiver.received.length === 1, { what: 'the message' })
  expect(idsOf(receiver.received)).toEqual(['msg_3'])
  const of = ({ id }: { id: string }) => `company=acme,webhook=${id}`
  const age = await scrape('oldest_waiting_seconds')
  expect(age[of(waiting)]).toBeGreaterThan(3599)
  expect(age[of(stopped)]).toBe(0)
  expect(await scrape('stopped')).toEqual({ [of(waiting)]: 0, [of(stopped)]: 1 })
})

test('a worker that stops waits for the answers of receivers, so nothing is sent again after its next start', async () => {
  const { key, store, start } = await startAll({ events: eventsOf(6) })
  const receiver = await startReceiver()
  receiver.answer = (_, response) => void setTimeout(() => response.writeHead(204).end(), 1500)
  const { id } = store.add({ ...about, key, url: receiver.url }, new Date()).subscription
  const first = start()
  await until(() => receiver.received.length >= 3, { what: 'the first messages' })
  await first.stop()
  const sent = receiver.received.length
  expect(store.counts(id).received).toBe(sent)
  receiver.answer = (_, response) => void response.writeHead(204).end()
  start()
  await until(() => store.counts(id).received === 6, { what: 'all messages' })
  expect(new Set(idsOf(receiver.received)).size).toBe(receiver.received.length)
})

test('of many messages for a slow receiver, only the next ones are in Redis, and those that failed hold up no others', async () => {
  const { key, store, start } = await startAll({ events: eventsOf(300), rests: { first: 20, most: 40 } })
  const receiver = await startReceiver()
  const refused = new Set<unknown>()
  receiver.answer = ({ headers }, response) => {
    // The first ones are refused for good; the others are slow.
    if (refused.size < 15) refused.add(headers['webhook-id'])
    const status = refused.has(headers['webhook-id']) ? 500 : 204
    setTimeout(() => response.writeHead(status).end(), 20)
  }
  const { id } = store.add({ ...about, key, url: receiver.url }, new Date()).subscription
  const { queue } = start()
  let most = 0
  await until(
    async () => {
      const { delayed = 0, waiting = 0, active = 0 } = await queue.getJobCounts()
      most = Math.max(most, delayed + waiting + active - refused.size)
      return store.counts(id).received === 285
    },
    { what: () => `285 messages: ${JSON.stringify(store.counts(id))}` },
  )
  expect(most).toBeLessThan(20)
  expect(store.counts(id)).toMatchObject({ queued: 15, dead: 0 })
})

test('a receiver that hangs leaves places for the others', async () => {
  const { key, store, start } = await startAll({ events: eventsOf(30) })
  const [hanging, good] = [await startReceiver(), await startReceiver()]
  hanging.answer = () => {}
  for (const { url } of [hanging, good]) store.add({ ...about, key, url }, new Date())
  start()
  await until(() => good.received.length === 30, { what: 'all messages', withinMs: 10_000 })
  expect(hanging.received.length).toBeLessThanOrEqual(3)
})

test('a thousand messages for a receiver that is down do not come back again and again while it is tried', async () => {
  const events = eventsOf(1000)
  const { dataDir, key, store, start, asked } = await startAll({ events })
  const hanging = await startReceiver()
  const held: ServerResponse[] = []
  hanging.answer = (_, response) => void held.push(response)
  const { subscription } = store.add({ ...about, key, url: hanging.url }, new Date())
  const deliveries = events.map(event => composeEvent(subscription, event))
  store.take(subscription, { deliveries, next: '1000' }, new Date())
  // As after hours: each was tried already, so each has a job.
  const file = new DatabaseSync(join(dataDir, 'webhooks.sqlite'))
  file.exec('UPDATE deliveries SET attempts = 1')
  file.close()
  const { queue } = start()
  await until(async () => (await queue.getDelayedCount()) > 900, {
    what: 'nearly all to wait, before the first attempts are over',
    withinMs: 12_000,
  })
  // Whether their company is ours is asked for each job that is begun.
  const before = asked()
  await sleep(2000)
  // Each of them every half second would be four thousand, and other receivers would wait behind them.
  expect(asked() - before).toBeLessThan(300)
  for (const response of held) response.writeHead(204).end()
})

test('a message that is under way is not sent once more if Redis loses its job', async () => {
  const { key, store, start } = await startAll({ events: eventsOf(1) })
  const receiver = await startReceiver()
  const held: ServerResponse[] = []
  receiver.answer = (_, response) => void held.push(response)
  const { id } = store.add({ ...about, key, url: receiver.url }, new Date()).subscription
  const { queue } = start()
  await until(() => held.length === 1, { what: 'the message' })
  await queue.obliterate({ force: true })
  const jobId = store.queued(id, 1)[0]?.id as string
  await queue.add('message', { company: 'acme', subscription: id }, { jobId, removeOnComplete: true })
  await until(async () => (await queue.getDelayedCount()) === 1, { what: 'its other job to wait' })
  held[0]?.writeHead(204).end()
  await until(async () => store.counts(id).received === 1 && (await queue.count()) === 0, {
    what: 'both jobs to end',
  })
  expect(receiver.received).toHaveLength(1)
})

test('a revoked key ends what is sent at once, although a feed is slow', async () => {
  const { keys, key, store, feeds, start } = await startAll({ events: eventsOf(40) })
  const receiver = await startReceiver()
  receiver.answer = (_, response) => void setTimeout(() => response.writeHead(204).end(), 600)
  const slow = store.add({ ...about, key, url: receiver.url }, new Date()).subscription
  const { id } = store.add({ ...about, key, url: receiver.url }, new Date()).subscription
  const { read } = feeds
  let isSlow = false
  feeds.read = async (...given) => {
    if (isSlow) await sleep(20_000)
    return await read.call(feeds, ...given)
  }
  start()
  await until(() => store.counts(id).queued > 20, { what: 'its messages' })
  isSlow = true
  // Now one reading is under way.
  await sleep(2500)
  keys.revoke(key, new Date())
  await until(() => [slow.id, id].every(one => store.find(one)?.stoppedBecause), {
    what: 'both to stop',
    withinMs: 8000,
  })
  const { length } = receiver.received
  await sleep(1500)
  expect(receiver.received.length).toBeLessThanOrEqual(length + 6)
  expect(store.counts(id).queued).toBeGreaterThan(0)
})

test('a file of keys that is missing for a while stops nothing', async () => {
  const events = eventsOf(1)
  const { dataDir, key, store, start } = await startAll({ events })
  const receiver = await startReceiver()
  const { id } = store.add({ ...about, key, url: receiver.url }, new Date()).subscription
  await rename(join(dataDir, 'api_keys.sqlite'), join(dataDir, 'aside'))
  start()
  await sleep(2500)
  expect(store.find(id)?.stoppedBecause).toBeNull()
  await rename(join(dataDir, 'aside'), join(dataDir, 'api_keys.sqlite'))
  await until(() => receiver.received.length === 1, { what: 'the message' })
})
