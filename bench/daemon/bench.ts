import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { startServer } from '../processes.ts'
import { thisMachine } from '../result.ts'
import { judgeDaemon } from './bars.ts'
import { measureCrowd } from './crowd.ts'
import { type Measured, spread } from './figures.ts'
import { measureIdle } from './idle.ts'
import { measureMany } from './many.ts'
import { type Configured, companiesOf, preparePlace } from './place.ts'
import { checkProc } from './proc.ts'
import { type Redis, startRedis } from './redis.ts'
import type { DaemonBench } from './result.ts'
import { type Moment, measureStop, type Stop } from './stop.ts'

export type DaemonOptions = {
  /** 0 skips the measurements that need them. */
  readonly companies: number
  readonly notices: number
  /** Notices of the company whose backfill is stopped; 0 skips this. */
  readonly backfill: number
  readonly moments: readonly Moment[]
  /** Companies of a file in which three fail; 0 skips this. */
  readonly many: number
  /** How long an idle worker is measured; seconds. */
  readonly idle: number
  readonly runs: number
  readonly seed: string
  readonly keep?: true
}

type Around = { readonly redis: Redis; readonly directory: string; readonly onStep: (step: string) => void }

/** Measures everything `runs` times; progress goes to stderr. */
export async function benchDaemon(options: DaemonOptions, directory: string): Promise<DaemonBench> {
  checkProc()
  const { companies, notices, backfill } = options
  const runs: Measured[] = []
  for (let run = 1; run <= options.runs; run += 1) runs.push(await benchOnce(options, run, directory))
  const figures = spread(runs)
  const settings = { companies, notices, backfill }
  return { machine: thisMachine(), settings, runs, figures, bars: judgeDaemon(figures) }
}

async function benchOnce(options: DaemonOptions, run: number, parent: string): Promise<Measured> {
  const directory = join(parent, `daemon-${run}`)
  await mkdir(directory)
  const redis = await startRedis(join(directory, 'redis'))
  const which = options.runs > 1 ? ` (${run} of ${options.runs})` : ''
  const onStep = (step: string) => process.stderr.write(`${step}${which}\n`)
  const measured = await measureAll(options, { redis, directory, onStep })
  await redis.close()
  if (!options.keep || run < options.runs) await rm(directory, { recursive: true })
  return measured
}

async function measureAll(options: DaemonOptions, around: Around): Promise<Measured> {
  const many = options.companies > 0 ? await measureCompanies(options, around) : { crowd: null, idle: null }
  const troubled = options.many > 0 ? await measureTroubled(options, around) : null
  return { ...many, many: troubled, stops: options.backfill > 0 ? await measureStops(options, around) : null }
}

async function measureCompanies(options: DaemonOptions, { redis, directory, onStep }: Around) {
  onStep('generating the companies')
  const companies = companiesOf(options.companies, options)
  const server = await startServer({ companies, latencyMs: 0 })
  const place = await preparePlace(join(directory, 'companies'), {
    companies,
    server,
    redisUrl: redis.url,
    redisPrefix: 'companies',
  })
  const crowd = await measureCrowd({ server, companies, place, onStep })
  const idle = await measureIdle({ companies, place, seconds: options.idle, onStep })
  await server.close()
  return { crowd, idle }
}

/** Keeps runs as short as possible: this measures the worker. */
const FEW_NOTICES = 3

async function measureTroubled(options: DaemonOptions, { redis, directory, onStep }: Around) {
  onStep('generating many companies')
  const companies = companiesOf(options.many, { notices: FEW_NOTICES, seed: options.seed })
  const server = await startServer({ companies, latencyMs: 0 })
  const place = await preparePlace(join(directory, 'many'), {
    companies,
    server,
    redisUrl: redis.url,
    redisPrefix: 'many',
  })
  const many = await measureMany({ server, companies, place, onStep })
  await server.close()
  return many
}

async function measureStops(options: DaemonOptions, { redis, directory, onStep }: Around) {
  onStep('generating the company of the backfill')
  const [company] = companiesOf(1, { notices: options.backfill, seed: options.seed }) as [Configured]
  const companies = [company]
  const server = await startServer({ companies, latencyMs: 0 })
  const stops: Record<string, Stop> = {}
  for (const moment of options.moments) {
    onStep(`stopped ${moment.label}`)
    const own = join(directory, `stop-${moment.key}`)
    const prefix = `stop-${moment.key}`
    const place = await preparePlace(own, { companies, server, redisUrl: redis.url, redisPrefix: prefix })
    stops[moment.key] = await measureStop(moment, { server, company, place })
    if (!options.keep) await rm(own, { recursive: true })
  }
  await server.close()
  return stops
}
