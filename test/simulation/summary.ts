import { DURABLE_STEPS } from '#src/lib/durable.ts'

/** A violation is a sentence. Anything else is a bug in the simulation, or a crash, and needs its stack. */
export function describeFailure(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.name === 'Violation' ? error.message : (error.stack ?? error.message)
}

/** The counts by kind, and the steps at which no run crashed. */
export function describeCounts(counts: Iterable<readonly [string, number]>): string {
  const all = [...counts].sort(([a], [b]) => (a < b ? -1 : 1))
  const groups = Map.groupBy(all, ([what]) => (what.includes(': ') ? what.split(': ')[0] : 'change'))
  const lines = [...groups].map(([group, list]) => {
    const inGroup = list.map(([what, times]) => `${what.replace(/^.*: /, '')} ${times}`)
    return group === 'crash point' ? describeCrashPoints(list) : `${group}: ${inGroup.join(', ')}`
  })
  return lines.map(line => `${line}\n`).join('')
}

function describeCrashPoints(list: readonly (readonly [string, number])[]): string {
  const kinds = new Map<string, number>()
  for (const [what, times] of list) {
    const kind = what.replace(/^crash point: (.*) (before|after) .*$/, '$1')
    kinds.set(kind, (kinds.get(kind) ?? 0) + times)
  }
  const missed = DURABLE_STEPS.filter(step => !list.some(([what]) => what.endsWith(` ${step}`)))
  const never = missed.length > 0 ? `; never at ${missed.join(', ')}` : '; at each step'
  return `crash point: ${[...kinds].map(([kind, times]) => `${kind} ${times}`).join(', ')}${never}`
}
