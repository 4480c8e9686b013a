import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { createRandom } from '#src/sandbox/random.ts'
import { startSandbox } from '#src/sandbox/server.ts'
import { commandOf } from '../command.ts'
import { overlaps } from '../daemon/crowd.ts'
import { startRedis } from '../daemon/redis.ts'
import { type Run, startWorker, type Worker } from '../daemon/worker.ts'
import { factsOf, wrongNotices } from '../month/truth.ts'
import { run } from '../processes.ts'
import type { HostsOptions } from './bench.ts'
import { type ChangingCompany, makeCompanies } from './companies.ts'
import { type Asked, repeated } from './repeated.ts'
import { startLogStore } from './store.ts'

/** Many companies on workers that are killed with their disks, while the store is paused now and then. */
export type Storm = {
  readonly losses: number
  readonly pauses: number
  readonly changes: number
  readonly runs: number
  /** Runs of one company at the same time, of those that ended. */
  readonly overlaps: number
  /** Analyses requested again although they were sealed. */
  readonly repeated: number
  /** Requests for analyses in all, and the distinct versions among them. */
  readonly requests: number
  readonly distinct: number
  /** Companies that differ from their API, on an empty disk after the storm. */
  readonly wrong: readonly string[]
}

/** Every company is due this often; most ticks only look. */
const SCHEDULE = '*/20 * * * * *'
const CHANGE_EVERY_MS = 400
const PAUSES = 2
const PAUSE_MS = 15_000

export async function measureStorm(
  options: HostsOptions,
  directory: string,
  onStep: (step: string) => void,
): Promise<Storm> {
  const random = createRandom(`storm ${options.seed}`)
  const companies = makeCompanies(options.companies, options.small, random)
  const sandbox = await startSandbox({ companies })
  const asked: Asked[] = []
  const listedMs = new Map<string, number>()
  sandbox.faults.onRequest = ({ kind, company, id }) => {
    // A run reads the log before the list.
    if (kind === 'list') listedMs.set(company ?? '', Date.now())
    if (kind !== 'analysis') return
    const world = companies.find(({ slug }) => slug === company)?.world
    const version = `${id} ${world?.entry(id ?? '')?.edital.updated_at}`
    asked.push({ company: company ?? '', version, listedMs: listedMs.get(company ?? '') ?? 0 })
  }
  const redis = await startRedis(join(directory, 'redis'))
  const store = await startLogStore(join(directory, 'keys'))
  const env = {
    ...store.settings,
    API_BASE_URL: sandbox.url,
    COMPANIES_FILE: await writeCompanies(directory, companies),
    REDIS_URL: redis.url,
    SYNC_CRON: SCHEDULE,
    MAINTENANCE_CRON: '0 0 1 1 *',
    ANALYSIS_MAX_AGE: 'off',
    JOB_LOCK_MS: '5000',
  }
  const hosts = await Promise.all(
    Array.from({ length: options.workers }, (_, index) => startHost(directory, env, index)),
  )
  const runs: Run[] = []
  const changing = changeNowAndThen(companies, random)
  const pausing = pauseNowAndThen(store.pid, options.seconds)
  let losses = 0
  for (const fromMs = Date.now(); Date.now() - fromMs < options.seconds * 1000; ) {
    await sleep(options.every * 1000)
    const index = random.int(0, hosts.length - 1)
    onStep(`losing host ${index + 1} (${losses + 1})`)
    runs.push(...(await loseHost(hosts, index, { directory, env })))
    losses += 1
  }
  const changes = changing.end()
  const pauses = await pausing.end()
  onStep('after the storm')
  await untilSettled(hosts, companies)
  for (const { worker } of hosts) {
    await worker.stop()
    runs.push(...worker.runs)
  }
  const wrong = await compareAll(companies, join(directory, 'fresh'), env)
  const again = await repeated(companies, asked, store.settings)
  await store.close()
  await redis.close()
  await sandbox.close()
  return {
    ...{ losses, pauses, changes, wrong, repeated: again },
    runs: runs.length,
    overlaps: overlaps(runs.sort((a, b) => Date.parse(a.started_at) - Date.parse(b.started_at))),
    requests: asked.length,
    distinct: new Set(asked.map(({ company, version }) => `${company} ${version}`)).size,
  }
}

type Host = { readonly worker: Worker; readonly dataDir: string }
type Where = { readonly directory: string; readonly env: Readonly<Record<string, string>> }

let disks = 0

async function startHost(directory: string, env: Where['env'], index: number): Promise<Host> {
  const own = join(directory, `host-${index + 1}-${disks++}`)
  const dataDir = join(own, 'data')
  await mkdir(own)
  return { dataDir, worker: await startWorker({ directory: own, env: { ...env, DATA_DIR: dataDir } }) }
}

/** @returns the runs that the lost host had ended. */
async function loseHost(hosts: Host[], index: number, { directory, env }: Where): Promise<Run[]> {
  const { worker, dataDir } = hosts[index] as Host
  await worker.kill()
  await rm(dataDir, { recursive: true, force: true })
  hosts[index] = await startHost(directory, env, index)
  return [...worker.runs]
}

async function writeCompanies(directory: string, companies: readonly ChangingCompany[]): Promise<string> {
  const path = join(directory, 'companies.yaml')
  const lines: string[] = []
  for (const { slug, key } of companies) {
    const file = join(directory, `${slug}.key`)
    await writeFile(file, key, { mode: 0o600 })
    lines.push(`  ${slug}: { api_key_file: ${JSON.stringify(file)} }`)
  }
  await writeFile(path, `companies:\n${lines.join('\n')}\n`)
  return path
}

function changeNowAndThen(companies: readonly ChangingCompany[], random: ReturnType<typeof createRandom>) {
  let changes = 0
  const timer = setInterval(() => {
    random.pick(companies).change()
    changes += 1
  }, CHANGE_EVERY_MS)
  return {
    end() {
      clearInterval(timer)
      return changes
    },
  }
}

/** Stops the store's process for a while, at even distances. */
function pauseNowAndThen(pid: number, seconds: number) {
  let pauses = 0
  let under = Promise.resolve()
  const timers = Array.from({ length: PAUSES }, (_, index) =>
    setTimeout(
      () => {
        pauses += 1
        process.kill(pid, 'SIGSTOP')
        under = sleep(PAUSE_MS).then(() => void process.kill(pid, 'SIGCONT'))
      },
      (seconds * 1000 * (index + 1)) / (PAUSES + 1),
    ),
  )
  return {
    async end() {
      timers.forEach(clearTimeout)
      await under
      return pauses
    },
  }
}

/** Until every company had a run that began now or later, and left nothing to do. */
async function untilSettled(hosts: readonly Host[], companies: readonly ChangingCompany[]): Promise<void> {
  const [first] = hosts as [Host]
  // It may have been replaced just now.
  while (!(await fetch(`${first.worker.url}/readyz`)).ok) await sleep(500)
  const sinceMs = Date.now()
  for (const { slug } of companies) await first.worker.requestSync(slug)
  const isSettled = ({ slug }: ChangingCompany) =>
    hosts.some(({ worker }) =>
      worker.runs.some(
        ({ company, status, started_at }) =>
          company === slug && status === 'ok' && Date.parse(started_at) >= sinceMs,
      ),
    )
  while (!companies.every(isSettled)) await Promise.race(hosts.map(({ worker }) => worker.next()))
}

/** Each company on an empty disk: restored, without a request for an analysis, and equal to the API. */
async function compareAll(
  companies: readonly ChangingCompany[],
  directory: string,
  env: Where['env'],
): Promise<string[]> {
  await mkdir(directory)
  const dataDir = join(directory, 'data')
  const wrong: string[] = []
  const { nodeOptions, file, args } = await commandOf('restore')
  for (const { slug, world } of companies) {
    const settings = { ...env, DATA_DIR: dataDir, LOG_LEVEL: 'warn' }
    await run(file, [...args, '--company', slug], { cwd: directory, env: settings, nodeOptions })
    const differing = await wrongNotices(dataDir, slug, factsOf(world))
    if (differing.length > 0) wrong.push(`${slug}: ${differing.slice(0, 3).join(', ')}`)
  }
  return wrong
}
