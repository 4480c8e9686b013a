import { once } from 'node:events'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { createTurns } from '#src/lib/http/waiting_room.ts'
import type { UnpackOrder, UnpackResult } from './unpack.ts'

const UNPACK = join(import.meta.dirname, 'unpack.ts')
/** More threads than this are idle: the event loop cannot send what they unpack. */
const MAX_THREADS = 4
/** A thread takes some 10 MB, and starts in 50 ms. */
const IDLE_MS = 10_000

/** How many orders are carried out at the same time. */
export const UNPACKERS = Math.min(MAX_THREADS, availableParallelism())

/** Keys take turns: a key with many exports does not delay a key with one. */
const inTurn = createTurns(UNPACKERS)
const idle: { readonly thread: Worker; readonly end: NodeJS.Timeout }[] = []

/**
 * Carries out an order in a thread.
 * @param isWanted asked when its turn comes; null is returned if it is not.
 * @returns the lines; a view of `into` if the order has it.
 * @throws Error if the file is damaged.
 */
export async function unpackInThread(
  whose: string,
  isWanted: () => boolean,
  order: UnpackOrder,
): Promise<Uint8Array | null> {
  return await inTurn(whose, isWanted, async () => {
    const thread = takeThread()
    const over = new AbortController()
    const { signal } = over
    try {
      const ended = once(thread, 'exit', { signal }).then(() => ({ error: 'the thread ended early' }))
      ended.catch(() => {})
      thread.ref()
      thread.postMessage(order)
      const answered = once(thread, 'message', { signal }).then(([result]) => result as UnpackResult)
      const result = await Promise.race([answered, ended])
      if ('lines' in result)
        return result.lines ?? new Uint8Array(order.into as SharedArrayBuffer, 0, order.size)
      throw new Error(result.error)
    } finally {
      over.abort()
      if (thread.threadId !== -1) rest(thread)
    }
  })
}

function takeThread(): Worker {
  const free = idle.pop()
  if (free) {
    clearTimeout(free.end)
    return free.thread
  }
  const thread = new Worker(UNPACK, { env: {}, execArgv: [] })
  // What it dies of is reported by its exit.
  thread.on('error', () => {})
  thread.once('exit', () => forget(thread))
  return thread
}

function forget(thread: Worker): void {
  const at = idle.findIndex(one => one.thread === thread)
  if (at !== -1) idle.splice(at, 1)
}

/** Keeps it for the next order, for a while. */
function rest(thread: Worker): void {
  thread.unref()
  const end = setTimeout(() => {
    forget(thread)
    void thread.terminate()
  }, IDLE_MS).unref()
  idle.push({ thread, end })
}
