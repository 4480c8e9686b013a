import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { findSystemCode } from '#src/lib/errors.ts'

/** How long the end of a program may wait for a collector, all in all. */
const SEND_WITHIN_MS = 5000
/** For the exporter itself, which then says why it gave up. Starting the thread takes part of the time above. */
const MAX_TIMEOUT_MS = 4000
const TIMEOUTS = ['OTEL_EXPORTER_OTLP_TIMEOUT', 'OTEL_EXPORTER_OTLP_TRACES_TIMEOUT']
/** Ample for a trace and OpenTelemetry's modules: an answer of any size must not take the memory of the program. */
const MAX_HEAP_MB = 128

/**
 * Sends a trace by OTLP over HTTP, with OpenTelemetry's exporter in a thread of its own: whatever a collector answers,
 * or does not, ends with the thread. The thread knows only the given variables.
 * @param environment OpenTelemetry's variables (`OTEL_…`).
 * @returns why the trace was not sent, as a clause; null if it was. Never throws, and takes at most 5 s.
 */
export async function sendTrace(
  shipment: Shipment,
  environment: Readonly<Record<string, string>>,
): Promise<string | null> {
  const deadline = new AbortController()
  const timer = setTimeout(() => deadline.abort(), SEND_WITHIN_MS)
  let worker: Worker | null = null
  try {
    worker = startThread(shipment, environment)
    const [clause] = (await once(worker, 'message', { signal: deadline.signal })) as [string | null]
    return clause
  } catch (error) {
    if (deadline.signal.aborted) return `the collector took longer than ${SEND_WITHIN_MS / 1000} s`
    return `the exporter failed (${findSystemCode(error) ?? 'unexpected'})`
  } finally {
    clearTimeout(timer)
    worker?.unref()
    void worker?.terminate()
  }
}

function startThread(shipment: Shipment, environment: Readonly<Record<string, string>>): Worker {
  const worker = new Worker(new URL('./thread.ts', import.meta.url), {
    workerData: shipment,
    env: { ...environment, ...timeouts(environment) },
    // Not the options of this process, which may load modules that need its environment.
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MB },
    // What a library prints is not for the user.
    stdout: true,
    stderr: true,
  })
  // Also after the first event: an error without a listener would end the program.
  return worker.on('error', () => {})
}

/** Returns the shorter of the user's and our own. */
function timeouts(environment: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    TIMEOUTS.map(name => {
      const set = Number(environment[name] ?? environment[TIMEOUTS[0] as string])
      return [name, String(set > 0 ? Math.min(set, MAX_TIMEOUT_MS) : MAX_TIMEOUT_MS)]
    }),
  )
}

/** A stretch of time, as a collector shows it. */
export type TraceSpan = {
  readonly name: string
  /** Milliseconds since 1970, with fractions. */
  readonly startMs: number
  readonly endMs: number
  readonly attributes: Readonly<Record<string, string | number | boolean>>
  /** Why it failed, as a sentence; null if it did not. */
  readonly error: string | null
}

/** A span and those within it. */
type Trace = { readonly root: TraceSpan; readonly children: readonly TraceSpan[] }

/** The order to the thread that sends a trace; it reports why the trace was not sent, or null. */
export type Shipment = { readonly trace: Trace; readonly service: string }
