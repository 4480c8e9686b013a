import { join } from 'node:path'
import type { Verdict } from '../bars.ts'
import { companiesOf, preparePlace } from '../daemon/place.ts'
import { checkProc } from '../daemon/proc.ts'
import { startRedis } from '../daemon/redis.ts'
import { startServer } from '../processes.ts'
import { type Machine, thisMachine } from '../result.ts'
import { type Measured, measureLooks } from './measure.ts'
import { judgeIdle } from './result.ts'
import { type Simulated, simulate } from './simulate.ts'

export type IdleOptions = {
  /** Companies that are measured. */
  readonly companies: number
  readonly notices: number
  /** Looks that are measured one by one. */
  readonly looks: number
  /** How long a worker with all its looks is measured. */
  readonly seconds: number
  /** Companies whose schedule is simulated with the measured times. */
  readonly scheduled: number
  readonly seed: string
}

export type IdleBench = {
  readonly machine: Machine
  readonly settings: IdleOptions
  readonly measured: Measured
  readonly simulated: Simulated
  readonly bars: readonly Verdict[]
}

/** Measures looks at companies with nothing new, then simulates many such companies; progress goes to stderr. */
export async function benchIdle(options: IdleOptions, directory: string): Promise<IdleBench> {
  checkProc()
  const onStep = (step: string) => void process.stderr.write(`${step}\n`)
  onStep('generating the companies')
  const companies = companiesOf(options.companies, options)
  const server = await startServer({ companies, latencyMs: 0 })
  const redis = await startRedis(join(directory, 'redis'))
  const place = await preparePlace(join(directory, 'companies'), {
    companies,
    server,
    redisUrl: redis.url,
    redisPrefix: 'idle',
  })
  const measured = await measureLooks({ ...options, companies, place, redis, onStep })
  await redis.close()
  await server.close()
  const simulated = simulate(measured, options)
  return {
    machine: thisMachine(),
    settings: options,
    measured,
    simulated,
    bars: judgeIdle(options, measured, simulated),
  }
}
