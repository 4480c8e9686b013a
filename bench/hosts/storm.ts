import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { createRandom } from '#src/sandbox/random.ts'
import { startSandbox } from '#src/sandbox/server.ts'
import { overlaps } from '../daemon/crowd.ts'
import { startRedis } from '../daemon/redis.ts'
import { collectAsked } from './asked.ts'
import type { HostsOptions } from './bench.ts'
import { type ChangingCompany, makeCompanies } from './companies.ts'
import { compareAll } from './compare.ts'
import { openFleet } from './fleet.ts'
import { loseNowAndThen } from './lose.ts'
import type { Network } from './network.ts'
import { type Overlap, requestOverlap } from './overlap.ts'
import { inspectLog, type Sealed } from './sealed.ts'
import { untilSettled } from './settled.ts'
import { startLogStore } from './store.ts'

/** Many companies on hosts that are lost with their disks or cut off, while the store is paused now and then. */
export type Storm = Sealed & {
  readonly losses: number
  /** How often a host was cut off; null if hosts have no links of their own. */
  readonly cuts: number | null
  readonly pauses: number
  readonly changes: number
  readonly runs: number
  /** Runs that ended because another host had taken their company over. */
  readonly takenOver: number
  /** Runs of one company at the same time, of those that ended. */
  readonly overlaps: number
  /** The same as the API saw it; null if hosts have no addresses of their own. */
  readonly requestOverlap: Overlap | null
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
  network: Network,
  onStep: (step: string) => void,
): Promise<Storm> {
  const host = network.address
  const random = createRandom(`storm ${options.seed}`)
  const companies = makeCompanies(options.companies, options.small, random)
  const sandbox = await startSandbox({ companies, host })
  const asked = collectAsked(sandbox, companies)
  const redis = await startRedis(join(directory, 'redis'), host)
  const store = await startLogStore(join(directory, 'keys'), host)
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
  const fleet = await openFleet({ workers: options.workers, directory, network, env })
  const changing = changeNowAndThen(companies, random)
  const pausing = pauseNowAndThen(store.pid, options.seconds)
  const losses = await loseNowAndThen(fleet, { ...options, canCut: network.hasLinks, onStep })
  const changes = changing.end()
  const pauses = await pausing.end()
  onStep('after the storm')
  await fleet.joined()
  await untilSettled(fleet, companies)
  await fleet.stop()
  const wrong = await compareAll(companies, join(directory, 'fresh'), env)
  const sealed = await inspectLog(companies, asked, store.settings)
  await store.close()
  await redis.close()
  await sandbox.close()
  const analyses = asked.filter(({ kind }) => kind === 'analysis')
  return {
    ...{ losses, pauses, changes, wrong, ...sealed },
    cuts: network.hasLinks ? fleet.cuts.length : null,
    runs: fleet.runs().length,
    takenOver: fleet.takenOver(),
    overlaps: overlaps(fleet.runs()),
    requestOverlap: network.hasLinks ? requestOverlap(asked, fleet.cuts) : null,
    requests: analyses.length,
    distinct: new Set(analyses.map(({ company, version }) => `${company} ${version}`)).size,
  }
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
