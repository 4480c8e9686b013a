import { randomBytes } from 'node:crypto'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { startServer } from '../processes.ts'
import { thisMachine } from '../result.ts'
import type { About } from '../world.ts'
import { judgeBi } from './bars.ts'
import { medians } from './figures.ts'
import { type Measured, measureBi } from './measure.ts'
import type { BiBench } from './result.ts'

export type BiOptions = {
  readonly notices: number
  readonly runs: number
  readonly seed: string
  readonly keep?: true
}

/** Measures the snapshot of one company `runs` times; progress goes to stderr. */
export async function benchBi(options: BiOptions, directory: string): Promise<BiBench> {
  const { notices, seed } = options
  const progress = (step: string) =>
    process.stderr.write(`${notices.toLocaleString('en-US')} notices: ${step}\n`)
  progress('generating')
  const apiKey = randomBytes(16).toString('hex')
  const server = await startServer({ companies: [{ notices, seed, apiKey }], latencyMs: 0 })
  const runs: Measured[] = []
  for (let run = 1; run <= options.runs; run += 1) {
    const onStep = (step: string) => progress(options.runs > 1 ? `${step} (${run} of ${options.runs})` : step)
    const own = join(directory, `bi-${run}`)
    await mkdir(own)
    runs.push(await measureBi({ server, notices, apiKey, directory: own, onStep }))
    if (!options.keep || run < options.runs) await rm(own, { recursive: true })
  }
  await server.close()
  const figures = medians(runs)
  const settings = { notices, runs: options.runs, seed }
  const about = server.about[0] as About
  return { machine: thisMachine(), settings, about, runs, figures, bars: judgeBi({ notices, figures }) }
}
