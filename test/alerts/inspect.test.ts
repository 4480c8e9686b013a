import { rm, statfs } from 'node:fs/promises'
import { Worker } from 'bullmq'
import { Redis } from 'ioredis'
import { expect, onTestFinished, test } from 'vitest'
import { type Inspection, inspect } from '#jobs/alerts/inspect.ts'
import type { Company } from '#jobs/company_registry.ts'
import { openQueues, requestRun } from '#jobs/queue.ts'
import { createLogger } from '#src/platform/log.ts'
import { makeDirectories } from '#src/store/company.ts'
import { newReport } from '#src/store/run_report.ts'
import { type CompanyState, writeState } from '#src/store/state.ts'
import { type Alerter, configured, startAlerter, startClock } from '../support/alerting.ts'
import { type Environment, settingsFor, temporaryDirectory } from '../support/project.ts'
import { canOwnRedis, openRedis, startOwnRedis } from '../support/redis.ts'
import { received, startWebhook, type Webhook } from '../support/webhook.ts'

const MINUTE = 60_000
const DAILY = { SYNC_CRON: '0 6 * * *', SYNC_TIMEZONE: 'UTC' }

type Scene = {
  readonly clock: ReturnType<typeof startClock>
  readonly acme: Company
  readonly companies: Map<string, Company>
  readonly alerts: Alerter
  readonly webhook: Webhook
  readonly queues: ReturnType<typeof openQueues>
  /** What the inspection itself logs. */
  readonly lines: string[]
  good(at: string | null, error?: string): Promise<void>
  /** Inspects as a worker does, and returns the alerts that were sent. */
  look(seen?: Partial<Inspection> & { periods?: number }): Promise<string[]>
}

async function startScene(
  settings: Environment = {},
  options: { redis?: { url: string; prefix: string }; start?: string } = {},
): Promise<Scene> {
  const place = options.redis ?? (await openRedis())
  const clock = startClock(options.start ?? '2026-11-21T12:01:00.000Z')
  const webhook = await startWebhook()
  const alerts = startAlerter({ redis: place, webhookUrl: webhook.url, now: clock })
  const lines: string[] = []
  const log = createLogger('trace', {}, { write: line => void lines.push(line) })
  const queues = openQueues(place, log)
  onTestFinished(() => queues.close())
  const dataDir = await temporaryDirectory()
  const acme = configured({ ...settingsFor({ url: 'http://127.0.0.1:1', key: 'k', dataDir }), ...settings })
  await makeDirectories(acme.paths)
  const companies = new Map([['acme', acme]])
  const startedAt = clock()
  const scene: Scene = {
    clock,
    acme,
    companies,
    alerts,
    webhook,
    queues,
    lines,
    good: (at, error) => writeState(acme.paths, stateOf(at, error)),
    async look({ periods = 3, ...seen } = {}) {
      webhook.messages.length = 0
      await inspect({
        queues,
        alerts,
        log,
        startedAt,
        now: clock(),
        isActive: () => false,
        settings: { alertAfterPeriods: periods, redis: place },
        registry: { companies, problem: null, broken: new Map() },
        readSpace: async () => ({ blocks: 100, bavail: 50 }),
        ...seen,
      })
      await alerts.deliver()
      return received(webhook)
    },
  }
  expect(await scene.look()).toEqual([])
  return scene
}

function stateOf(last_good_at: string | null, error: string | null = null): CompanyState {
  return {
    last_run: { ...newReport('run', 'incremental', new Date()), error },
    causes: [],
    last_good_at,
    quarantined: 0,
    quarantined_before: 0,
    raw_log: { segments: 1, bytes: 1 },
    snapshot: { directory: 'x', bytes: 1 },
  }
}

/** At 12:15, three periods of five minutes after the good run at 12:01, and not earlier. */
async function becomesStale({ clock, look }: Pick<Scene, 'clock' | 'look'>): Promise<void> {
  clock.at('2026-11-21T12:14:59.999Z')
  expect(await look()).toEqual([])
  clock.at('2026-11-21T12:15:00.000Z')
  expect(await look()).toEqual(['stale raised'])
}

test('a company is stale after the set number of periods without a good run', async () => {
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
  const daily = { SYNC_CRON: '0 8 * * *', SYNC_TIMEZONE: 'America/New_York' }
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

test('a new company is not stale before the set number of periods', async () => {
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
  clock.at('2026-11-21T12:05:10.000Z')
  expect(await look({ startedAt, periods: 1, isActive: () => true })).toEqual([])
  clock.at('2026-11-21T12:10:00.000Z')
  expect(await look({ startedAt, periods: 1, isActive: () => true })).toEqual(['stale raised'])
})

test('disk_low is raised under 10 % and cleared from 11 %, once for each directory', async () => {
  const { clock, acme, companies, look, webhook } = await startScene()
  const { dataDir } = acme.settings
  companies.set('boreal', { ...acme, slug: 'boreal' })
  const other = { ...acme.settings, dataDir: '/elsewhere' }
  companies.set('third', { ...acme, slug: 'third', settings: other })
  const asked: string[] = []
  const free = (bavail: number) => ({
    readSpace: async (path: string) => {
      asked.push(path)
      return { blocks: 1000, bavail: path === dataDir ? bavail : 500 }
    },
  })
  expect(await look(free(100))).toEqual([])
  expect(asked).toEqual([dataDir, '/elsewhere'])
  expect(await look(free(99))).toEqual(['disk_low raised'])
  expect(webhook.messages[0]).toMatchObject({
    company: null,
    details: { directory: dataDir, free_share: 0.099 },
  })
  expect(webhook.messages[0]?.message).toContain(`The disk of ${dataDir} has only 9.9 % free`)
  for (const bavail of [20, 109, 99]) expect(await look(free(bavail))).toEqual([])
  clock.pass(MINUTE)
  expect(await look(free(110))).toEqual(['disk_low recovered'])
  expect(await look(free(100))).toEqual([])
})

test('a missing directory has no disk, and one that cannot be checked hides no other problem', async () => {
  const { acme, look, good, clock, lines } = await startScene()
  await good('2026-11-21T12:00:30.000Z')
  clock.pass(60 * MINUTE)
  const broken = async () => {
    throw Object.assign(new Error('EIO: i/o error'), { code: 'EIO' })
  }
  expect(await look({ readSpace: broken })).toEqual(['stale raised'])
  expect(lines.splice(0).map(line => JSON.parse(line).msg)).toEqual([
    expect.stringContaining('EIO: i/o error'),
  ])
  await rm(acme.settings.dataDir, { recursive: true })
  expect(await look({ readSpace: statfs })).toEqual([])
  expect(lines).toEqual([])
})

test.skipIf(!canOwnRedis)('a Redis that evicts raises an alert with the command that fixes it', async () => {
  const { url } = await startOwnRedis()
  const { look, webhook } = await startScene({}, { redis: { url, prefix: 'evicting' } })
  const redis = new Redis(url)
  onTestFinished(() => redis.disconnect())
  expect(await look()).toEqual([])
  await redis.config('SET', 'maxmemory-policy', 'allkeys-lru')
  expect(await look()).toEqual(['redis_evicts raised'])
  expect(webhook.messages[0]?.message).toMatch(
    /policy allkeys-lru\).*redis-cli -u "\$REDIS_URL" CONFIG SET maxmemory-policy noeviction/,
  )
  expect(await look()).toEqual([])
  await redis.config('SET', 'maxmemory-policy', 'noeviction')
  expect(await look()).toEqual(['redis_evicts recovered'])
})

test("an unusable companies' file raises an alert, though not all workers notice it at once", async () => {
  const { clock, companies, look, webhook } = await startScene()
  const problem = '/etc/companies.yaml: acme: give its key.\n/etc/companies.yaml: boreal: too.'
  const broken = { registry: { companies, problem, broken: new Map() } }
  // Another worker has not reread it yet.
  for (const seen of [broken, {}, broken]) {
    expect(await look(seen)).toEqual([])
    clock.pass(8000)
  }
  clock.pass(MINUTE / 2)
  expect(await look(broken)).toEqual(['wrong_configuration raised'])
  expect(webhook.messages[0]).toMatchObject({
    company: null,
    message: expect.stringContaining('acme: give its key. /etc/companies.yaml: boreal'),
  })
  for (const seen of [{}, broken, {}]) {
    expect(await look(seen)).toEqual([])
    clock.pass(8000)
  }
  clock.pass(MINUTE / 2)
  expect(await look()).toEqual(['wrong_configuration recovered'])
})

test('a file that only one worker cannot use alerts once, until that worker can use it or is gone', async () => {
  const { clock, acme, companies, look, alerts } = await startScene({ SYNC_CRON: '0 8 * * *' })
  companies.set('boreal', { ...acme, slug: 'boreal' })
  const broken = new Map([['boreal', 'companies.yaml: boreal: give its key.']])
  const here = {
    worker: 'here',
    registry: { companies, problem: 'companies.yaml: line 3 is not YAML.', isInUse: false, broken },
  }
  const both = async (seen: Partial<Inspection>) => {
    const ofOne = await look(seen)
    clock.pass(17_000)
    const ofOther = await look({ worker: 'there' })
    clock.pass(13_000)
    return [...ofOne, ...ofOther]
  }
  const raised = ['wrong_configuration raised', 'wrong_configuration raised']
  const recovered = ['wrong_configuration recovered', 'wrong_configuration recovered']
  const found = []
  for (let minute = 0; minute < 10; minute += 0.5) found.push(...(await both(here)))
  expect(found).toEqual(raised)
  expect(await both({ worker: 'here' })).toEqual([])
  expect(await both({ worker: 'here' })).toEqual(recovered)
  expect([...(await both(here)), ...(await both(here))]).toEqual(raised)
  // The worker dies, so it reports nothing more.
  clock.pass(MINUTE)
  expect(await look({ worker: 'there' })).toEqual([])
  clock.pass(MINUTE)
  await look({ worker: 'there' })
  clock.pass(MINUTE)
  expect(await look({ worker: 'there' })).toEqual(recovered)
  // The file and the entry, each raised and cleared twice: the log does not flap either.
  expect(alerts.lines).toHaveLength(8)
})

test("for refused names the alert does not claim that the companies' file is not in use", async () => {
  const { clock, companies, look, webhook } = await startScene()
  const problem = '/etc/companies.yaml: companies: "Delta" must be a short name.'
  const refused = { registry: { companies, problem, isInUse: true, broken: new Map() } }
  await look(refused)
  clock.pass(MINUTE)
  expect(await look(refused)).toEqual(['wrong_configuration raised'])
  const message = webhook.messages[0]?.message
  expect(message).toMatch(/^Names in the companies' file cannot be used\. .*"Delta" must be a short name/)
  expect(message).not.toContain('previous configuration')
})

test('alerts of a company or directory that left the configuration are dropped silently', async () => {
  const { clock, acme, companies, look, alerts } = await startScene()
  const gone = { name: 'key_refused', company: 'boreal', message: 'Refused.' } as const
  const low = { readSpace: async (path: string) => ({ blocks: 100, bavail: path === '/old' ? 1 : 50 }) }
  companies.set('boreal', { ...acme, slug: 'boreal', settings: { ...acme.settings, dataDir: '/old' } })
  await alerts.raise(gone)
  expect((await look(low)).sort()).toEqual(['disk_low raised', 'key_refused raised'])
  companies.delete('boreal')
  clock.pass(MINUTE)
  expect(await look(low)).toEqual([])
  expect(await alerts.active()).toHaveLength(2)
  clock.pass(1.5 * MINUTE)
  expect(await look(low)).toEqual([])
  expect(await alerts.active()).toEqual([])
  // From a run that was still under way when the company left.
  await alerts.raise(gone)
  clock.pass(2.5 * MINUTE)
  await look(low)
  expect(await alerts.active()).toEqual([])
})

test('a company that only other workers know so far keeps its alerts', async () => {
  const { clock, acme, companies, look, alerts } = await startScene()
  await alerts.raise({ name: 'identity_guard', company: 'young', message: 'Its first run.' })
  await look()
  expect(await alerts.active()).toHaveLength(1)
  const withBoreal = {
    registry: {
      companies: new Map([...companies, ['boreal', { ...acme, slug: 'boreal' }]]),
      problem: null,
      broken: new Map(),
    },
  }
  await alerts.raise({ name: 'key_refused', company: 'boreal', message: 'Refused.' })
  for (let time = 0; time < 5; time += 1) {
    clock.pass(MINUTE)
    await look(withBoreal)
    await look()
  }
  expect((await alerts.active()).filter(({ name }) => name === 'key_refused')).toHaveLength(1)
})
