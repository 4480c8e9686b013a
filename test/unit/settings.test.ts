import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it, test } from 'vitest'
import { readCompanies } from '#config/companies.ts'
import { DAEMON_SETTINGS, readDaemonSettings, readRedisSettings, readSchedule } from '#config/daemon.ts'
import { formatLocalAddress, readServeSettings } from '#config/http.ts'
import { MERGED_SETTINGS, REMOVED_SETTINGS } from '#config/setting_kinds.ts'
import { COMPANY_SETTINGS, KEY_SETTINGS, readSettings, SCHEDULE_SETTINGS } from '#config/settings.ts'
import { computeNextTime } from '#jobs/queues/company_registry.ts'
import { Database } from '#src/core/warehouse/database.ts'
import { temporaryDirectory } from '#test/support/project.ts'
import { explainedSettings } from '#tools/settings_page.ts'

const NAMES = [
  ...['UTC', 'Etc/UTC', 'Etc/GMT+3', 'Brazil/East', 'America/Sao_Paulo', 'America/Argentina/Buenos_Aires'],
  ...['Asia/Calcutta', 'Asia/Kolkata', 'Europe/Kiev', 'Europe/Kyiv', 'US/Eastern', 'Portugal'],
]

/** Read by the libraries that they belong to, or by Docker Compose alone. */
const READ_ELSEWHERE = ['OTEL_EXPORTER_OTLP_ENDPOINT', 'WORKER_MEMORY']

test('the page of settings explains every one, with the default that it has', () => {
  const explained = explainedSettings()
  const known = [...COMPANY_SETTINGS, ...SCHEDULE_SETTINGS, ...DAEMON_SETTINGS, ...KEY_SETTINGS]
  // A secret has a file, and an entry of the companies’ file names a variable.
  const own = new Set(known).difference(new Set(['API_KEY_ENV']))
  const names = [...own].filter(name => explained.has(name) || !own.has(name.replace(/_FILE$/, '')))
  expect([...explained.keys()].sort()).toEqual([...names, ...READ_ELSEWHERE].sort())
  for (const [name, { usual }] of explained) {
    if (usual === null || READ_ELSEWHERE.includes(name)) continue
    for (const read of [readSettings, readSchedule, readDaemonSettings, readServeSettings])
      expect(read({ [name]: usual }), name).toEqual(read({}))
  }
})

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
      const at = computeNextTime(Date.parse('2026-11-21T20:00:00Z'), syncCron, timezone)
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
  const one = { url: 'redis://redis', prefix: 'one', sentinels: null, cluster: null }
  expect(read('redis://redis', { REDIS_PREFIX: 'one' })).toMatchObject(one)
  for (const url of ['rediss://u:p%40@h/3?family=6', 'redis://[::ffff:10.0.0.1]:6379', 'redis://u:p@q@h'])
    expect(new URL(read(url).url).href, url).toBe(new URL(url).href)
  const at = ({ host, port }: { host: string; port: number }) => `${host} ${port}`
  const several = read('redis://user@a:7000, [::1]:7001,c/0?cluster', { REDIS_PREFIX: 'one' })
  expect(several).toMatchObject({ url: 'redis://user@a:7000/0', prefix: '{one}', sentinels: null })
  expect(several.cluster?.map(at)).toEqual(['a 7000', '::1 7001', 'c 6379'])
  const secret = { REDIS_SENTINEL_PASSWORD: 'pw' }
  const { sentinels, ...other } = read('rediss://user@[::1],b:7000/2?sentinel=bids', secret)
  expect(other).toMatchObject({ url: 'rediss://user@[::1]:26379/2', prefix: 'editais-sync', cluster: null })
  expect(sentinels?.hosts.map(at)).toEqual(['::1 26379', 'b 7000'])
  expect(sentinels).toMatchObject({ name: 'bids', password: 'pw' })
})

const NO_REDIS = 'must be an address such as redis://127.0.0.1:6379, or rediss:// for TLS'

test.each<string[]>([
  ['redis://a/1?cluster', 'names a database, but a cluster has only database 0.'],
  ...['a,b', 'a,b?cluster&sentinel=x', 'a?sentinels=x', 'a,b?Cluster', 'a?name=x'].map(end => [
    `redis://${end}`,
    'must end with ?cluster if it has nodes of a cluster, or with ?sentinel=NAME',
  ]),
  ['redis://a?sentinel', 'must name the master after ?sentinel='],
  ['redis://a?sentinel=two words', 'must name the master after ?sentinel='],
  ['redis://a/db?cluster', 'may have only a database number after the port'],
  ...['a,b c', 'a,,b', 'a,b:70000', 'u:p@a,u:p@b'].map(list => [
    `redis://${list}?cluster`,
    'must have addresses such as 10.0.0.1:6379 and 10.0.0.2, separated by commas, and user and password once',
  ]),
  ...['redis://a b?cluster', 'redis://', 'http://a'].map(url => [url, NO_REDIS]),
])('REDIS_URL=%s is refused', (url, why) => {
  expect(() => read(url)).toThrow(`REDIS_URL=(not shown): ${why}`)
})

test.each([...MERGED_SETTINGS])(
  '%s is refused with the setting that took its place, in the environment and in the companies file',
  async (name, now) => {
    const refusal = `${name} is no longer a setting: ${now}. Remove ${name}.`
    expect(() => readSettings({ [name]: 'x' })).toThrow(refusal)
    expect(() => readDaemonSettings({ [name]: 'x' })).toThrow(refusal)
    await expect(readCompanies({ [name]: 'x' })).rejects.toThrow(refusal)
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
    expect(known).not.toContain(name)
    expect(known).toContain(/\b[A-Z]\w+_[A-Z_]+/.exec(now)?.[0])
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
    expect(explainedSettings().has(name)).toBe(false)
    const none = join(await temporaryDirectory(), 'none.yaml')
    const warning = `${name} is no longer a setting: ${REMOVED_SETTINGS.get(name)}. Remove ${name}.`
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
    expect(warnings).toEqual([`${file}: acme, boreal: ${warning.replaceAll(name, written)}`])
  },
)

test('a warning does not repeat an invalid name, which may be a secret', async () => {
  const file = join(await temporaryDirectory(), 'companies.yaml')
  await writeFile(file, `companies:\n  acme: { ${ENTRY} }\n  T0k3n9b1c: { ${ENTRY}, sync_timezone: UTC }\n`)
  expect((await readCompanies({ COMPANIES_FILE: file })).warnings).toEqual([])
})

test('this machine reaches a server at its address, or here if it listens on every one', () => {
  for (const [host, address] of [
    ['127.0.0.1', 'http://127.0.0.1:8080'],
    ['0.0.0.0', 'http://127.0.0.1:8080'],
    ['::', 'http://127.0.0.1:8080'],
    ['::1', 'http://[::1]:8080'],
    ['worker', 'http://worker:8080'],
  ] as const)
    expect(formatLocalAddress({ host, port: 8080 })).toBe(address)
})
