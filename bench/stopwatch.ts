/** Cost of a piece of work: wall-clock seconds, and CPU seconds of all threads of the process. */
export type Spent = { readonly wallSeconds: number; readonly cpuSeconds: number }

/** Starts a watch; the returned function reads it. */
export function startWatch(): () => Spent {
  const startedMs = performance.now()
  const before = process.cpuUsage()
  return () => {
    const { user, system } = process.cpuUsage(before)
    return { wallSeconds: (performance.now() - startedMs) / 1000, cpuSeconds: (user + system) / 1e6 }
  }
}
