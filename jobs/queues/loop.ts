import { setTimeout as sleep } from 'node:timers/promises'

/** Repeats the work, with a pause after each time, until the signal is aborted. */
export async function every(
  intervalMs: number,
  work: () => Promise<void>,
  { signal, onError }: { signal: AbortSignal; onError: (error: unknown) => void },
): Promise<void> {
  while (!signal.aborted) {
    await work().catch(onError)
    await sleep(intervalMs, undefined, { signal }).catch(() => {})
  }
}
