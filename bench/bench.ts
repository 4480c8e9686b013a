import { randomBytes } from 'node:crypto'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { judge } from './bars.ts'
import { medians } from './figures.ts'
import { type Measured, measure } from './measure.ts'
import { startServer } from './processes.ts'
import { type Bench, type MeasuredCompany, thisMachine } from './result.ts'
import type { About } from './world.ts'

export type SyncOptions = {
  readonly notices: readonly number[]
  readonly runs: number
  readonly latency: number
  readonly concurrency: number
  readonly seed: string
  readonly keep?: true
}

/** Measures one company after another; progress goes to stderr. */
export async function benchSync(options: SyncOptions, directory: string): Promise<Bench> {
  const companies: MeasuredCompany[] = []
  for (const notices of options.notices) companies.push(await benchCompany(options, notices, directory))
  const { latency: latencyMs, concurrency, runs, seed } = options
  const bars = judge(companies, { latencyMs, concurrency })
  return { machine: thisMachine(), settings: { latencyMs, concurrency, runs, seed }, companies, bars }
}

async function benchCompany(options: SyncOptions, notices: number, parent: string): Promise<MeasuredCompany> {
  const { latency: latencyMs, concurrency, seed } = options
  const progress = (step: string) =>
    process.stderr.write(`${notices.toLocaleString('en-US')} notices: ${step}\n`)
  progress('generating')
  const apiKey = randomBytes(16).toString('hex')
  const server = await startServer({ companies: [{ notices, seed, apiKey }], latencyMs })
  const runs: Measured[] = []
  for (let run = 1; run <= options.runs; run += 1) {
    const onStep = (step: string) => progress(options.runs > 1 ? `${step} (${run} of ${options.runs})` : step)
    const directory = join(parent, `${notices}-${run}`)
    await mkdir(directory)
    runs.push(await measure({ server, notices, apiKey, concurrency, directory, onStep }))
    if (!options.keep || run < options.runs) await rm(directory, { recursive: true })
  }
  await server.close()
  return { notices, about: server.about[0] as About, figures: medians(runs), runs }
}
