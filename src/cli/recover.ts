import { existsSync } from 'node:fs'
import { Command } from 'commander'
import { environmentOf } from '#config/companies.ts'
import { type Environment, readSettings } from '#config/settings.ts'
import { holdingCompany, localContext } from '#src/operate/open.ts'
import { replay } from '#src/operate/replay.ts'
import { salvage } from '#src/operate/salvage.ts'
import { openOptions, publishWarehouse, type RunContext } from '#src/pipeline/run.ts'
import { EXIT, FatalError } from '#src/platform/errors.ts'
import { createLogger } from '#src/platform/log.ts'
import { stopSignal } from '#src/platform/stop.ts'
import type { Published } from '#src/store/lake/publish.ts'
import { exitOf } from '#src/store/run_report.ts'
import { openWarehouse, rebuildWarehouse } from '#src/store/warehouse/warehouse.ts'
import { createDisplay } from './progress.ts'
import { describeRun, describeSalvage } from './summary.ts'

type Options = { company?: string; json?: true; salvage?: true }
/** Whatever is told is printed when the display has ended, also of work that then failed. */
type Work = (context: RunContext, options: Options, tell: (text: string) => void) => Promise<void>

export function publishCommand(environment: Environment): Command {
  const description = 'Write a snapshot of the warehouse, where the latest one is not already that.'
  return command(environment, 'publish', description, publishNow)
}

export function rebuildCommand(environment: Environment): Command {
  const description = 'Make the warehouse again from the raw log, and publish it.'
  return command(environment, 'rebuild', description, rebuildNow).option(
    '--salvage',
    'go on without what is missing, damaged or foreign in the raw log; its files are kept aside',
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
  const told: string[] = []
  try {
    await holdingCompany(context, display, { what: name }, () =>
      work(context, options, text => told.push(text)),
    )
  } finally {
    await display.end()
    process.stdout.write(told.join(''))
  }
}

const publishNow: Work = async (context, options, tell) => {
  const warehouse = await openWarehouse(openOptions(context))
  try {
    tell(describeSnapshot(await publishWarehouse(context, warehouse), options))
  } finally {
    warehouse.db.close()
  }
}

const rebuildNow: Work = async (context, options, tell) => {
  const salvaged = options.salvage ? await salvage(context) : null
  const result = salvaged ? { salvaged } : {}
  if (salvaged && !options.json) tell(describeSalvage(salvaged, context.paths.raw))
  try {
    const published = await rebuildAndPublish(context)
    tell(describeSnapshot({ ...published, ...result }, options))
  } catch (error) {
    // Another try finds the log whole, and would not say it again.
    if (salvaged && options.json) tell(`${JSON.stringify(result)}\n`)
    throw error
  }
}

async function rebuildAndPublish(context: RunContext): Promise<Published> {
  const warehouse = await rebuildWarehouse(openOptions(context))
  try {
    return await publishWarehouse(context, warehouse)
  } finally {
    warehouse.db.close()
  }
}

const replayNow: Work = async (context, options, tell) => {
  const { report, causes, published, seconds } = await replay(context)
  if (options.json) tell(`${JSON.stringify(report)}\n`)
  else tell(report.listed > 0 ? describeRun(report, published, seconds) : 'Nothing is quarantined.\n')
  process.exitCode = exitOf(report, causes)
}

function describeSnapshot(published: { directory: string; written: boolean }, options: Options): string {
  if (options.json) return `${JSON.stringify(published)}\n`
  return `${published.written ? 'Published' : 'Already published:'} ${published.directory}\n`
}
