import { setTimeout as sleep } from 'node:timers/promises'
import { createRandom, type Random } from '#src/sandbox/random.ts'
import { companiesOf } from '../company/api.ts'
import { type Living, startLiving } from '../company/living.ts'
import { differences, type Place, placeOfAll, runAt } from '../company/place.ts'
import { type Figure, figure, most } from '../frame/figures.ts'
import type { Bench } from '../frame/situation.ts'
import { startRedis } from '../processes/redis.ts'
import { startStore } from '../processes/store.ts'
import { overlaps } from '../processes/worker.ts'
import { Fleet } from './fleet.ts'
import type { Network } from './network.ts'
import { collectAsked, requestOverlap } from './requests.ts'
import { inspectLog } from './sealed.ts'

/** Every company is due this often; most ticks only look. */
const SCHEDULE = '*/20 * * * * *'
const CHANGE_EVERY_MS = 400
const PAUSES = 2
const PAUSE_MS = 15_000
/** How often another host is cut off after a loss. */
const CUT_CHANCE = 0.75
/** Of the longest: by default some cuts are shorter than the 60 s after which an owner is taken over, some longer. */
const SHORTEST_CUT = 1 / 3

export type StormOptions = {
  readonly companies: number
  readonly small: number
  readonly workers: number
  readonly seconds: number
  /** Seconds between two losses. */
  readonly every: number
  /** The longest time that a host is cut off, in seconds. */
  readonly cut: number
  readonly seed: string
}

/** Many companies on hosts that are lost with their disks or cut off, while the store is paused now and then. */
export async function measureStorm(bench: Bench, options: StormOptions, network: Network): Promise<Figure[]> {
  const { directory } = bench
  const host = network.address
  const random = createRandom(`storm ${options.seed}`)
  const size = { notices: options.small, seed: options.seed }
  const { companies, sandbox } = await startLiving(companiesOf(options.companies, size), { host })
  const asked = collectAsked(sandbox, companies)
  const redis = await startRedis(`${directory}/redis`, host)
  const store = await startStore(`${directory}/store`, host)
  const place = await placeOfAll(`${directory}/fresh`, companies, {
    ...store.settings,
    LOG_URL: store.url,
    API_BASE_URL: sandbox.url,
    REDIS_URL: redis.url,
    SYNC_CRON: SCHEDULE,
    ANALYSIS_MAX_AGE: 'off',
    JOB_LOCK_MS: '5000',
    LOG_LEVEL: 'warn',
  })
  const fleet = await Fleet.open({ workers: options.workers, directory, network, env: place.env })
  const changing = changeNowAndThen(companies, random)
  const pausing = pauseNowAndThen(store.pid, options.seconds)
  const losses = await loseNowAndThen(bench, fleet, { ...options, canCut: network.hasLinks })
  const changes = changing.end()
  const pauses = await pausing.end()
  bench.step('after the storm')
  await fleet.joined()
  await fleet.settled(companies)
  await fleet.stop()
  const wrong = await compareAll(companies, place)
  for (const difference of wrong) bench.note(difference)
  const { repeated, interleaved } = await inspectLog(companies, asked, place.env)
  await store.close()
  await redis.close()
  await sandbox.close()
  const runs = fleet.logs.flatMap(log => log.runs)
  const analyses = asked.filter(({ kind }) => kind === 'analysis')
  const distinct = new Set(analyses.map(({ company, version }) => `${company} ${version}`)).size
  const { small, workers, seconds, cut } = options
  const about = `${companies.length} companies of ${small} notices, ${workers} workers, ${seconds} s`
  return [
    figure('losses', `${about}: hosts lost`, 0, losses),
    figure('cuts', `hosts cut off for up to ${cut} s`, 0, network.hasLinks ? fleet.cuts.length : null),
    figure('pauses', 'pauses of the store', 0, pauses),
    figure('changes', 'changes', 0, changes),
    figure('runs', 'runs that ended with a report', 0, runs.length),
    figure('taken_over', 'runs that ended because another host had taken over', 0, fleet.takenOver()),
    figure('requests', 'requests for analyses', 0, analyses.length),
    figure('distinct', '… of distinct versions', 0, distinct),
    figure('wrong', 'companies that differ from their API', 0, wrong.length, most(0)),
    figure('repeated', 'analyses requested again although sealed', 0, repeated, most(0)),
    figure('overlaps', 'runs of one company at the same time', 0, overlaps(runs), most(0)),
    figure('interleaved', 'runs that sealed something after a later one had', 0, interleaved, most(0)),
    ...(network.hasLinks ? overlapFigures(requestOverlap(asked, fleet.cuts)) : []),
  ]
}

function overlapFigures({ runs, late }: ReturnType<typeof requestOverlap>): Figure[] {
  return [
    figure('late', 'requests that may have been sent before a cut and arrived after it', 0, late),
    figure('request_overlaps', 'runs that requested analyses after another host had', 0, runs, most(0)),
  ]
}

/**
 * Again and again, loses a host with its disk; and if hosts can be cut off, often also cuts off another one for a while,
 * as long as one stays. A host that is cut off is not lost: it comes back with what it could not seal.
 * @returns how many hosts were lost.
 */
async function loseNowAndThen(
  bench: Bench,
  fleet: Fleet,
  options: Pick<StormOptions, 'seconds' | 'every' | 'cut' | 'seed'> & { readonly canCut: boolean },
): Promise<number> {
  const { seconds, every, seed, cut, canCut } = options
  const random = createRandom(`losses ${seed}`)
  let losses = 0
  for (const fromMs = Date.now(); Date.now() - fromMs < seconds * 1000; ) {
    await sleep(every * 1000)
    const lost = random.pick(fleet.connected())
    losses += 1
    bench.step(`losing host ${lost.number + 1} (${losses})`)
    await fleet.lose(lost)
    const others = fleet.connected().filter(({ number }) => number !== lost.number)
    if (!canCut || others.length === 0 || !random.chance(CUT_CHANCE)) continue
    const apart = random.pick(others)
    const duration = random.int(Math.ceil(cut * SHORTEST_CUT), cut)
    bench.step(`cutting off host ${apart.number + 1} for ${duration} s`)
    await fleet.cut(apart, duration * 1000)
  }
  return losses
}

/** Each change has a later `updated_at`, so that each version need be requested only once. */
function changeNowAndThen(companies: readonly Living[], random: Random) {
  let changes = 0
  let lastMs = 0
  const timer = setInterval(() => {
    lastMs = Math.max(Date.now(), lastMs + 1)
    const { world } = random.pick(companies)
    const updated_at = new Date(lastMs).toISOString()
    world.update(random.pick(world.ids()), { edital: { objeto: `Objeto ${lastMs}`, updated_at } })
    changes += 1
  }, CHANGE_EVERY_MS)
  return {
    end() {
      clearInterval(timer)
      return changes
    },
  }
}

/**
 * Restores each company on an empty disk, without a request to the API, and compares it with its world.
 * @returns what differs.
 */
async function compareAll(companies: readonly Living[], place: Place): Promise<string[]> {
  const wrong: string[] = []
  for (const company of companies) {
    await runAt(place, 'restore', ['--company', company.slug])
    const differing = await differences(place, company)
    if (differing.length > 0) wrong.push(`${company.slug}: ${differing.slice(0, 3).join(', ')}`)
  }
  return wrong
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
