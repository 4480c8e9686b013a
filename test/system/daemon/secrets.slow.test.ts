import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { zstdDecompressSync } from 'node:zlib'
import { expect, test, vi } from 'vitest'
import { KeyStore } from '#src/server/keys.ts'
import { askedFor, type Companies, startCompanies } from '#test/support/companies.ts'
import { ADMIN_TOKEN, DAEMON_TEST, type Daemon, startDaemon, until } from '#test/support/daemon.ts'
import { failedJobs, NEVER, redisSettings, requestSync, runsOf } from '#test/support/daemon_runs.ts'
import { holdAfter } from '#test/support/held.ts'
import { filesBelow, temporaryDirectory } from '#test/support/project.ts'
import { OPSGENIE_KEY, PAGERDUTY_KEY, SLACK_PATH, startReceivers } from '#test/support/receivers.ts'
import { scanAll } from '#test/support/redis.ts'
import { warehouseTables } from '#test/support/tables.ts'
import { startWebhook } from '#test/support/webhook.ts'

vi.setConfig(DAEMON_TEST)

const REFUSED_KEY = 'edk_refused_91c2f7d0'
const BROKEN_KEY = 'edk_broken_55e0 7ad3'
const MISPLACED_KEYS = ['edk_in_the_yaml_6f1b', 'edk_in_the_address_0c9e']

/** Synced well; key refused; key repeated by its server in an error; invalid key. */
const SLUGS = ['acme', 'boreal', 'cedro', 'dourado']

async function startWatched() {
  const companies = await startCompanies(SLUGS)
  await writeFile(companies.keyFile('boreal'), REFUSED_KEY)
  await writeFile(companies.keyFile('dourado'), BROKEN_KEY)
  const once = { sync_cron: NEVER }
  await configure(companies, { acme: once, boreal: once, cedro: once, dourado: once })
  const webhook = await startWebhook()
  const urlFile = join(await temporaryDirectory(), 'webhook')
  await writeFile(urlFile, webhook.url)
  const receivers = await startReceivers()
  const store = KeyStore.open(companies.environment.DATA_DIR as string, 5000)
  const watching = store.create('*', 'grafana', new Date(), null, { scopes: ['watch'], maxRps: null })
  store.close()
  const redis = await redisSettings()
  const environment = {
    ...companies.environment,
    ...redis,
    LOG_LEVEL: 'trace',
    API_TIMEOUT_MS: '60000',
    CEDRO_KEY: companies.keyOf('cedro'),
    ALERT_WEBHOOK_URL_FILE: urlFile,
    ...receivers.settings,
    WORKER_CONCURRENCY: '4',
  }
  const secrets = [
    ...SLUGS.map(companies.keyOf),
    ...[REFUSED_KEY, BROKEN_KEY, ...MISPLACED_KEYS, ADMIN_TOKEN, watching, webhook.token],
    ...[PAGERDUTY_KEY, OPSGENIE_KEY, SLACK_PATH.split('/').at(-1) ?? ''],
  ]
  return {
    companies,
    webhook,
    receivers,
    environment,
    secrets,
    watching,
    inRedis: () => scanAll(redis.REDIS_URL, redis.REDIS_PREFIX),
  }
}

/** The key of cedro is in a variable. */
async function configure(
  { file, keyFile }: Companies,
  companies: Record<string, Record<string, string>>,
): Promise<void> {
  const all = Object.entries(companies).map(([slug, settings]) => {
    const key = slug === 'cedro' ? { api_key_env: 'CEDRO_KEY' } : { api_key_file: keyFile(slug) }
    return [slug, { ...key, ...settings }]
  })
  await writeFile(file, JSON.stringify({ companies: Object.fromEntries(all) }))
}

/** Checks that the searched text really contains what the runs handled. */
function expectSome(expected: readonly string[], text: string): void {
  expect(expected.filter(some => !text.includes(some))).toEqual([])
}

/** Searches for each secret as it is, and as headers encode it. */
function expectNone(secrets: readonly string[], texts: Readonly<Record<string, string>>): void {
  const found = Object.entries(texts).flatMap(([name, text]) =>
    secrets
      .flatMap(secret => [
        secret,
        Buffer.from(secret).toString('base64').replace(/=+$/, ''),
        encodeURIComponent(secret),
      ])
      .filter(secret => text.includes(secret))
      .map(
        secret =>
          `${secret} in ${name}: ${text.slice(text.indexOf(secret) - 100, text.indexOf(secret) + 100)}`,
      ),
  )
  expect(found).toEqual([])
}

test("no key or token is in what the worker writes, stores, logs or sends; a run knows only its company's key", async () => {
  const { companies, webhook, receivers, environment, secrets, watching, inRedis } = await startWatched()
  const { sandbox } = companies
  const holding = holdAfter(sandbox, 'list', { passing: 0, waiting: 2, company: ['acme', 'cedro'] })
  sandbox.faults.respond = ({ company, kind }) =>
    company === 'cedro' && kind === 'list'
      ? {
          status: 400,
          body: JSON.stringify({ error: 'bad_request', detail: `What is ${companies.keyOf('cedro')}?` }),
        }
      : undefined
  const daemon = await startDaemon(environment, { env: { LOG_LEVEL: 'trace' } })

  // During a run.
  await holding.reached
  await until(async () => (await inRedis()).includes('stage'), { what: 'progress in Redis' })
  const during = { redis: await inRedis(), processes: await commandLines(daemon) }
  expect(during.processes).toMatch(/jobs\/main\.ts[\s\S]*jobs\/child\.ts/)
  await expectOwnKeys(daemon, companies, secrets)
  expect(askedFor(sandbox, 'acme', 'list')).toHaveLength(1)
  holding.release()
  await until(() => ['ok', 'failed'].every(status => runsOf(daemon).some(run => run.status === status)), {
    what: 'a run that went well, and one that failed',
  })
  await until(() => runsOf(daemon, 'cedro').some(({ error }) => /400/.test(error ?? '')), {
    what: 'an error of the API',
  })
  await until(async () => (await failedJobs(daemon)).some(reason => /contains white space/.test(reason)), {
    what: 'a word about a key that can be none',
  })
  await requestSync(daemon, 'acme', { full: true })
  await until(() => runsOf(daemon, 'acme').some(({ mode }) => mode === 'full'), { what: 'a full run' })

  const answers: Record<string, string> = {}
  const ask = async (name: string, path: string, init?: RequestInit) => {
    answers[name] = await (await daemon.ask(path, init)).text()
  }
  await ask('status', '/companies/acme/status')
  await ask('report', '/companies/acme/report')
  await ask('board', '/queues/api/queues?activeQueue=runs&status=failed&page=1&jobsPerPage=20')
  await ask('wrong token', '/companies/acme/status', { headers: { authorization: `Bearer ${ADMIN_TOKEN}x` } })
  const reading = { headers: { authorization: `Bearer ${watching}` } }
  await ask('reading', '/companies/acme/status', reading)
  await ask('writing', '/companies/acme/sync', { method: 'POST', ...reading })
  expect(answers.reading).toContain('"company":"acme"')
  expect(answers.writing).toContain('may only watch')
  expect(answers.status).toContain('"company":"acme"')
  expect(answers.report).toMatch(/^<!doctype html>/i)
  expect(answers.board).toContain('API key refused (401)')

  // Keys in the wrong settings.
  for (const settings of [
    { api_key: MISPLACED_KEYS[0] },
    { api_base_url: `http://x/?key=${MISPLACED_KEYS[1]}`, api_key_file: companies.keyFile('acme') },
  ]) {
    await writeFile(companies.file, JSON.stringify({ companies: { acme: settings } }))
    // The file may also be read half-written.
    const isReported = async () => /acme: /.test(await (await daemon.ask('/readyz')).text())
    await until(isReported, { what: 'a broken file' })
    await ask(`readyz ${Object.keys(settings)[0]}`, '/readyz')
    await configure(companies, { acme: { sync_cron: NEVER } })
    await until(async () => (await daemon.ask('/readyz')).status === 200, { what: 'a file that works' })
  }
  await ask('metrics', '/metrics')
  await ask('readyz', '/readyz')
  expect(answers['readyz api_key']).toContain('acme: api_key')
  expect(answers['readyz api_base_url']).toContain('API_BASE_URL=')

  // The next worker sends what this one noted.
  await startDaemon(environment)
  await until(() => webhook.messages.some(({ alert }) => alert === 'key_refused'), { what: 'an alert' })
  await until(() => new Set(receivers.understood.map(({ to }) => to)).size === 3, { what: 'all receivers' })
  expect(receivers.misunderstood).toEqual([])
  const redis = await inRedis()
  expectSome(['API key refused (401)', 'key_refused:boreal', 'What is ', 'contains white space'], redis)
  expect(await daemon.stop()).toBe(0)

  const files = await filesOf(companies)
  expectSome(['Objeto 3', 'API key refused (401)', 'What is '], files)
  expectNone(secrets, {
    'Redis during a run': during.redis,
    'Redis after runs': redis,
    processes: during.processes,
    ...answers,
    log: JSON.stringify(daemon.lines),
    files,
    alerts: JSON.stringify(webhook.messages),
  })
})

/** The current runs of acme and cedro know their own company's key, and no other secret. */
async function expectOwnKeys(
  daemon: Daemon,
  companies: Companies,
  secrets: readonly string[],
): Promise<void> {
  const environments = await Promise.all(
    daemon.runs().map(pid => readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '')),
  )
  const of = (slug: string) => environments.find(text => text.includes(`COMPANY=${slug}`)) ?? ''
  const key = companies.keyOf('cedro')
  expect(of('cedro').split('\0')).toContain(`API_KEY=${key}`)
  expectNone(
    secrets.filter(secret => secret !== key),
    { 'the environment of cedro': of('cedro') },
  )
  expect(of('acme').split('\0')).toContain(`API_KEY_FILE=${companies.keyFile('acme')}`)
  expectNone(secrets, { 'the environment of acme': of('acme') })
  expect(environments.join()).not.toMatch(/REDIS_|ADMIN_TOKEN|ALERT_|CEDRO_KEY=|COMPANIES_FILE/)
}

/** What `ps` would show of a worker and its runs. */
async function commandLines(daemon: Daemon): Promise<string> {
  const pids = [daemon.pid, ...daemon.runs()]
  return (await Promise.all(pids.map(pid => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')))).join(
    '\n',
  )
}

/** All text below the data directory: plain files, unpacked segments and the rows of the warehouses. */
async function filesOf({ environment, company }: Companies): Promise<string> {
  const texts: string[] = []
  for (const [path, bytes] of await filesBelow(environment.DATA_DIR ?? '')) {
    texts.push(path, bytes.toString('latin1'))
    if (path.endsWith('.zst')) texts.push(zstdDecompressSync(bytes).toString('utf8'))
  }
  for (const slug of ['acme', 'boreal', 'cedro']) {
    texts.push(JSON.stringify(await warehouseTables(company(slug).environment)))
  }
  return texts.join('\n')
}
