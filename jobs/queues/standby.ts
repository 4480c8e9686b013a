import { hostname } from 'node:os'
import type { Logger } from 'pino'
import type { Reach } from '#src/extras/extra.ts'
import { getHosts } from '#src/extras.ts'
import { pluralize } from '#src/lib/count.ts'
import { InterruptedError } from '#src/lib/errors.ts'
import type { Company, CompanyRegistry } from './company_registry.ts'
import type { Queues } from './queue.ts'
import { askRedis, awaitFirstTry } from './redis.ts'
import { measureClockAheadMs } from './redis_problem.ts'

/** Clocks of several machines differ a little; a schedule of minutes does not suffer from less. */
const TOLERATED_MS = 60_000
/** A store is asked this often: three small requests. */
const STORE_LOOK_MS = 60_000
const STORE_WITHIN_MS = 20_000
const REDIS_WITHIN_MS = 1000
/** At the start, Redis is not connected yet. */
const CONNECT_WITHIN_MS = 5000

/**
 * The readiness of this worker to take over a company, checked before it is needed: a right clock, and for a shared log
 * (LOG_URL), a store that lets it read, list and write.
 */
export type Standby = {
  /** A sentence if the clock of this machine differs from Redis's or a store's. */
  readonly clocks: readonly string[]
  /** A sentence for each store that could not be used; null until all were asked. */
  readonly stores: readonly string[] | null
  /** How far Redis's clock is ahead of this machine's; 0 if that is not known. */
  readonly redisAheadMs: number
  /** Looks again where it is time to, and logs what changed. Never throws. */
  look(): Promise<void>
}

type Watching = {
  readonly registry: Pick<CompanyRegistry, 'companies'>
  readonly queues: Pick<Queues, 'redis' | 'prefix'>
  readonly log: Logger
  /** Aborted when the worker stops. */
  readonly signal: AbortSignal
}

type Asked = Reach & { readonly place: string; readonly atMs: number }

export function createStandby({ registry, queues, log, signal }: Watching): Standby {
  let redisAheadMs = 0
  let clocks: readonly string[] = []
  let stores: readonly string[] | null = null
  let asked: ReadonlyMap<string, Asked> = new Map()

  async function askStores(): Promise<void> {
    const places = groupByPlace(registry.companies.values())
    const before = asked
    const found = [...places].map(async ([place, company]): Promise<[string, Asked]> => {
      const known = before.get(place)
      const isFresh = known && known.problem === null && performance.now() - known.atMs < STORE_LOOK_MS
      return [place, isFresh ? known : { ...(await ask(company, signal)), place, atMs: performance.now() }]
    })
    asked = new Map(await Promise.all(found))
    const next = [...asked.values()].flatMap(({ problem }) => (problem === null ? [] : [describe(problem)]))
    report(stores ?? [], next, 'The object store of LOG_URL can be used again.')
    stores = next
  }

  async function compareClocks(): Promise<void> {
    await awaitFirstTry(queues.redis, CONNECT_WITHIN_MS)
    const ahead = askRedis(queues.redis, REDIS_WITHIN_MS, () =>
      measureClockAheadMs(queues.redis, queues.prefix),
    )
    // While Redis is away, that is a problem of its own.
    redisAheadMs = await ahead.catch(() => redisAheadMs)
    const next = wrongClock({ redisAheadMs, stores: [...asked.values()].map(({ aheadMs }) => aheadMs ?? 0) })
    report(clocks, next, "This machine's clock is right again.")
    clocks = next
  }

  function report(before: readonly string[], next: readonly string[], again: string): void {
    // Its figures change with every look.
    const isNew = (sentence: string) => !before.some(one => withoutFigures(one) === withoutFigures(sentence))
    for (const sentence of next.filter(isNew)) log.error(sentence)
    if (before.length > 0 && next.length === 0) log.info(again)
  }

  return {
    get clocks() {
      return clocks
    },
    get stores() {
      return stores
    },
    get redisAheadMs() {
      return redisAheadMs
    },
    async look() {
      await askStores().catch(error => {
        if (!signal.aborted) throw error
      })
      await compareClocks()
    },
  }
}

/** Returns a company for each place and set of keys: its log stands for the others'. */
function groupByPlace(companies: Iterable<Company>): ReadonlyMap<string, Company> {
  const places = new Map<string, Company>()
  for (const company of companies) {
    const { remoteLog } = company.settings
    const place = JSON.stringify(remoteLog)
    if (remoteLog !== null && !places.has(place)) places.set(place, company)
  }
  return places
}

async function ask({ slug, settings }: Company, signal: AbortSignal): Promise<Reach> {
  const { remoteLog } = settings
  if (remoteLog === null) return { problem: null, aheadMs: null }
  const within = AbortSignal.any([signal, AbortSignal.timeout(STORE_WITHIN_MS)])
  return await getHosts()
    .reachLog(remoteLog, slug, within)
    .catch(error => {
      if (!(error instanceof InterruptedError) || signal.aborted) throw error
      return { problem: `The object store did not answer within ${STORE_WITHIN_MS / 1000} s.`, aheadMs: null }
    })
}

function describe(problem: string): string {
  return `This worker cannot use the object store of LOG_URL, so it could not take over a company: ${problem}`
}

type Clocks = { readonly redisAheadMs: number; readonly stores: readonly number[] }

/** Returns at most one sentence about a wrong clock. It has all differences, because they show which clock is wrong. */
function wrongClock({ redisAheadMs, stores }: Clocks): readonly string[] {
  const differences = [
    ['Redis', redisAheadMs] as const,
    ...stores.map(aheadMs => ['the object store', aheadMs] as const),
  ].filter(([, aheadMs]) => Math.abs(aheadMs) > TOLERATED_MS)
  if (differences.length === 0) return []
  const others = differences.map(
    ([name, aheadMs]) =>
      `${describeSpan(Math.abs(aheadMs))} ${aheadMs > 0 ? 'behind' : 'ahead of'} that of ${name}`,
  )
  return [
    `The clock of ${hostname()} is ${[...new Set(others)].join(' and ')}: runs start at wrong times, and ages are wrong. Correct the one that is wrong, and keep all of them right with NTP. No data is lost.`,
  ]
}

/** Formats a time span: `75 s`, `3 h 0 min`, `2 days 5 h`. */
function describeSpan(ms: number): string {
  const minutes = Math.round(ms / 60_000)
  if (minutes < 2) return `${Math.round(ms / 1000)} s`
  if (minutes < 60) return `${minutes} min`
  const hours = Math.floor(minutes / 60)
  return hours < 48
    ? `${hours} h ${minutes % 60} min`
    : `${pluralize(Math.floor(hours / 24), 'day')} ${hours % 24} h`
}

function withoutFigures(sentence: string): string {
  return sentence.replace(/\d+/g, '')
}
