import type { Extra } from '#src/core/extra.ts'
import { traceRun } from './run_trace.ts'

/**
 * The times of a run's stages, as OpenTelemetry spans, sent to a collector when the run is over. It may touch nothing of the
 * company, and never fails a run.
 */
export const traces: Extra = { traces: traceRun }
