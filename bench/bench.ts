import { randomBytes } from 'node:crypto'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { judge } from './bars.ts'
import { medians, medianThreads, spreads } from './figures.ts'
import { type Company, FIRST_NOTICES, type Measured, measure, measureFirst } from './measure.ts'
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

/** Round by round, so that a slow moment of the machine does not fall on one of those compared alone. */
async function benchCompany(options: SyncOptions, notices: number, parent: string): Promise<MeasuredCompany> {
  const { concurrency } = options
  const progress = (step: string) =>
    process.stderr.write(`${notices.toLocaleString('en-US')} notices: ${step}\n`)
  progress('generating')
  const company = await startCompany(options, notices)
  const small = await startCompany(options, FIRST_NOTICES)
  // The first run of any program compiles and reads what later ones find cached.
  progress('warm-up')
  const warmUp = join(parent, `${notices}-warm-up`)
  await mkdir(warmUp)
  await measureFirst({ small, concurrency, directory: warmUp })
  const runs: Measured[] = []
  for (let run = 1; run <= options.runs; run += 1) {
    const onStep = (step: string) => progress(options.runs > 1 ? `${step} (${run} of ${options.runs})` : step)
    const directory = join(parent, `${notices}-${run}`)
    await mkdir(directory)
    runs.push(await measure({ company, small, concurrency, directory, onStep }))
    if (!options.keep || run < options.runs) await rm(directory, { recursive: true })
  }
  const [about] = company.server.about
  await company.server.close()
  await small.server.close()
  return {
    notices,
    about: about as About,
    figures: medians(runs),
    spread: spreads(runs),
    threads: medianThreads(runs),
    runs,
  }
}

async function startCompany({ seed, latency: latencyMs }: SyncOptions, notices: number): Promise<Company> {
  const apiKey = randomBytes(16).toString('hex')
  return { server: await startServer({ companies: [{ notices, seed, apiKey }], latencyMs }), apiKey, notices }
}
