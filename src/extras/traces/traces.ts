import type { TraceSettings } from '#config/traces.ts'
import { RUN_COUNTERS } from '#schema/sync_runs.ts'
import { convertExitToStatus, type RunReport } from '#src/core/company/run_report.ts'
import type { Extra, RunTrace, TraceName } from '#src/extras/extra.ts'
import { type ExitCode, explain } from '#src/lib/errors.ts'
import type { Shipment, TraceSpan } from './send.ts'

const SERVICE = 'editais-sync'
/** A day's run that seals a segment each minute has fewer. */
const MAX_STAGES = 2000

/**
 * The times of a run's stages, as OpenTelemetry spans, sent to a collector when the run is over. It may touch nothing of the
 * company, and never fails a run.
 */
export const traces: Extra = { traces: traceRun }

/**
 * Takes the times of a run's stages. Until its end this is only a list: OpenTelemetry is loaded, and a collector asked,
 * when the run is over.
 * @param name of the span of the whole.
 * @param about ids, such as `company` and `run_id`.
 */
function traceRun(
  name: TraceName,
  settings: TraceSettings,
  about: Readonly<Record<string, string>>,
): RunTrace {
  const startMs = nowMs()
  const stages: TraceSpan[] = []
  const add = (stage: string, since: number, error: string | null) => {
    if (stages.length < MAX_STAGES)
      stages.push({ name: stage, startMs: since, endMs: nowMs(), attributes: {}, error })
  }
  return {
    async inStage(stage, work, findFailure = () => null) {
      const since = nowMs()
      try {
        const result = await work()
        add(stage, since, composeSentence(findFailure(result)))
        return result
      } catch (error) {
        add(stage, since, composeSentence(error))
        throw error
      }
    },
    async end({ exitCode, report, error }, onUnsent) {
      const attributes = { ...named(about), ...listFigures(report, exitCode) }
      const root: TraceSpan = { name, startMs, endMs: nowMs(), attributes, error }
      const children = stages.toSorted((a, b) => a.startMs - b.startMs)
      const unsent = await send({ trace: { root, children }, service: SERVICE }, settings)
      if (unsent !== null) onUnsent(unsent)
    },
  }
}

async function send(shipment: Shipment, { environment, problem }: TraceSettings): Promise<string | null> {
  if (problem !== null) return `The trace was not sent. ${problem}`
  const { sendTrace } = await import('./send.ts')
  const clause = await sendTrace(shipment, environment)
  if (clause === null) return null
  return `The trace was not sent to OTEL_EXPORTER_OTLP_ENDPOINT: ${clause}. The run itself is not affected.`
}

/** Does not go back when the clock is set. */
function nowMs(): number {
  return performance.timeOrigin + performance.now()
}

function composeSentence(error: unknown): string | null {
  if (error === null || typeof error === 'string') return error
  return explain(error).message
}

function named<T>(values: Readonly<Record<string, T>>): Record<string, T> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [`editais.${name}`, value]))
}

function listFigures(report: RunReport | null, exitCode: ExitCode): TraceSpan['attributes'] {
  const code = { 'process.exit.code': exitCode }
  if (report === null)
    return { ...code, 'editais.status': exitCode === 0 ? 'ok' : convertExitToStatus(exitCode) }
  const { mode, status, scan_complete: scanComplete } = report
  const counters = Object.keys(RUN_COUNTERS).map(name => [name, report[name as keyof typeof RUN_COUNTERS]])
  const complete = scanComplete === null ? {} : { scan_complete: scanComplete }
  return { ...code, ...named({ mode, status, ...complete, ...Object.fromEntries(counters) }) }
}
