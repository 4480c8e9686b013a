import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { ShelfOrder, ShelfResult } from './shelf_files.ts'

const BUILD = join(import.meta.dirname, 'build.ts')

/** What the builder needs of our environment; no key and no token. */
const PASSED = ['PATH', 'HOME', 'TMPDIR', 'NODE_COMPILE_CACHE'] as const

/** A month of a large company takes seconds. */
const MONTH_WITHIN_MS = 600_000

/**
 * Has shelves built, one after another, by a process that ends with the last.
 * @throws Error saying why one could not be built.
 */
export async function buildShelves(orders: readonly ShelfOrder[], signal: AbortSignal): Promise<void> {
  // From here on it kills the process, and that ends the wait.
  signal.throwIfAborted()
  const env = Object.fromEntries(
    PASSED.flatMap(name => (process.env[name] ? [[name, process.env[name]]] : [])),
  )
  const child = fork(BUILD, [], { env, execArgv: [], stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
  const stop = () => child.kill('SIGKILL')
  signal.addEventListener('abort', stop)
  const died = once(child, 'exit').then(([code, killed]): ShelfResult => {
    return { error: `the builder ended early (${code ?? killed})` }
  })
  try {
    for (const order of orders) {
      const late = setTimeout(stop, MONTH_WITHIN_MS)
      const done = once(child, 'message').then(([result]) => result as ShelfResult)
      child.send(order)
      const { error } = await Promise.race([done, died]).finally(() => clearTimeout(late))
      if (error !== null) throw new Error(error)
    }
  } finally {
    signal.removeEventListener('abort', stop)
    if (child.connected) child.disconnect()
  }
}
