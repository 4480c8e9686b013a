import { fork } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { Command, Option } from 'commander'
import { keepCompiled } from '#src/lib/compile_cache.js'
import { EXIT } from '#src/lib/errors.ts'
import { wholeNumber } from '#src/present/terminal/options.ts'
import { simulateFeed } from './feed/simulate.ts'
import { simulateHosts } from './hosts/simulate.ts'
import { PLANTED, tryPlanted } from './planted.ts'
import { simulate } from './simulate.ts'
import { describeCounts, describeFailure, type Outcome, Tally } from './tally.ts'

/** A worker is replaced after this many seeds: DuckDB keeps some memory of each instance. */
const SEEDS_PER_WORKER = 100
const PROGRESS_MS = 60_000
/** A seed that takes longer hangs. */
const MAX_SEED_MS = 300_000
/** As after a signal. */
const STOPPED = 130

// With its directory comes a template of catalogs: otherwise each first publish makes all marts anew, a tenth of all time.
keepCompiled()

const program = new Command('npm run simulate --')
  .description('Runs the sync in simulated worlds, one per seed, and checks the invariants.')
  .option('--seeds <number>', 'number of worlds', wholeNumber(1), 100)
  .option('--from <number>', 'first seed', wholeNumber(1), 1)
  .option('--seed <seed>', 'replay one seed and log each of its runs')
  .option('--workers <number>', 'number of parallel processes', wholeNumber(1), availableParallelism())
  .option('--hosts', 'worlds of several hosts that share a log')
  .option('--feed', 'worlds with a consumer of the feed')
  .option('--until-failure', 'stop at the first failure')
  .option('--planted [names...]', 'plant known bugs one by one and print the seed that catches each')
  .addOption(new Option('--worker', 'take seeds from the parent process').hideHelp())
  .showHelpAfterError('(add --help for the options)')
  .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? EXIT.ok : EXIT.usage))
  .parse()

const options = program.opts<{
  seeds: number
  from: number
  seed?: string
  workers: number
  hosts?: true
  feed?: true
  untilFailure?: true
  planted?: true | string[]
  worker?: true
}>()

const simulateOne = options.feed ? simulateFeed : options.hosts ? simulateHosts : simulate
/** Repeats the kind of world. */
const KIND = options.feed ? ['--feed'] : options.hosts ? ['--hosts'] : []

if (options.worker) work()
else if (options.seed !== undefined) await replayOne(options.seed)
else if (options.planted) await plantAll(options.planted === true ? [] : options.planted)
else await simulateMany()

function work(): void {
  // Ctrl-C reaches all processes of the terminal; the parent ends this one.
  process.on('SIGINT', () => {})
  process.on('message', async (seed: string) => process.send?.(await outcomeOf(seed)))
  process.on('disconnect', () => process.exit())
}

async function outcomeOf(seed: string, log?: (line: string) => void): Promise<Outcome> {
  try {
    return { seed, failure: null, counts: [...(await simulateOne(seed, log))] }
  } catch (error) {
    return { seed, failure: describeFailure(error), counts: [] }
  }
}

async function replayOne(seed: string): Promise<void> {
  const { failure, counts } = await outcomeOf(seed, line => process.stdout.write(`${line}\n`))
  process.stdout.write(failure === null ? `${describeCounts(counts)}Seed ${seed} passed.\n` : `${failure}\n`)
  process.exitCode = failure === null ? 0 : 1
}

async function simulateMany(): Promise<void> {
  const { seeds, from, workers } = options
  const tally = new Tally({ from, workers, kind: KIND })
  const left = Array.from({ length: seeds }, (_, index) => String(from + index))
  const progress = setInterval(
    () => process.stderr.write(`${tally.done} of ${seeds} seeds, ${tally.failed} failed\n`),
    PROGRESS_MS,
  )
  const employed = new Set<ReturnType<typeof fork>>()
  process.once('SIGINT', () => {
    tally.print()
    for (const worker of employed) worker.kill('SIGKILL')
    // Not before it is printed.
    process.stdout.write('', () => process.exit(STOPPED))
  })
  const take = () => (options.untilFailure && tally.failed > 0 ? undefined : left.shift())
  await Promise.all(
    Array.from({ length: Math.min(workers, seeds) }, () =>
      employ(employed, take, outcome => tally.add(outcome)),
    ),
  )
  clearInterval(progress)
  tally.print()
  process.exitCode = tally.failed === 0 ? 0 : 1
}

/** Runs seeds in a child process, one at a time, until none are left. */
async function employ(
  employed: Set<ReturnType<typeof fork>>,
  take: () => string | undefined,
  report: (outcome: Outcome) => void,
): Promise<void> {
  for (let seed = take(); seed !== undefined; ) {
    const worker = fork(import.meta.filename, ['--worker', ...KIND], {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    })
    employed.add(worker)
    for (let seeds = 0; seed !== undefined && seeds < SEEDS_PER_WORKER; seeds += 1) {
      const outcome: Outcome = await ask(worker, seed)
      report(outcome)
      seed = take()
      if (outcome.counts.length === 0) break
    }
    worker.kill('SIGKILL')
    employed.delete(worker)
  }
}

function ask(worker: ReturnType<typeof fork>, seed: string): Promise<Outcome> {
  return new Promise(resolve => {
    const fail = (failure: string) => end({ seed, failure, counts: [] })
    const late = setTimeout(
      () => fail(`the process did not answer within ${MAX_SEED_MS / 1000} s`),
      MAX_SEED_MS,
    )
    const died = () => fail('the process died')
    function end(outcome: Outcome): void {
      clearTimeout(late)
      worker.removeAllListeners()
      resolve(outcome)
    }
    worker.on('message', end).on('exit', died)
    worker.send(seed)
  })
}

async function plantAll(names: readonly string[]): Promise<void> {
  const unknown = names.find(name => !PLANTED.some(bug => bug.name === name))
  if (unknown)
    program.error(
      `There is no planted bug ${unknown}; use one of ${PLANTED.map(bug => bug.name).join(', ')}.`,
    )
  for (const bug of PLANTED.filter(({ name }) => names.length === 0 || names.includes(name))) {
    const { seeds, output } = await tryPlanted(bug, options)
    const caught = seeds === null ? `NOT CAUGHT in ${options.seeds} seeds` : `caught by seed ${seeds}`
    process.stdout.write(`${bug.invariant} ${bug.name}: ${caught}\n    ${output}\n`)
    if (seeds === null) process.exitCode = 1
  }
}
