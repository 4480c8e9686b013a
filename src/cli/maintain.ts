import { existsSync } from 'node:fs'
import { Command } from 'commander'
import { environmentOf } from '#config/companies.ts'
import { type Environment, readSettings } from '#config/settings.ts'
import { EXIT, FatalError } from '#src/errors.ts'
import { createLogger } from '#src/log.ts'
import { holdingCompany, localContext } from '#src/open.ts'
import { replay } from '#src/replay.ts'
import { exitOf } from '#src/report.ts'
import { openOptions, publishWarehouse, type RunContext } from '#src/run.ts'
import { stopSignal } from '#src/stop.ts'
import { openWarehouse, rebuildWarehouse } from '#src/warehouse/warehouse.ts'
import { createDisplay } from './progress.ts'
import { describeRun } from './summary.ts'

type Options = { company?: string; json?: true }
type Work = (context: RunContext, options: Options) => Promise<void>

export function publishCommand(environment: Environment): Command {
  const description = 'Write a snapshot of the warehouse, where the latest one is not already that.'
  return command(environment, 'publish', description, publishNow)
}

export function rebuildCommand(environment: Environment): Command {
  return command(
    environment,
    'rebuild',
    'Make the warehouse again from the raw log, and publish it.',
    rebuildNow,
  )
}

export function replayCommand(environment: Environment): Command {
  const description = 'Try the quarantined records again as they were received, and publish.'
  return command(environment, 'replay', description, replayNow)
}

/** A command that works on what is there, without a request. */
function command(environment: Environment, name: string, description: string, work: Work): Command {
  return new Command(name)
    .description(description)
    .option('--company <slug>', 'company to work on, instead of COMPANY')
    .option('--json', 'print the result as one JSON object')
    .action((options: Options) => run(environment, name, options, work))
}

async function run(environment: Environment, name: string, options: Options, work: Work): Promise<void> {
  const own = await environmentOf(environment, options.company)
  const settings = readSettings(own)
  const log = createLogger(settings.logLevel, { company: settings.company })
  const display = await createDisplay({ terminal: Boolean(process.stderr.isTTY), log, nowMs: Date.now })
  const signal = stopSignal(() => display.note('Stopping'))
  const context = localContext(settings, display, signal)
  if (!existsSync(context.paths.root)) {
    throw new FatalError(
      `There is no company ${settings.company} in ${settings.dataDir}. Check COMPANY and DATA_DIR.`,
      EXIT.usage,
    )
  }
  try {
    await holdingCompany(context, display, { what: name }, async () => {
      await work(context, options)
      await display.end()
    })
  } finally {
    await display.end()
  }
}

async function publishNow(context: RunContext, options: Options): Promise<void> {
  const warehouse = await openWarehouse(openOptions(context))
  try {
    tellSnapshot(await publishWarehouse(context, warehouse), options)
  } finally {
    warehouse.db.close()
  }
}

async function rebuildNow(context: RunContext, options: Options): Promise<void> {
  const warehouse = await rebuildWarehouse(openOptions(context))
  try {
    tellSnapshot(await publishWarehouse(context, warehouse), options)
  } finally {
    warehouse.db.close()
  }
}

async function replayNow(context: RunContext, options: Options): Promise<void> {
  const { report, causes, published } = await replay(context)
  if (options.json) process.stdout.write(`${JSON.stringify(report)}\n`)
  else process.stdout.write(report.listed > 0 ? describeRun(report, published) : 'Nothing is quarantined.\n')
  process.exitCode = exitOf(report, causes)
}

function tellSnapshot(
  published: { directory: string; written: boolean; bytesWritten: number },
  options: Options,
): void {
  if (options.json) process.stdout.write(`${JSON.stringify(published)}\n`)
  else
    process.stdout.write(`${published.written ? 'Published' : 'Already published:'} ${published.directory}\n`)
}
