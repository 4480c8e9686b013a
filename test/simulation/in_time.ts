import type { RunReport } from '#src/core/company/run_report.ts'
import { Violation } from './assertions.ts'

/** A simulated run never waits long in real time, so one that takes longer hangs. */
const MAX_RUN_MS = 60_000

export type Ended = { readonly report: RunReport | null; readonly error: unknown }

/** A run that never ends is a violation, too. */
export async function inTime(running: Promise<RunReport | null>, operation: string): Promise<Ended> {
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(
    () => late.reject(new Violation(`${operation} did not end within ${MAX_RUN_MS} ms`)),
    MAX_RUN_MS,
  )
  try {
    return await Promise.race([
      running.then(
        report => ({ report, error: null }),
        (error: unknown) => ({ report: null, error }),
      ),
      late.promise,
    ])
  } finally {
    clearTimeout(timer)
  }
}
