/** Longer work is interrupted for other requests. */
const WORK_FOR_MS = 2

/** Work that was interrupted. One piece continues in each turn of the event loop, so that a turn stays short. */
const interrupted: (() => void)[] = []

function goOn(): void {
  interrupted.shift()?.()
  if (interrupted.length > 0) setImmediate(goOn)
}

/** Returns a function to await in the middle of long work: after a few milliseconds of work, it lets other work go first. */
export function createPause(): () => Promise<void> {
  let sinceMs = performance.now()
  return async () => {
    if (performance.now() - sinceMs < WORK_FOR_MS) return
    await new Promise<void>(resolve => {
      interrupted.push(resolve)
      if (interrupted.length === 1) setImmediate(goOn)
    })
    sinceMs = performance.now()
  }
}
