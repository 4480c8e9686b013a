import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Command, InvalidArgumentError, Option } from 'commander'
import { wholeNumber } from '#src/cli/options.ts'
import { EXIT, FatalError } from '#src/platform/errors.ts'
import { type AttackOptions, benchAttack } from './attack/bench.ts'
import * as attack from './attack/result.ts'
import { benchSync, type SyncOptions } from './bench.ts'
import { type BiOptions, benchBi } from './bi/bench.ts'
import * as bi from './bi/result.ts'
import { benchDaemon, type DaemonOptions } from './daemon/bench.ts'
import * as daemon from './daemon/result.ts'
import { MOMENTS, type Moment } from './daemon/stop.ts'
import { benchMonth, type MonthOptions } from './month/bench.ts'
import * as month from './month/result.ts'
import { killAll } from './processes.ts'
import * as sync from './result.ts'
import { benchServe, type ServeOptions } from './serve/bench.ts'
import * as serve from './serve/result.ts'

type Printed = { readonly json?: true; readonly keep?: true }

function momentsOf(text: string): Moment[] {
  return text.split(',').map(name => {
    const moment = MOMENTS.find(({ key }) => key === name)
    if (moment) return moment
    throw new InvalidArgumentError(`${name} is not one of ${MOMENTS.map(({ key }) => key).join()}.`)
  })
}

/** Options that every bench has. */
function withShared(command: Command): Command {
  return command
    .option('--seed <text>', 'another seed makes other companies', 'bench')
    .option('--json', 'print one JSON object on stdout')
    .option('--keep', 'keep the data of the last run, and say where it is')
}

/** And of those that do not take an hour. */
function withRuns(command: Command): Command {
  return withShared(
    command.option(
      '--runs <count>',
      'how often everything is measured: figures are medians, the bars of the daemon for the worst',
      wholeNumber(1),
      1,
    ),
  )
}

const program = withRuns(new Command('npm run bench --'))
  // Copied by the commands that are added below.
  .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? EXIT.ok : EXIT.usage))
  .description(
    'Measures the sync against a generated company: a full one beside the floors of fetching and loading, one with nothing changed, and one with 0.5 % changed.',
  )
  .option(
    '--notices <counts>',
    'size of the company; several, separated by commas, to compare',
    text => text.split(',').map(wholeNumber(1)),
    [20_000],
  )
  .option('--latency <ms>', 'how long the API takes for each response', wholeNumber(0), 0)
  .option('--concurrency <count>', 'requests at once, of the sync and of the floor', wholeNumber(1), 16)
  // All commands have options of the same names.
  .enablePositionalOptions()
  .action((options: SyncOptions & Printed) =>
    inDirectory(options, async directory => {
      const found = await benchSync(options, directory)
      return options.json ? sync.toJson(found) : sync.describeBench(found)
    }),
  )

withRuns(program.command('daemon'))
  .description(
    'Measures the worker (npm start) with a Redis of its own: two workers with many companies that are due at once, one that is stopped in the middle of a backfill, and an idle one.',
  )
  .option('--companies <count>', 'how many; 0 leaves them, and the idle worker, out', wholeNumber(0), 50)
  .option('--notices <count>', 'of each of them', wholeNumber(1), 400)
  .option(
    '--backfill <notices>',
    'size of the company whose backfill is stopped; 0: none',
    wholeNumber(0),
    20_000,
  )
  .addOption(
    new Option('--moments <names>', `when it is stopped; some of ${MOMENTS.map(({ key }) => key).join()}`)
      .argParser(momentsOf)
      .default(MOMENTS, 'all'),
  )
  .option(
    '--many <count>',
    'companies in one file of which three are in trouble: a broken entry, no key, killed runs; 0: none',
    wholeNumber(0),
    0,
  )
  .option('--idle <seconds>', 'how long the idle worker is watched', wholeNumber(1), 60)
  .action((options: DaemonOptions & Printed) =>
    inDirectory(options, async directory => {
      const found = await benchDaemon(options, directory)
      return options.json ? daemon.toJson(found) : daemon.describeDaemon(found)
    }),
  )

withRuns(program.command('bi'))
  .description(
    "Measures a snapshot's readers on a generated company: every mart, the report, and how much a snapshot writes when 0.5 % of the notices changed, all of the two newest months.",
  )
  .option('--notices <count>', 'size of the company', wholeNumber(1), 20_000)
  .action((options: BiOptions & Printed) =>
    inDirectory(options, async directory => {
      const found = await benchBi(options, directory)
      return options.json ? bi.toJson(found) : bi.describeBi(found)
    }),
  )

withShared(program.command('month'))
  .description(
    'Measures a company that lives: one process makes a run for each hour of a simulated month; what it then holds, and what lies on the disk.',
  )
  .option('--notices <count>', 'size of the company when it begins', wholeNumber(1), 5000)
  .option('--hours <count>', 'how long it lives, with a run in each hour', wholeNumber(1), 720)
  .action((options: MonthOptions & Printed) =>
    inDirectory(options, async directory => {
      const found = await benchMonth(options, directory)
      if (found.bars.some(({ met }) => !met)) process.exitCode = EXIT.failed
      return options.json ? month.toJson(found) : month.describeMonth(found)
    }),
  )

withShared(program.command('serve'))
  .description(
    'Measures the mirror (npm run serve) on a generated company: pages, notices and analyses, asked for by clients on the same machine, beside a bare server that sends as many bytes.',
  )
  .option('--notices <count>', 'size of the company', wholeNumber(1), 20_000)
  .option('--clients <count>', 'how many ask at once', wholeNumber(1), 50)
  .option('--seconds <count>', 'how long they ask for each', wholeNumber(1), 10)
  .action((options: ServeOptions & Printed) =>
    inDirectory(options, async directory => {
      const found = await benchServe(options, directory)
      return options.json ? serve.toJson(found) : serve.describeServe(found)
    }),
  )

withShared(program.command('attack'))
  .description(
    'Attacks the server of the API (npm run serve) and the daemon (npm start) while somebody asks how they are: connections, requests and answers without end, and forty companies that are to be prepared at once.',
  )
  .option('--notices <count>', 'size of the company', wholeNumber(1), 1710)
  .option('--companies <count>', 'how many are to be prepared at once; 0: none', wholeNumber(0), 40)
  .option('--seconds <count>', 'how long each attack lasts', wholeNumber(1), 15)
  .action((options: AttackOptions & Printed) =>
    inDirectory(options, async directory => {
      const found = await benchAttack(options, directory)
      if (found.bars.some(({ met }) => !met)) process.exitCode = EXIT.failed
      return options.json ? attack.toJson(found) : attack.describeAttack(found)
    }),
  )

/** Prints what is measured in a directory of its own; nothing is left of it, or of its processes. */
async function inDirectory(options: Printed, measure: (directory: string) => Promise<object | string>) {
  const directory = await mkdtemp(join(tmpdir(), 'editais-sync-bench-'))
  const interrupted = new Promise<null>(resolve => {
    process.once('SIGINT', () => resolve(null)).once('SIGTERM', () => resolve(null))
  })
  try {
    const measured = measure(directory)
    // When it is interrupted, it fails with the processes that are killed below.
    measured.catch(() => {})
    const found = await Promise.race([measured, interrupted])
    if (found === null) process.exitCode = EXIT.interrupted
    else process.stdout.write(typeof found === 'string' ? found : `${JSON.stringify(found)}\n`)
  } catch (error) {
    if (!(error instanceof FatalError)) throw error
    process.stderr.write(`${error.message}\n`)
    process.exitCode = error.exitCode
  } finally {
    await killAll()
    if (options.keep) process.stderr.write(`The data is in ${directory}\n`)
    else await rm(directory, { recursive: true, force: true })
  }
  // What was interrupted may still wait for its time, or watch.
  if (process.exitCode === EXIT.interrupted) process.exit()
}

await program.parseAsync()
