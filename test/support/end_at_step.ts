import { appendFileSync } from 'node:fs'
import { type DurableStep, observeSteps } from '#src/lib/durable.ts'

/**
 * Loaded before a command (`node --import`, or in a shared process): logs each durable step that it reaches, and
 * sends the process a signal the first time it reaches one of them. `TEST_END_AT_STEP` has the settings, as JSON.
 */
export type EndAtStep = {
  /** File that gets one line per step. */
  readonly log: string
  readonly at: {
    readonly step: DurableStep
    readonly when: 'before' | 'after'
    readonly signal: NodeJS.Signals
  } | null
}

const { log, at } = JSON.parse(process.env.TEST_END_AT_STEP ?? '') as EndAtStep
let sent = false

observeSteps((step, when) => {
  if (when === 'before') appendFileSync(log, `${step}\n`)
  if (sent || step !== at?.step || when !== at.when) return
  sent = true
  process.kill(process.pid, at.signal)
})
