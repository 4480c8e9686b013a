import { existsSync } from 'node:fs'
import { Command, InvalidArgumentError } from 'commander'
import type { Logger } from 'pino'
import { loadCompanyEnvironment } from '#config/companies.ts'
import {
  type Environment,
  readApiSettings,
  readSettings,
  type Settings,
  statusList,
} from '#config/settings.ts'
import { readTraceSettings, type TraceSettings } from '#config/traces.ts'
import { isPlainPathSegment } from '#schema/notice.ts'
import { makePrintableLines } from '#schema/text_key.ts'
import type { Api } from '#src/core/api/client.ts'
import { chooseExitCode, noteFailure, type RunReport } from '#src/core/company/run_report.ts'
import type { PublishedFigures } from '#src/core/lake/publish.ts'
import { isFiltered, type SyncRequest } from '#src/core/pipeline/request.ts'
import type { RunResult } from '#src/core/pipeline/run.ts'
import type { CompanyContext } from '#src/extras/extra.ts'
import type { Listener } from '#src/extras/hold.ts'
import { EXIT, type ExitCode, explain, FatalError } from '#src/lib/errors.ts'
import { LEVEL_OF_STATUS } from '#src/lib/log.ts'
import { saveMemory, saveTime } from '#src/lib/memory.ts'
import { beginTrace } from '#src/operate/extras.ts'
import { createLocalContext, holdCompany, openApi } from '#src/operate/open.ts'
import { runQuietly } from '#src/operate/quiet_run.ts'
import { parseSeconds } from '#src/present/terminal/options.ts'
import type { SyncContext } from '#src/sync.ts'
import { type CommandSession, withDisplay } from './progress.ts'
import { describePlan, describeRun, publishAfter, warn } from './summary.ts'

/** Has the daemon do a run of the company, and follows it to its end. */
export type Enqueue = (request: {
  /** Has the settings of Redis. */
  readonly environment: Environment
  readonly company: string
  readonly full: boolean
  readonly restart: boolean
  /** Null: without limit, once the run has begun. */
  readonly waitSeconds: number | null
  readonly listener: Listener
  readonly log: Logger
  readonly signal: AbortSignal
}) => Promise<RunFigures & { readonly exitCode: ExitCode }>

/** A run, as it is printed. */
type RunFigures = {
  readonly report: RunReport
  readonly published: PublishedFigures
  readonly seconds: number
}

const STOPPING = 'Stopping, after loading and publishing what was fetched'
/** How long to wait for another sync of the company to end. */
const WAIT_SECONDS = 600

type Options = {
  full?: true
  restart?: true
  plan?: true
  company?: string
  status?: string[]
  id?: string[]
  allowMassDelete?: true
  wait?: number
  json?: true
  enqueue?: true
}

export function createSyncCommand(environment: Environment, enqueue: Enqueue): Command {
  return new Command('sync')
    .description('Bring the warehouse up to date with the API and publish a snapshot.')
    .option('--full', 'fetch every analysis again; resumes an unfinished --full')
    .option('--restart', 'with --full: start over instead of resuming')
    .option('--plan', 'show what a run would do, without changing anything')
    .option('--company <slug>', 'company to sync, instead of COMPANY')
    .option('--status <list>', 'only notices in these phases, separated by commas', parseStatuses)
    .option('--id <id>', 'only this notice, whether it changed or not (repeatable)', collectIds)
    .option('--allow-mass-delete', 'mark notices deleted even if many disappear from the API at once')
    .option(
      '--wait <seconds>',
      'how long to wait for another sync of the company to end (default: 600); with --enqueue: for the run to end',
      parseSeconds,
    )
    .option('--enqueue', 'let the daemon (editais start) do the run, and follow it')
    .option('--json', 'print the run report as one JSON object on stdout')
    .addHelpText(
      'after',
      '\nWhile the API answers nothing, failed requests are sent again for 4 minutes; or for up to 10, if it demands long waits.\nExit codes: 0 ok, 1 failed, 2 wrong usage or settings, 3 partial, 4 company held by another sync, 130 interrupted.',
    )
    .action(async (options: Options) => {
      process.exitCode = await run(environment, options, enqueue)
    })
}

async function run(environment: Environment, options: Options, enqueue: Enqueue): Promise<number> {
  const request = makeRequest(options)
  if (options.enqueue) return await enqueueAndFollow(environment, options, enqueue)
  const own = await loadCompanyEnvironment(environment, options.company)
  const settings = readSettings(own)
  const apiSettings = readApiSettings(own)
  saveMemory()
  const print = await withDisplay(settings, STOPPING, async session => {
    const api = openApi(apiSettings, session.display, session.signal)
    const work: Work = { request, options, settings, session, api, traces: readTraceSettings(own) }
    return await (options.plan ? planNow(work) : syncNow(work)).finally(() => api.close())
  })
  return await print()
}

type Work = {
  readonly request: SyncRequest
  readonly options: Options
  readonly settings: Settings
  readonly session: CommandSession
  readonly api: Api
  /** Null if no trace is wanted. */
  readonly traces: TraceSettings | null
}

/** Prints the result, does what follows it, and returns the exit code. */
type Print = () => Promise<ExitCode>

async function planNow({ request, options, settings, session, api }: Work): Promise<Print> {
  const { display, signal } = session
  const context = createLocalContext(settings, display, signal)
  const { plan } = await import('#src/operate/plan.ts')
  const look = () => plan(request, { ...context, api })
  // A plan leaves nothing behind: without a warehouse it takes no lock, because the lock is a file.
  const planned = await (existsSync(context.paths.warehouse)
    ? holdCompany(context, display, heldFor(options, settings), look)
    : look())
  return async () => {
    process.stdout.write(options.json ? `${JSON.stringify(planned)}\n` : describePlan(planned))
    return planned.problems.length > 0 ? EXIT.partial : EXIT.ok
  }
}

async function syncNow(work: Work): Promise<Print> {
  const { options, settings, session, api } = work
  const { display, signal, log } = session
  const local = createLocalContext(settings, display, signal)
  const about = { company: settings.company, run_id: local.runId }
  const trace = beginTrace('sync', work.traces, about)
  const context = { ...local, inStage: trace.inStage }
  const onProgress: CompanyContext['onProgress'] = progress => {
    if (progress.stage === 'fetch') saveTime()
    display.progress(progress)
  }
  const result = await holdCompany(context, display, heldFor(options, settings), () =>
    syncOrLook(work.request, { ...context, api, onProgress }).catch(error => leaveFailure(context, error)),
  ).catch(async error => {
    const { message, exitCode } = explain(error)
    await trace.end({ report: null, error: message, exitCode }, display.note)
    throw error
  })
  return async () => {
    printRun(result, { company: settings.company, json: options.json, log })
    await publishAfter(context, log, heldFor(options, settings).what)
    const exitCode = chooseExitCode(result.report, result.causes)
    await trace.end({ report: result.report, error: result.report.error, exitCode }, text => warn(log, text))
    return exitCode
  }
}

/** Syncs the company, or only looks: most runs find nothing, and need no warehouse for it. */
async function syncOrLook(request: SyncRequest, context: SyncContext): Promise<RunResult> {
  if (!request.full && !isFiltered(request)) {
    const quiet = await context.inStage('look', () => runQuietly(context))
    if (quiet !== null) return quiet
  }
  // Loaded only now: DuckDB takes time to load.
  const { sync } = await import('#src/sync.ts')
  return await sync(request, context)
}

function heldFor(options: Options, { company }: Settings): { what: string; waitSeconds: number } {
  return { what: `sync --company ${company}`, waitSeconds: options.wait ?? WAIT_SECONDS }
}

/** Records a failure for `status`, because a run without a report leaves nothing else, and throws the error again. */
async function leaveFailure({ paths, now, signal }: CompanyContext, error: unknown): Promise<never> {
  // If nothing can be written, the error itself already reports it.
  if (!signal.aborted) await noteFailure(paths, explain(error).message, now()).catch(() => {})
  throw error
}

/** Needs neither the API key nor the data directory: the daemon has both. */
async function enqueueAndFollow(
  environment: Environment,
  options: Options,
  enqueue: Enqueue,
): Promise<number> {
  const settings = readSettings(await loadCompanyEnvironment(environment, options.company))
  const { company } = settings
  const followed = await withDisplay(settings, 'Stopping', async ({ log, display, signal }) => ({
    log,
    run: await enqueue({
      environment,
      company,
      log,
      signal,
      listener: display,
      full: options.full ?? false,
      restart: options.restart ?? false,
      waitSeconds: options.wait ?? null,
    }),
  }))
  printRun(followed.run, { company, json: options.json, log: followed.log })
  return followed.run.exitCode
}

function printRun(
  { report, published, seconds }: RunFigures,
  { company, json, log }: { company: string; json: true | undefined; log: Logger },
): void {
  if (json) process.stdout.write(`${JSON.stringify({ company, ...report })}\n`)
  if (process.stderr.isTTY) process.stderr.write(makePrintableLines(describeRun(report, published, seconds)))
  else
    log[LEVEL_OF_STATUS[report.status]]({ ...report, seconds, snapshot: published.directory }, 'run finished')
}

function makeRequest(options: Options): SyncRequest {
  if (options.restart && !options.full) {
    throw new FatalError('--restart needs --full: it starts a full fetch over.', EXIT.usage)
  }
  if (options.full && (options.status || options.id)) {
    throw new FatalError(
      '--full fetches every analysis again, so it cannot be used with --status or --id. To fetch single notices again, use --id alone.',
      EXIT.usage,
    )
  }
  if (options.status && options.id) {
    throw new FatalError('Use --status or --id, not both.', EXIT.usage)
  }
  if (options.enqueue && (options.plan || options.status || options.id || options.allowMassDelete)) {
    throw new FatalError(
      '--enqueue can be used only with --full and --restart: the daemon syncs all notices. For other options, run without --enqueue.',
      EXIT.usage,
    )
  }
  return {
    full: options.full ?? false,
    restart: options.restart ?? false,
    statuses: options.status ?? null,
    ids: options.id ?? null,
    allowMassDelete: options.allowMassDelete ?? false,
  }
}

function parseStatuses(value: string): string[] {
  const parsed = statusList.safeParse(value)
  if (parsed.success) return parsed.data
  throw new InvalidArgumentError(parsed.error.issues[0]?.message ?? '')
}

function collectIds(value: string, ids: string[] = []): string[] {
  if (!isPlainPathSegment(value)) throw new InvalidArgumentError('Not a valid notice id.')
  return ids.includes(value) ? ids : [...ids, value]
}
