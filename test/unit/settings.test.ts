import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it, test } from 'vitest'
import { readCompanies } from '#config/companies.ts'
import { DAEMON_SETTINGS, readDaemonSettings, readRedisSettings, readSchedule } from '#config/daemon.ts'
import { MERGED_SETTINGS, REMOVED_SETTINGS } from '#config/setting_kinds.ts'
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

const read = (REDIS_URL: string, environment: Record<string, string> = {}) =>
  readRedisSettings({ REDIS_URL, ...environment })

it('an address of Redis is that of one, or has the nodes of a cluster, or sentinels and their name for it', () => {
  expect(read('redis://redis', { REDIS_PREFIX: 'one' })).toMatchObject({
    url: 'redis://redis',
    prefix: 'one',
    sentinels: null,
    cluster: null,
  })
  // Options of the client stay.
  expect(read('rediss://u:p%40@h/3?family=6').url).toBe('rediss://u:p%40@h/3?family=6')
  expect(read('redis://user@a:7000, [::1]:7001,c/0?cluster', { REDIS_PREFIX: 'one' })).toMatchObject({
    url: 'redis://user@a:7000/0',
    prefix: '{one}',
    sentinels: null,
    cluster: [
      { host: 'a', port: 7000 },
      { host: '::1', port: 7001 },
      { host: 'c', port: 6379 },
    ],
  })
  const sentinels = read('rediss://user@[::1],b:7000/2?sentinel=bids', { REDIS_SENTINEL_PASSWORD: 'pw' })
  expect(sentinels).toMatchObject({
    url: 'rediss://user@[::1]:26379/2',
    prefix: 'editais-sync',
    sentinels: {
      hosts: [
        { host: '::1', port: 26_379 },
        { host: 'b', port: 7000 },
      ],
      name: 'bids',
      password: 'pw',
    },
    cluster: null,
  })
  expect(read('redis://a?cluster=').cluster).toHaveLength(1)
})

test.each<string[]>([
  ['redis://a/1?cluster', 'names a database. A cluster has only 0: share it by REDIS_PREFIX'],
  ['redis://a,b', 'has several addresses: end it with ?cluster if'],
  ['redis://a,b?cluster&sentinel=x', 'has several addresses: end it with ?cluster if'],
  ['redis://a?sentinel', 'must name the master after ?sentinel='],
  ['redis://a?sentinel=two words', 'must name the master after ?sentinel='],
  ['redis://a/db?cluster', 'may have only a database number after the port'],
  ...['redis://a b?cluster', 'redis://a,,b?cluster', 'redis://a,b:70000?cluster', 'http://a'].map(url => [
    url,
    'must be an address such as redis://127.0.0.1:6379, or rediss:// for TLS',
  ]),
])('REDIS_URL=%s is refused', (url, why) => {
  expect(() => read(url)).toThrow(`REDIS_URL=(not shown): ${why}`)
})

test.each([...MERGED_SETTINGS])(
  '%s is refused with the setting that took its place, in the environment and in the companies file',
  async (name, now) => {
    const refusal = `${name} is no longer a setting: ${now}. Remove it.`
    expect(() => readSettings({ [name]: 'x' })).toThrow(refusal)
    expect(() => readDaemonSettings({ [name]: 'x' })).toThrow(refusal)
    readSettings({ [name]: ' ' })
    const file = join(await temporaryDirectory(), 'companies.yaml')
    await writeFile(
      file,
      `companies:\n  acme: { ${ENTRY}, ${name.toLowerCase()}: x }\n  beta: { ${ENTRY} }\n`,
    )
    const { broken, environments } = await readCompanies({ COMPANIES_FILE: file })
    expect([...environments.keys()]).toEqual(['beta'])
    expect(broken.get('acme')).toBe(`${file}: acme: ${refusal}`)
    const known: readonly string[] = [...COMPANY_SETTINGS, ...DAEMON_SETTINGS]
    expect([known.includes(name), known.includes(now.split(' ')[0] ?? '')]).toEqual([false, true])
  },
)

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
