import { Worker } from 'bullmq'
import { expect, onTestFinished, test } from 'vitest'
import { requestRun } from '#jobs/queues/queue.ts'
import { MINUTE, type Scene, startScene } from '#test/support/inspected.ts'

const DAILY = { SYNC_CRON: '0 6 * * *', SOURCE_TIMEZONE: 'UTC' }

/** At 12:15, three periods of five minutes after the good run at 12:01, and not earlier. */
async function becomesStale({ clock, look }: Pick<Scene, 'clock' | 'look'>): Promise<void> {
  clock.at('2026-11-21T12:14:59.999Z')
  expect(await look()).toEqual([])
  clock.at('2026-11-21T12:15:00.000Z')
  expect(await look()).toEqual(['stale raised'])
}

test('a company is stale after three periods without a good run', async () => {
  const { clock, good, look, webhook } = await startScene()
  await good('2026-11-21T12:01:30.000Z', 'The API could not be read.')
  await becomesStale({ clock, look })
  expect(webhook.messages[0]).toMatchObject({
    message: expect.stringMatching(
      /since 2026-11-21T12:01:30.000Z: 3 periods of \*\/5 \* \* \* \*\. .*could not be read/,
    ),
    details: { last_good_at: '2026-11-21T12:01:30.000Z', last_error: 'The API could not be read.' },
  })
  clock.pass(60 * MINUTE)
  expect(await look()).toEqual([])
  await good('2026-11-21T13:14:00.000Z')
  expect(await look()).toEqual(['stale recovered'])
  expect(await look()).toEqual([])
})

test('failing runs raise only run_failed, not stale, which they explain', async () => {
  const { clock, good, look, alerts } = await startScene()
  await good('2026-11-21T12:01:30.000Z')
  await alerts.raise({ name: 'run_failed', company: 'acme', message: 'Its key is gone.' })
  clock.at('2026-11-21T13:00:00.000Z')
  expect(await look()).toEqual(['run_failed raised'])
  await alerts.clear({ name: 'run_failed', company: 'acme', message: 'A run came to its end.' })
  expect((await look()).toSorted()).toEqual(['run_failed recovered', 'stale raised'])
})

test("a company's periods follow its schedule in its time zone", async () => {
  // The day on which New York ends daylight saving time has 25 hours.
  const daily = { SYNC_CRON: '0 8 * * *', SOURCE_TIMEZONE: 'America/New_York' }
  const { clock, good, look } = await startScene(daily, { start: '2026-10-30T12:01:00.000Z' })
  await good('2026-10-30T12:05:00.000Z')
  clock.at('2026-11-02T12:59:59.000Z')
  expect(await look()).toEqual([])
  clock.at('2026-11-02T13:00:00.000Z')
  expect(await look()).toEqual(['stale raised'])
})

test('a worker that has just started waits for all periods, and clears nothing meanwhile', async () => {
  const { clock, good, look } = await startScene()
  await good('2026-11-20T08:00:00.000Z')
  expect(await look()).toEqual([])
  clock.pass(15 * MINUTE)
  expect(await look({ startedAt: clock() })).toEqual([])
  expect(await look()).toEqual(['stale raised'])
  expect(await look({ startedAt: clock() })).toEqual([])
  clock.pass(15 * MINUTE)
  expect(await look()).toEqual([])
})

test('frequent restarts of the workers do not keep a company from becoming stale', async () => {
  const { clock, good, look } = await startScene(DAILY)
  await good('2026-11-21T12:01:30.000Z', 'The API answers 503.')
  const raisedAt = []
  for (let startedAt = clock(), hours = 6; hours <= 96; hours += 6) {
    clock.pass(360 * MINUTE)
    if (hours % 24 === 0) startedAt = clock()
    if ((await look({ startedAt })).includes('stale raised')) raisedAt.push(clock().toISOString())
  }
  expect(raisedAt).toEqual(['2026-11-24T06:01:00.000Z'])
})

test('a pause of all workers over two due times restarts the count, a shorter one does not', async () => {
  for (const [days, raised] of [
    [1, '2026-11-24T06:01:00.000Z'],
    [2, '2026-11-26T06:01:00.000Z'],
  ] as const) {
    const { clock, good, look } = await startScene(DAILY)
    await good('2026-11-21T12:01:30.000Z', 'The API answers 503.')
    clock.pass(days * 24 * 60 * MINUTE)
    const startedAt = clock()
    const raisedAt = []
    for (let hours = 0; hours < 96; hours += 6) {
      if ((await look({ startedAt })).length > 0) raisedAt.push(clock().toISOString())
      clock.pass(360 * MINUTE)
    }
    expect(raisedAt).toEqual([raised])
  }
})

test('a worker that has just started allows one period to catch up on overdue runs', async () => {
  const { clock, good, look } = await startScene()
  await good('2026-11-21T12:01:30.000Z')
  clock.at('2026-11-21T12:14:50.000Z')
  expect(await look()).toEqual([])
  clock.at('2026-11-21T12:15:10.000Z')
  const startedAt = clock()
  expect(await look({ startedAt })).toEqual([])
  clock.at('2026-11-21T12:19:59.000Z')
  expect(await look({ startedAt })).toEqual([])
  clock.at('2026-11-21T12:20:00.000Z')
  expect(await look({ startedAt })).toEqual(['stale raised'])
})

test('a Redis that lost its data does not keep a company from becoming stale', async () => {
  const { clock, good, look, queues } = await startScene()
  await good('2026-11-21T12:01:30.000Z')
  clock.at('2026-11-21T12:14:00.000Z')
  await look()
  expect(await queues.redis.del(`${queues.runs.opts.prefix}:seen`)).toBe(1)
  expect(await look()).toEqual([])
  clock.at('2026-11-21T12:15:00.000Z')
  expect(await look()).toEqual(['stale raised'])
})

test('a good run in the future, from a clock that was ahead, does not count', async () => {
  const { clock, good, look, webhook } = await startScene()
  await good('2026-11-22T12:00:00.000Z')
  await becomesStale({ clock, look })
  expect(webhook.messages[0]).toMatchObject({
    message: expect.stringMatching(
      /since 2026-11-21T12:01:\S+Z, and the last one is recorded for 2026-11-22T12:00:00.000Z, which is in the future: 3/,
    ),
    details: { last_good_at: '2026-11-22T12:00:00.000Z' },
  })
  // The clock of another machine may be slightly ahead.
  await good('2026-11-21T12:15:30.000Z')
  expect(await look()).toEqual(['stale recovered'])
})

test('neither a clock that was ahead nor the times noted by it keep a company from becoming stale', async () => {
  const { clock, look } = await startScene({}, { start: '2027-11-21T12:01:00.000Z' })
  clock.at('2026-11-21T12:01:00.000Z')
  for (let minute = 1; minute < 15; minute += 1) {
    expect(await look()).toEqual([])
    clock.pass(MINUTE)
  }
  expect(await look()).toEqual(['stale raised'])
})

test('a new company is not stale before three periods', async () => {
  const { clock, acme, companies, look } = await startScene()
  companies.clear()
  clock.pass(60 * MINUTE)
  await look()
  companies.set('acme', acme)
  expect(await look()).toEqual([])
  for (let minute = 1; minute < 14; minute += 1) {
    clock.pass(MINUTE)
    expect(await look()).toEqual([])
  }
  clock.pass(MINUTE)
  expect(await look()).toEqual(['stale raised'])
})

test('a long first run is not stale, whichever worker continues it', async () => {
  const { clock, look, queues, webhook } = await startScene()
  clock.pass(60 * MINUTE)
  expect(await look({ isActive: slug => slug === 'acme' })).toEqual([])
  const worker = new Worker('runs', null, {
    connection: queues.redis,
    prefix: queues.runs.opts.prefix as string,
  })
  onTestFinished(() => worker.close(true))
  await requestRun(queues, 'sync', 'acme')
  const job = await worker.getNextJob('token')
  expect(await look()).toEqual([])
  await job?.moveToCompleted('done', 'token', false)
  expect(await look()).toEqual(['stale raised'])
  expect(webhook.messages[0]?.message).toContain('or ever before')
})

test('a later run under way gets one more period: a run only starts at its due time', async () => {
  const { clock, good, look } = await startScene()
  await good('2026-11-21T12:00:30.000Z')
  const startedAt = new Date('2026-11-21T11:00:00Z')
  clock.at('2026-11-21T12:19:59.999Z')
  expect(await look({ startedAt, isActive: () => true })).toEqual([])
  clock.at('2026-11-21T12:20:00.000Z')
  expect(await look({ startedAt, isActive: () => true })).toEqual(['stale raised'])
})
