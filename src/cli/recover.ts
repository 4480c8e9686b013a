import type { Command } from 'commander'
import type { Logger } from 'pino'
import { loadCompanyEnvironment } from '#config/companies.ts'
import { type Environment, readSettings, type Settings } from '#config/settings.ts'
import type { CompanyPaths } from '#src/core/company/company.ts'
import { chooseExitCode } from '#src/core/company/run_report.ts'
import { LogPosition } from '#src/core/company/state.ts'
import { requireLatest } from '#src/core/lake/manifest.ts'
import { listSegmentNumbers, readBase } from '#src/core/rawlog/files.ts'
import { openWarehouse, rebuildWarehouse } from '#src/core/warehouse/warehouse.ts'
import type { CompanyContext } from '#src/extras/extra.ts'
import { EXIT, FatalError } from '#src/lib/errors.ts'
import { publishFrom } from '#src/operate/maintain.ts'
import { createLocalContext, holdCompany } from '#src/operate/open.ts'
import { replay, salvage } from '#src/operate/replay.ts'
import { createCompanyCommand } from '#src/present/terminal/options.ts'
import { assertHasData } from './known_company.ts'
import { withDisplay } from './progress.ts'
import { describeRun, describeSalvage, publishAfter } from './summary.ts'

type Options = { company?: string; json?: true; salvage?: true }
/** `print` collects output: it is written once the display has ended, even if the work fails later. */
type Work = (
  context: CompanyContext,
  options: Options,
  print: (text: string) => void,
  log: Logger,
) => Promise<void>

/** Makes Redis forget what contradicts a restored company. Never throws. */
export type Forget = (restored: {
  /** Has the settings of Redis. */
  readonly environment: Environment
  readonly slug: string
  readonly paths: CompanyPaths
  readonly settings: Settings
  /** How far the restored log goes; null if its name is not known. */
  readonly end: LogPosition | null
  readonly log: Logger
}) => Promise<{ readonly done: readonly string[]; readonly problem: string | null }>

export function createPublishCommand(environment: Environment): Command {
  const description = 'Publish a snapshot of the warehouse, unless the latest one is up to date.'
  return command(environment, 'publish', description, publishNow)
}

export function createRebuildCommand(environment: Environment): Command {
  const description = 'Rebuild the warehouse from the raw log, and publish it.'
  return command(environment, 'rebuild', description, rebuildNow).option(
    '--salvage',
    'drop what is missing, damaged or foreign in the raw log; its files are moved aside, not deleted',
  )
}

export function createReplayCommand(environment: Environment): Command {
  const description = 'Check the quarantined records again, load those that are now valid, and publish.'
  return command(environment, 'replay', description, replayNow)
}

export function createRestoreCommand(environment: Environment, forget: Forget): Command {
  const description =
    'Restore the company on this disk from its log, in the object store (LOG_URL) or in raw/, publish it, and make Redis forget what was there before.'
  return command(environment, 'restore', description, restoring(environment, forget))
}

/** Returns a command that works on local data, without any API request. */
function command(environment: Environment, name: string, description: string, work: Work): Command {
  return createCompanyCommand(name, description).action((options: Options) =>
    run(environment, name, options, work),
  )
}

async function run(environment: Environment, name: string, options: Options, work: Work): Promise<void> {
  const own = await loadCompanyEnvironment(environment, options.company)
  const settings = readSettings(own)
  const output: string[] = []
  let after = async () => {}
  try {
    await withDisplay(settings, 'Stopping', async ({ display, signal, log }) => {
      const context = createLocalContext(settings, display, signal)
      await assertHasData(context)
      await holdCompany(context, display, { what: name }, () =>
        work(context, options, text => output.push(text), log),
      )
      after = async () => await publishAfter(context, log, name)
    })
  } finally {
    process.stdout.write(output.join(''))
  }
  await after()
}

const publishNow: Work = async (context, options, print) => {
  print(describeSnapshot(await publishFrom(openWarehouse, context), options))
}

function restoring(environment: Environment, forget: Forget): Work {
  return async (context, options, print, log) => {
    const { paths, settings, sharedLog, onNote } = context
    const { company: slug, raw } = paths
    if (sharedLog === null && (await lastSegment(raw)) === 0)
      throw new FatalError(
        `${raw} has no segments, and LOG_URL is not set, so there is no log to restore ${slug} from. Copy the segments of a backup there, or set LOG_URL.`,
        EXIT.usage,
      )
    const published =
      sharedLog === null
        ? await publishFrom(rebuildWarehouse, context)
        : await publishFrom(openWarehouse, context)
    print(describeSnapshot(published, options))
    const { log: logName } = await requireLatest(paths.lake)
    const end = LogPosition.of(logName, await lastSegment(raw))
    const { done, problem } = await forget({ environment, slug, paths, settings, end, log })
    for (const sentence of done) onNote(sentence)
    if (problem === null) return
    onNote(
      `${problem} The company is restored, but workers may refuse its directory, or believe in runs that the log does not have: run \`editais restore --company ${slug}\` again with Redis.`,
    )
    // Without the setting, there may be no worker.
    if (environment.REDIS_URL) process.exitCode = EXIT.partial
  }
}

async function lastSegment(raw: string): Promise<number> {
  const { segments: base } = await readBase(raw)
  return Math.max(base, (await listSegmentNumbers(raw)).at(-1) ?? 0)
}

const rebuildNow: Work = async (context, options, print) => {
  const salvaged = options.salvage ? await salvage(context) : null
  const result = salvaged ? { salvaged } : {}
  if (salvaged && !options.json) print(describeSalvage(salvaged, context.paths.raw))
  try {
    const published = await publishFrom(rebuildWarehouse, context)
    print(describeSnapshot({ ...published, ...result }, options))
  } catch (error) {
    // Printed now: the next attempt finds the log intact and would not report it.
    if (salvaged && options.json) print(`${JSON.stringify(result)}\n`)
    throw error
  }
}

const replayNow: Work = async (context, options, print) => {
  const { report, causes, published, seconds } = await replay(context)
  if (options.json) print(`${JSON.stringify(report)}\n`)
  else print(report.listed > 0 ? describeRun(report, published, seconds) : 'Nothing is quarantined.\n')
  process.exitCode = chooseExitCode(report, causes)
}

function describeSnapshot(published: { directory: string; written: boolean }, options: Options): string {
  if (options.json) return `${JSON.stringify(published)}\n`
  return `${published.written ? 'Published' : 'Already published:'} ${published.directory}\n`
}
