import type { TraceSettings } from '#config/traces.ts'
import type { RunTrace, TraceName } from '#src/core/extra.ts'
import { untimed } from '#src/core/pipeline/stage.ts'
import { EXTRAS } from '#src/extras.ts'

/**
 * Takes the times of a run's stages, and sends them at its end, if a collector is configured.
 * @param about ids, such as `company` and `run_id`.
 */
export function beginTrace(
  name: TraceName,
  settings: TraceSettings | null,
  about: Readonly<Record<string, string>>,
): RunTrace {
  for (const { traces } of EXTRAS) if (traces && settings) return traces(name, settings, about)
  return { inStage: untimed, end: async () => {} }
}
