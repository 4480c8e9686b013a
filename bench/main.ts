import { randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { availableParallelism, cpus, tmpdir, totalmem } from 'node:os'
import { join } from 'node:path'
import { Command, InvalidArgumentError } from 'commander'
import { judge } from './bars.ts'
import { medians } from './figures.ts'
import { type Measured, measure } from './measure.ts'
import { killAll, startServer } from './processes.ts'
import { type Bench, describeBench, type MeasuredCompany, toJson } from './result.ts'

type Options = {
  notices: number[]
  runs: number
  latency: number
  concurrency: number
  seed: string
  json?: true
  keep?: true
}

const INTERRUPTED = 130

function wholeNumber(min: number) {
  return (text: string) => {
    if (/^\d{1,9}$/.test(text) && Number(text) >= min) return Number(text)
    throw new InvalidArgumentError(`Give a whole number from ${min}.`)
  }
}

const program = new Command('npm run bench --')
  .description(
    'Measures the sync against a generated company: a full one beside the floors of fetching and loading, one with nothing changed, and one with 0.5 % changed.',
  )
  .option(
    '--notices <counts>',
    'size of the company; several, separated by commas, to compare',
    text => text.split(',').map(wholeNumber(1)),
    [20_000],
  )
  .option('--runs <count>', 'how often everything is measured; the figures are medians', wholeNumber(1), 1)
  .option('--latency <ms>', 'how long the API takes for each response', wholeNumber(0), 0)
  .option('--concurrency <count>', 'requests at once, of the sync and of the floor', wholeNumber(1), 16)
  .option('--seed <text>', 'another seed makes another company', 'bench')
  .option('--json', 'print one JSON object on stdout')
  .option('--keep', 'keep the data of the last run of each company, and say where it is')

/** Measures one company after another; progress goes to stderr. */
async function bench(options: Options, directory: string): Promise<Bench> {
  const companies: MeasuredCompany[] = []
  for (const notices of options.notices) companies.push(await benchCompany(options, notices, directory))
  const { latency: latencyMs, concurrency, runs, seed } = options
  const machine = {
    processor: cpus()[0]?.model ?? 'unknown',
    cores: availableParallelism(),
    memoryGigabytes: Math.round(totalmem() / 1e9),
    node: process.version,
  }
  const bars = judge(companies, { latencyMs, concurrency })
  return { machine, settings: { latencyMs, concurrency, runs, seed }, companies, bars }
}

async function benchCompany(options: Options, notices: number, parent: string): Promise<MeasuredCompany> {
  const { latency: latencyMs, concurrency, seed } = options
  const tell = (step: string) => process.stderr.write(`${notices.toLocaleString('en-US')} notices: ${step}\n`)
  tell('generating')
  const apiKey = randomBytes(16).toString('hex')
  const server = await startServer({ notices, latencyMs, seed, apiKey })
  const runs: Measured[] = []
  for (let run = 1; run <= options.runs; run += 1) {
    const onStep = (step: string) => tell(options.runs > 1 ? `${step} (${run} of ${options.runs})` : step)
    const directory = join(parent, `${notices}-${run}`)
    await mkdir(directory)
    runs.push(await measure({ server, apiKey, concurrency, directory, onStep }))
    if (!options.keep || run < options.runs) await rm(directory, { recursive: true })
  }
  await server.close()
  return { notices, about: server.about, figures: medians(runs), runs }
}

async function main(): Promise<void> {
  const options = program.parse().opts<Options>()
  const directory = await mkdtemp(join(tmpdir(), 'editais-sync-bench-'))
  const interrupted = new Promise<null>(resolve => {
    process.once('SIGINT', () => resolve(null)).once('SIGTERM', () => resolve(null))
  })
  try {
    const measured = bench(options, directory)
    // When it is interrupted, it fails with the processes that are killed below.
    measured.catch(() => {})
    const result = await Promise.race([measured, interrupted])
    if (result === null) process.exitCode = INTERRUPTED
    else process.stdout.write(options.json ? `${JSON.stringify(toJson(result))}\n` : describeBench(result))
  } finally {
    await killAll()
    if (options.keep) process.stderr.write(`The data is in ${directory}\n`)
    else await rm(directory, { recursive: true, force: true })
  }
}

await main()
