import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it, test } from 'vitest'
import { REMOVED_SETTINGS, readCompanies } from '#config/companies.ts'
import { DAEMON_SETTINGS, readRedisSettings, readSchedule } from '#config/daemon.ts'
import { COMPANY_SETTINGS, KEY_SETTINGS, readSettings, SCHEDULE_SETTINGS } from '#config/settings.ts'
import { nextAfter } from '#jobs/queues/cron.ts'
import { Database } from '#src/core/warehouse/database.ts'
import { PROJECT } from '#test/support/docker.ts'
import { temporaryDirectory } from '#test/support/project.ts'

const NAMES = [
  ...['UTC', 'Etc/UTC', 'Etc/GMT+3', 'Brazil/East', 'America/Sao_Paulo', 'America/Argentina/Buenos_Aires'],
  ...['Asia/Calcutta', 'Asia/Kolkata', 'Europe/Kiev', 'Europe/Kyiv', 'US/Eastern', 'Portugal'],
]

test('a time zone is accepted under any of its names, in every setting', async () => {
  const db = await Database.open(':memory:', { threads: 1 })
  try {
    for (const name of NAMES) {
      expect(readSettings({ SOURCE_TIMEZONE: name }).sourceTimezone).toBe(name)
      const { syncCron, timezone } = readSchedule({ SOURCE_TIMEZONE: name, SYNC_CRON: '0 8 * * *' })
      // The schedule and the local times agree on the zone.
      const [row] = await db.rows<{ at: Date }>(
        `SELECT TIMESTAMP '2026-11-22 08:00:00' AT TIME ZONE $name AS at`,
        { name },
      )
      const at = nextAfter(Date.parse('2026-11-21T20:00:00Z'), syncCron, timezone)
      expect(new Date(at).toISOString(), name).toBe(new Date(Number(row?.at)).toISOString())
    }
  } finally {
    db.close()
  }
})

test.each(['Brasilia', '+03:00', 'GMT+3', '', 'America/Sao Paulo'])('%j is not a time zone', name => {
  if (name === '') expect(readSchedule({ SOURCE_TIMEZONE: name }).timezone).toBe('America/Sao_Paulo')
  else {
    expect(() => readSchedule({ SOURCE_TIMEZONE: name })).toThrow(/is not a time zone such as/)
    expect(() => readSettings({ SOURCE_TIMEZONE: name })).toThrow(/is not a time zone such as/)
  }
})

test.each(['0 0 31 2 *', '0 0 30 2 *', '0 0 31 4,6 *', '0 0 31 9,11 *'])(
  '%s is reported as never firing',
  cron => {
    expect(() => readSchedule({ SYNC_CRON: cron })).toThrow(`SYNC_CRON=${cron}: never fires`)
  },
)

test.each(['often', '* * * *', '61 * * * *', 'H * * * *'])('%s is not a cron expression', cron => {
  expect(() => readSchedule({ SYNC_CRON: cron })).toThrow(`SYNC_CRON=${cron}: must be a cron expression`)
})

test.each(['0 0 29 2 *', '0 0 31 * *', '@daily', '*/2 * * * * *'])('%s is a cron expression', cron => {
  expect(readSchedule({ SYNC_CRON: cron }).syncCron).toBe(cron)
})

const read = (environment: Record<string, string>) =>
  readRedisSettings({ REDIS_URL: 'redis://redis', ...environment })

it('the keys of a cluster have a hash tag, and other keys stay as they are', () => {
  expect(read({ REDIS_PREFIX: 'one' })).toMatchObject({ prefix: 'one', cluster: null })
  expect(read({ REDIS_PREFIX: 'one', REDIS_SENTINELS: 'a' })).toMatchObject({ prefix: 'one', cluster: null })
  expect(read({ REDIS_PREFIX: 'one', REDIS_CLUSTER: 'a:7000, [::1]:7001,c' })).toMatchObject({
    prefix: '{one}',
    cluster: [
      { host: 'a', port: 7000 },
      { host: '::1', port: 7001 },
      { host: 'c', port: 6379 },
    ],
  })
})

it('what a cluster cannot have is refused', () => {
  const both =
    'REDIS_CLUSTER and REDIS_SENTINELS are both set. A cluster needs no sentinels: unset one of them.'
  expect(() => read({ REDIS_CLUSTER: 'a', REDIS_SENTINELS: 'b' })).toThrow(both)
  expect(() => read({ REDIS_CLUSTER: 'a', REDIS_URL: 'redis://redis/1' })).toThrow(
    'REDIS_CLUSTER is set, and REDIS_URL ends with /1. A cluster has only database 0: remove /1, and use REDIS_PREFIX to share it.',
  )
  expect(read({ REDIS_CLUSTER: 'a', REDIS_URL: 'redis://redis/0' }).cluster).toHaveLength(1)
  for (const text of ['a b', 'a,,b', 'redis://a', 'a:70000', ',']) {
    expect(() => read({ REDIS_CLUSTER: text }), text).toThrow(
      'must be addresses such as 10.0.0.1:6379, separated by commas',
    )
  }
})

const ENTRY = 'api_base_url: "http://127.0.0.1:9", api_key_file: /none'

test.each([...REMOVED_SETTINGS.keys()])(
  '%s is read nowhere, and who sets it is warned, in the environment and in the companies file',
  async name => {
    const known: readonly string[] = [
      ...COMPANY_SETTINGS,
      ...SCHEDULE_SETTINGS,
      ...DAEMON_SETTINGS,
      ...KEY_SETTINGS,
    ]
    expect(known).not.toContain(name)
    expect(readFileSync(join(PROJECT, '.env.example'), 'utf8')).not.toMatch(new RegExp(`^#?${name}=`, 'm'))
    const none = join(await temporaryDirectory(), 'none.yaml')
    const warning = `${name} is no longer a setting: ${REMOVED_SETTINGS.get(name)}. Remove it.`
    expect((await readCompanies({ COMPANIES_FILE: none, [name]: 'x' })).warnings).toEqual([warning])
    expect((await readCompanies({ COMPANIES_FILE: none, [name]: ' ' })).warnings).toEqual([])

    const file = join(await temporaryDirectory(), 'companies.yaml')
    const written = name.toLowerCase()
    await writeFile(
      file,
      `companies:\n  acme: { ${ENTRY}, ${written}: 5 }\n  boreal: { ${ENTRY}, ${written}: 7 }\n`,
    )
    const { environments, broken, warnings } = await readCompanies({ COMPANIES_FILE: file })
    expect([[...environments.keys()], broken.size]).toEqual([['acme', 'boreal'], 0])
    expect(warnings).toEqual([`${file}: acme, boreal: ${written}${warning.slice(name.length)}`])
  },
)

test('a warning does not repeat an invalid name, which may be a secret', async () => {
  const file = join(await temporaryDirectory(), 'companies.yaml')
  await writeFile(file, `companies:\n  acme: { ${ENTRY} }\n  T0k3n9b1c: { ${ENTRY}, sync_timezone: UTC }\n`)
  expect((await readCompanies({ COMPANIES_FILE: file })).warnings).toEqual([])
})
