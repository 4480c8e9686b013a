/** What a piece of work cost: seconds of the clock, and of the process's CPU on all its threads. */
export type Spent = { readonly wallSeconds: number; readonly cpuSeconds: number }

/** Starts a watch; the call that it returns reads it. */
export function startWatch(): () => Spent {
  const startedMs = performance.now()
  const before = process.cpuUsage()
  return () => {
    const { user, system } = process.cpuUsage(before)
    return { wallSeconds: (performance.now() - startedMs) / 1000, cpuSeconds: (user + system) / 1e6 }
  }
}
