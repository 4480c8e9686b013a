import { rm, statfs } from 'node:fs/promises'
import { Redis } from 'ioredis'
import { expect, onTestFinished, test } from 'vitest'
import type { Inspection } from '#jobs/alerts/inspect.ts'
import { MINUTE, startScene } from '#test/support/inspected.ts'
import { canOwnRedis, startOwnRedis } from '#test/support/redis.ts'

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

test('a wrong volume raises one critical alert, until each worker has the right one or is gone', async () => {
  const { clock, look, webhook } = await startScene()
  const wrong = (worker: string) => ({ worker, wrongVolumes: ['/data is not the volume of the others.'] })
  const right = (worker: string) => ({ worker, wrongVolumes: [] })
  expect(await look(wrong('one'))).toEqual([])
  clock.pass(MINUTE / 2)
  expect(await look(right('two'))).toEqual(['wrong_directory raised'])
  expect(webhook.messages[0]).toMatchObject({
    company: null,
    severity: 'critical',
    message: 'A worker has a wrong volume. /data is not the volume of the others.',
  })
  for (let time = 0; time < 3; time += 1) {
    clock.pass(MINUTE / 2)
    expect(await look(wrong('one'))).toEqual([])
    expect(await look(right('two'))).toEqual([])
  }
  expect(await look(right('one'))).toEqual([])
  clock.pass(MINUTE / 2)
  expect(await look(right('two'))).toEqual(['wrong_directory recovered'])

  await look(wrong('three'))
  clock.pass(MINUTE)
  expect(await look(right('two'))).toEqual(['wrong_directory raised'])
  clock.pass(2 * MINUTE)
  await look(right('two'))
  clock.pass(MINUTE)
  expect(await look(right('two'))).toEqual(['wrong_directory recovered'])
})

test.each([
  ['wrong_clock', { clocks: ['The clock of here is 3 h 0 min ahead of that of Redis.'], stores: [] }],
  ['shared_log_unusable', { clocks: [], stores: ['This worker cannot use the object store of LOG_URL.'] }],
])(
  '%s is raised once for all workers, and lasts while one of them, whose clock may be wrong, has the problem',
  async (name, problem) => {
    const { clock, look, webhook } = await startScene()
    const DAY = 24 * 60 * MINUTE
    // By its own clock, it looks two days later than the others.
    const bad = () => ({
      worker: 'one',
      now: new Date(clock().getTime() + 2 * DAY),
      standby: { ...problem, redisAheadMs: -2 * DAY },
    })
    const good = (worker: string) => ({ worker, standby: { clocks: [], stores: [], redisAheadMs: 0 } })
    await look(bad())
    clock.pass(MINUTE)
    expect(await look(good('two'))).toEqual([`${name} raised`])
    expect(webhook.messages[0]).toMatchObject({
      company: null,
      severity: 'warning',
      message: [...problem.clocks, ...problem.stores][0],
    })
    for (let time = 0; time < 4; time += 1) {
      clock.pass(MINUTE)
      expect(await look(bad())).toEqual([])
      expect(await look(good('two'))).toEqual([])
    }
    // Until its stores were asked, it knows nothing.
    await look(good('one'))
    clock.pass(MINUTE)
    expect(await look(good('two'))).toEqual([`${name} recovered`])
  },
)
