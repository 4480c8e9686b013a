import { appendFileSync } from 'node:fs'
import { type DurableStep, observeSteps } from '#src/platform/durable.ts'

/**
 * Loaded before a command (`node --import`, or in a shared process): notes each durable step that it comes to, and sends the process a
 * signal at one of them, the first time. `TEST_END_AT_STEP` says which, as JSON.
 */
export type EndAtStep = {
  /** File that gets a line for each step. */
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
