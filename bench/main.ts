import { rmSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
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
import { benchHosts, type HostsOptions } from './hosts/bench.ts'
import { enterHub } from './hosts/namespaces.ts'
import * as hosts from './hosts/result.ts'
import { benchIdle, type IdleOptions } from './idle/bench.ts'
import * as idle from './idle/result.ts'
import { benchLake, type LakeOptions } from './lake/bench.ts'
import * as lake from './lake/result.ts'
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

/** Options of every benchmark. */
function withShared(command: Command): Command {
  return command
    .option('--seed <text>', 'seed of the generated companies', 'bench')
    .option('--json', 'print one JSON object on stdout')
    .option('--keep', 'keep the data of the last run and print its path')
}

/** Also adds `--runs`, for benchmarks that take less than an hour. */
function withRuns(command: Command): Command {
  return withShared(
    command.option(
      '--runs <count>',
      'number of runs; figures are medians, but the bars of the daemon apply to the worst run',
      wholeNumber(1),
      1,
    ),
  )
}

const program = withRuns(new Command('npm run bench --'))
  // Subcommands added below inherit this.
  .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? EXIT.ok : EXIT.usage))
  .description(
    'Measures syncs of a generated company beside a script that mirrors the same API (bench/script): a full one, one with nothing changed, one with 0.5 % changed, and the first one of 30 notices. Also measures the requests alone, plain DuckDB, and `status`; prints wall and CPU seconds, memory, and each bar as met or missed. docs/internals/bench.md explains it.',
  )
  .option(
    '--notices <counts>',
    'size of the company; several sizes, separated by commas, are compared',
    text => text.split(',').map(wholeNumber(1)),
    [20_000],
  )
  .option('--latency <ms>', 'latency of each API response', wholeNumber(0), 0)
  .option(
    '--concurrency <count>',
    'concurrent requests of the sync, the script and the floor',
    wholeNumber(1),
    16,
  )
  // Subcommands have options with the same names.
  .enablePositionalOptions()
  .action((options: SyncOptions & Printed) =>
    inDirectory(options, async directory => {
      const found = await benchSync(options, directory)
      return options.json ? sync.toJson(found) : sync.describeBench(found)
    }),
  )

withRuns(program.command('daemon'))
  .description(
    'Measures the worker (npm start) with its own Redis: two workers with many companies due at once, one worker stopped during a backfill, and an idle one.',
  )
  .option('--companies <count>', 'number of companies; 0 skips them and the idle worker', wholeNumber(0), 50)
  .option('--notices <count>', 'size of each company', wholeNumber(1), 400)
  .option(
    '--backfill <notices>',
    'size of the company whose backfill is stopped; 0 skips this',
    wholeNumber(0),
    20_000,
  )
  .addOption(
    new Option(
      '--moments <names>',
      `when the backfill is stopped: one or more of ${MOMENTS.map(({ key }) => key).join()}`,
    )
      .argParser(momentsOf)
      .default(MOMENTS, 'all'),
  )
  .option(
    '--many <count>',
    'companies in one file, three of them failing: a broken entry, no key, killed runs; 0 skips this',
    wholeNumber(0),
    0,
  )
  .option('--idle <seconds>', 'how long the idle worker is measured', wholeNumber(1), 60)
  .action((options: DaemonOptions & Printed) =>
    inDirectory(options, async directory => {
      const found = await benchDaemon(options, directory)
      return options.json ? daemon.toJson(found) : daemon.describeDaemon(found)
    }),
  )

withShared(program.command('idle'))
  .description(
    'Measures looks: what companies with nothing new cost the worker, one by one and with its own Redis; then simulates five minutes of many such companies at these costs.',
  )
  .option('--companies <count>', 'number of companies that are measured', wholeNumber(1), 20)
  .option('--notices <count>', 'size of each company', wholeNumber(1), 400)
  .option('--looks <count>', 'looks measured one by one', wholeNumber(1), 400)
  .option('--seconds <count>', 'how long the worker is measured', wholeNumber(1), 60)
  .option('--scheduled <count>', 'companies that are simulated', wholeNumber(1), 10_000)
  .action((options: IdleOptions & Printed) =>
    inDirectory(options, async directory => {
      const found = await benchIdle(options, directory)
      if (found.bars.some(({ met }) => !met)) process.exitCode = EXIT.failed
      return options.json ? idle.toJson(found) : idle.describeIdle(found)
    }),
  )

withRuns(program.command('bi'))
  .description(
    "Measures a snapshot's readers on a generated company: every mart, the report, and how much a snapshot writes after 0.5 % of the notices changed, all in the two newest months.",
  )
  .option('--notices <count>', 'size of the company', wholeNumber(1), 20_000)
  .action((options: BiOptions & Printed) =>
    inDirectory(options, async directory => {
      const found = await benchBi(options, directory)
      return options.json ? bi.toJson(found) : bi.describeBi(found)
    }),
  )

withRuns(program.command('lake'))
  .description(
    'Measures runs that also publish to an object store in another process, as Iceberg and Delta tables: how much longer a run takes with 0.5 % changed, how many objects it writes, and whether that stays so over many snapshots.',
  )
  .option('--notices <count>', 'size of the company that is compared', wholeNumber(1), 20_000)
  .option('--latency <ms>', 'latency of each answer of the object store', wholeNumber(0), 20)
  .option('--formats <names>', 'value of LAKE_FORMATS', 'iceberg,delta')
  .option('--snapshots <count>', 'snapshots of the second company; 0 skips it', wholeNumber(0), 300)
  .option('--small <count>', 'size of the second company', wholeNumber(1), 400)
  .action((options: LakeOptions & Printed) =>
    inDirectory(options, async directory => {
      const found = await benchLake(options, directory)
      if (found.bars.some(({ met }) => !met)) process.exitCode = EXIT.failed
      return options.json ? found : lake.describeLake(found)
    }),
  )

withShared(program.command('hosts'))
  .description(
    'Measures hosts that share the raw log in an object store: how soon one with an empty disk continues a company, and whether companies stay right while workers are killed with their disks and the store is paused.',
  )
  .option('--notices <count>', 'size of the company that is taken over; 0 skips this', wholeNumber(0), 20_000)
  .option('--latency <ms>', 'latency of each answer of the object store', wholeNumber(0), 20)
  .option('--companies <count>', 'companies in the storm; 0 skips it', wholeNumber(0), 40)
  .option('--small <count>', 'size of these companies', wholeNumber(1), 100)
  .option('--workers <count>', 'workers in the storm, each with a disk of its own', wholeNumber(2), 3)
  .option('--seconds <count>', 'how long the storm lasts', wholeNumber(1), 600)
  .option('--every <count>', 'seconds between two losses of a host', wholeNumber(1), 20)
  .option('--cut <count>', 'longest time that a host is cut off, in seconds', wholeNumber(1), 90)
  .option(
    '--namespaces',
    'each worker of the storm in a network namespace and on a mount of its own; some are also cut off for a while. Needs Linux, root, and ip (iproute2)',
  )
  .action((options: HostsOptions & Printed) =>
    inDirectory(
      options,
      async directory => {
        const found = await benchHosts(options, directory)
        if (found.bars.some(({ met }) => !met)) process.exitCode = EXIT.failed
        return options.json ? found : hosts.describeHosts(found)
      },
      async () => {
        if (options.namespaces) await enterHub()
      },
    ),
  )

withShared(program.command('month'))
  .description(
    'Measures a company that changes for a simulated month: one process makes a run for each hour. Reports its memory and its disk usage.',
  )
  .option('--notices <count>', 'size of the company at the start', wholeNumber(1), 5000)
  .option('--hours <count>', 'simulated hours, with one run in each', wholeNumber(1), 720)
  .action((options: MonthOptions & Printed) =>
    inDirectory(options, async directory => {
      const found = await benchMonth(options, directory)
      if (found.bars.some(({ met }) => !met)) process.exitCode = EXIT.failed
      return options.json ? month.toJson(found) : month.describeMonth(found)
    }),
  )

withShared(program.command('serve'))
  .description(
    'Measures the mirror (npm run serve) on a generated company: clients on the same machine request pages, notices and analyses. Compared with a bare server that sends as many bytes.',
  )
  .option('--notices <count>', 'size of the company', wholeNumber(1), 20_000)
  .option('--clients <count>', 'number of concurrent clients', wholeNumber(1), 50)
  .option('--seconds <count>', 'how long each kind of request is measured', wholeNumber(1), 10)
  .action((options: ServeOptions & Printed) =>
    inDirectory(options, async directory => {
      const found = await benchServe(options, directory)
      return options.json ? serve.toJson(found) : serve.describeServe(found)
    }),
  )

withShared(program.command('attack'))
  .description(
    'Attacks the API server (npm run serve) and the daemon (npm start) during health checks: with endless connections, requests and answers, many companies to prepare at once, and very long texts.',
  )
  .option('--notices <count>', 'size of the company', wholeNumber(1), 1710)
  .option('--companies <count>', 'companies to prepare at once; 0 skips this', wholeNumber(0), 40)
  .option('--seconds <count>', 'how long each attack lasts', wholeNumber(1), 15)
  .action((options: AttackOptions & Printed) =>
    inDirectory(options, async directory => {
      const found = await benchAttack(options, directory)
      if (found.bars.some(({ met }) => !met)) process.exitCode = EXIT.failed
      return options.json ? attack.toJson(found) : attack.describeAttack(found)
    }),
  )

/** Measures in a temporary directory and prints the result; removes the directory and ends all processes. */
async function inDirectory(
  options: Printed,
  measure: (directory: string) => Promise<object | string>,
  before = async () => {},
) {
  if (!(await explaining(before))) return
  const directory = await mkdtemp(join(tmpdir(), 'editais-sync-bench-'))
  const interrupted = new Promise<null>(resolve => {
    process.once('SIGINT', () => resolve(null)).once('SIGTERM', () => resolve(null))
  })
  try {
    await explaining(async () => {
      const measured = measure(directory)
      // After an interrupt it rejects when its processes are killed below.
      measured.catch(() => {})
      const found = await Promise.race([measured, interrupted])
      if (found === null) process.exitCode = EXIT.interrupted
      else process.stdout.write(typeof found === 'string' ? found : `${JSON.stringify(found)}\n`)
    })
  } finally {
    await killAll()
    if (options.keep) process.stderr.write(`The data is in ${directory}\n`)
    // What was interrupted may still make files: so this waits for nothing, and the process ends right after it.
    else rmSync(directory, { recursive: true, force: true, maxRetries: 10 })
  }
  // An interrupted benchmark may still have timers and watches.
  if (process.exitCode === EXIT.interrupted) process.exit()
}

/** Prints what the user can mend. @returns whether there was nothing. */
async function explaining(work: () => Promise<void>): Promise<boolean> {
  try {
    await work()
    return true
  } catch (error) {
    if (!(error instanceof FatalError)) throw error
    process.stderr.write(`${error.message}\n`)
    process.exitCode = error.exitCode
    return false
  }
}

await program.parseAsync()
