import { setMaxListeners } from 'node:events'
import type { Logger } from 'pino'
import { type Environment, readApiSettings, readGivenEnvironment, readSettings } from '#config/settings.ts'
import { readTraceSettings } from '#config/traces.ts'
import { chooseExitCode } from '#src/core/company/run_report.ts'
import { type InStage, workUntimed } from '#src/core/pipeline/request.ts'
import type { Progress } from '#src/core/pipeline/run.ts'
import type { CompanyContext, TraceEnd } from '#src/extras/extra.ts'
import type { Listener } from '#src/extras/hold.ts'
import { reportForPeople } from '#src/extras.ts'
import { EXIT, explain, FatalError, InterruptedError, throwIfInterrupted } from '#src/lib/errors.ts'
import { endProcess } from '#src/lib/exit.ts'
import { LEVEL_OF_STATUS } from '#src/lib/log.ts'
import { saveMemory, saveTime } from '#src/lib/memory.ts'
import { beginTrace, publishBehind } from '#src/operate/extras.ts'
import { bringUpToDate, maintain } from '#src/operate/maintain.ts'
import { createLocalContext, holdCompany, openApi } from '#src/operate/open.ts'
import { logListener, openLog } from '#src/operate/open_log.ts'
import { readStatus } from '#src/operate/status.ts'
import { sync } from '#src/sync.ts'
import type { AnswerSeen, Ended, RunMessage, RunOrder } from './queues/queue.ts'

const NEWS_INTERVAL_MS = 1000

/**
 * Runs a job in this process, which is its own: its memory goes back to the system when it ends, and whatever kills it
 * kills nothing else. It stops early, and keeps what it has, on SIGTERM and when the worker that started it is gone.
 */
async function carryOut(order: RunOrder): Promise<Ended> {
  const environment = readGivenEnvironment()
  const settings = readSettings(environment)
  const silent: Listener = { progress: () => {}, note: () => {} }
  const local = createLocalContext(settings, silent, stop.signal)
  if (order.kind === 'status') return { kind: 'status', status: await readStatus(local.paths) }
  if (order.kind === 'report') return await renderReport(local)
  const about = { company: settings.company, run_id: local.runId, job: order.job }
  const log = await openLog(settings.logLevel, about)
  const listener = logListener(log, () => performance.now())
  const context = { ...local, inStage: openTrace(order, environment, about, log) }
  const held = { what: `${order.kind} of the worker`, waitSeconds: 0 }
  if (order.kind === 'mail') return await mailReport(order, context, { environment, listener, held, log })
  if (order.kind === 'publish') return await publishNow(context, listener, held, log)
  if (order.kind === 'catch_up') {
    return { kind: 'caught_up', segment: await bringUpToDate(context, listener, held) }
  }
  return await holdCompany(context, listener, held, async () => {
    if (order.kind === 'sync') return await syncNow(order, context, { environment, listener, log })
    const maintenance = await maintain(context)
    log.info({ ...maintenance }, 'maintenance finished')
    return { kind: 'maintained', maintenance }
  })
}

/** Sends the trace of this process, if it has one, and if it did anything. */
let sendTrace: (ended: Ended) => Promise<void> = async () => {}

function openTrace(
  { kind }: RunOrder,
  environment: Environment,
  about: Readonly<Record<string, string>>,
  log: Logger,
): InStage {
  if (kind !== 'sync' && kind !== 'publish') return workUntimed
  const name = kind === 'sync' ? 'sync' : 'object_store'
  const trace = beginTrace(name, readTraceSettings(environment), about)
  sendTrace = async ended => {
    const end = traceEnd(ended)
    if (end !== null) await trace.end(end, text => log.warn(text))
  }
  return trace.inStage
}

/** Returns null if nothing was due. */
function traceEnd(ended: Ended): TraceEnd | null {
  if (ended.kind === 'synced')
    return { report: ended.report, error: ended.report.error, exitCode: ended.exitCode }
  if (ended.kind === 'failed') return { report: null, error: ended.message, exitCode: ended.exitCode }
  return ended.kind === 'published' && ended.snapshot !== null
    ? { report: null, error: null, exitCode: EXIT.ok }
    : null
}

type Held = { readonly what: string; readonly waitSeconds: number }
type Means = { readonly environment: Environment; readonly listener: Listener; readonly log: Logger }

/** Ends at once if asked to stop: the next publish finishes what this one began. */
async function publishNow(
  context: CompanyContext,
  listener: Listener,
  held: Held,
  log: Logger,
): Promise<Ended> {
  const { signal } = context
  await bringUpToDate(context, listener, held)
  throwIfInterrupted(signal)
  const stopped = Promise.withResolvers<never>()
  signal.addEventListener('abort', () => stopped.reject(new InterruptedError()))
  const published = await Promise.race([publishBehind(context, listener, held), stopped.promise])
  if (published !== null) log.info({ ...published }, 'published to the object store')
  return { kind: 'published', snapshot: published?.snapshot ?? null }
}

async function renderReport({ paths, now, settings }: CompanyContext): Promise<Ended> {
  const { pagesUrl } = settings
  return { kind: 'report', html: await reportForPeople().render(paths.lake, { now: now(), pagesUrl }) }
}

/** Returns the week's report. A second attempt at the same job gives the same mail, so receivers show it once. */
async function mailReport(
  { job }: RunOrder & { kind: 'mail' },
  context: CompanyContext,
  { environment, listener, held, log }: Means & { held: Held },
): Promise<Ended> {
  const { paths, now } = context
  await bringUpToDate(context, listener, held).catch(error => {
    if (error instanceof FatalError && error.exitCode === EXIT.held) throw error
    log.warn(`The report is of what this host has: ${explain(error).message}`)
  })
  const mailed = await reportForPeople().mail(paths.lake, { environment, now: now(), id: job })
  log.info(mailed, 'the report of the week was mailed')
  return { kind: 'mailed' }
}

async function syncNow(
  { full, restart }: RunOrder & { kind: 'sync' },
  context: CompanyContext,
  { environment, listener, log }: Means,
): Promise<Ended> {
  const settings = readApiSettings(environment)
  const news = collectNews()
  const api = openApi(settings, listener, context.signal, news.answer)
  let begun = false
  saveMemory()
  const onProgress = (progress: Progress) => {
    if (progress.stage === 'scan' && !begun) {
      begun = true
      send({ type: 'begun' })
    }
    if (progress.stage === 'fetch') saveTime()
    listener.progress(progress)
    news.progress(progress)
  }
  try {
    const request = { full, restart, statuses: null, ids: null, allowMassDelete: false }
    const { report, causes, published, seconds } = await sync(request, { ...context, api, onProgress })
    const { run_id: _, ...rest } = report
    log[LEVEL_OF_STATUS[report.status]]({ ...rest, seconds, snapshot: published.directory }, 'run finished')
    const { directory, written, bytesWritten, bytes } = published
    const exitCode = chooseExitCode(report, causes)
    return {
      kind: 'synced',
      report,
      causes: [...causes],
      published: { directory, written, bytesWritten, bytes },
      seconds,
      exitCode,
    }
  } finally {
    news.end()
    await api.close()
  }
}

/** Collects news and sends it once a second, so that not every request interrupts the worker. */
function collectNews() {
  let progress: Progress | null = null
  let answers: AnswerSeen[] = []
  const flush = () => {
    if (!progress && answers.length === 0) return
    send({ type: 'news', progress, answers })
    progress = null
    answers = []
  }
  const timer = setInterval(flush, NEWS_INTERVAL_MS)
  return {
    answer: (answer: AnswerSeen) => void answers.push(answer),
    progress(latest: Progress) {
      progress = latest
    },
    end() {
      clearInterval(timer)
      flush()
    },
  }
}

/** Resolves when the message is sent: disconnecting before that cuts off a message larger than the pipe. */
function send(message: RunMessage): Promise<void> {
  return new Promise(resolve => {
    // The worker may be gone.
    if (process.connected && process.send) process.send(message, undefined, undefined, () => resolve())
    else resolve()
  })
}

const stop = new AbortController()
// Every request under way listens for it.
setMaxListeners(0, stop.signal)
for (const event of ['SIGTERM', 'SIGINT', 'disconnect'] as const) process.on(event, () => stop.abort())

function failed(error: unknown): Ended {
  const { message, exitCode } = explain(error)
  return { kind: 'failed', message, exitCode, cause: error instanceof FatalError ? error.why : null }
}

process.once('message', async (order: RunOrder) => {
  const ended = await carryOut(order).catch(failed)
  process.exitCode = ended.kind === 'failed' ? ended.exitCode : EXIT.ok
  await send({ type: 'ended', ended })
  // Behind the result: whatever a collector does, the run has ended as it did.
  await sendTrace(ended)
  if (process.connected) process.disconnect?.()
})
// Only now: a stop signal would kill a process that does not listen yet.
if (process.connected) send({ type: 'ready' })
else endProcess(EXIT.interrupted)
