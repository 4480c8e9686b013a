import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { EXIT, getMessage } from './errors.ts'
import { endProcess } from './exit.ts'

/** The variables that these processes need; they hold no key and no token. */
const PASSED = ['PATH', 'HOME', 'TMPDIR', 'XDG_CACHE_HOME', 'NODE_COMPILE_CACHE']

/** The answer of a process to an order: the reason if it failed. */
export type Answered = { readonly error: string | null }

type StartOptions = {
  readonly execArgv?: readonly string[]
  /** Names of further variables that it needs. */
  readonly also?: RegExp
  /** The destination of its standard error. */
  readonly stderr?: 'inherit' | 'ignore'
  /** Its working directory, if another than that of this process. */
  readonly cwd?: string
}

/** Starts a process that answers each message with another; it ends when disconnected. */
export function startChild(
  path: string,
  { execArgv = [], also, stderr = 'inherit', cwd }: StartOptions = {},
): ChildProcess {
  const env = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => PASSED.includes(name) || also?.test(name)),
  )
  const child = fork(path, [], {
    env,
    execArgv: [...execArgv],
    ...(cwd === undefined ? {} : { cwd }),
    stdio: ['ignore', 'ignore', stderr, 'ipc'],
  })
  // If it cannot be started, the code that waits for it also gets the error.
  child.on('error', () => {})
  return child
}

/**
 * Sends an order. The process is killed if it takes longer, or when `signal` is aborted.
 * @param what is started, for the reason: "a builder".
 */
export async function carryOut<A extends Answered>(
  child: ChildProcess,
  order: object,
  { what, withinMs, signal }: { what: string; withinMs: number; signal: AbortSignal },
): Promise<A | Answered> {
  const ended = new AbortController()
  const stop = () => child.kill('SIGKILL')
  const late = setTimeout(stop, withinMs)
  signal.addEventListener('abort', stop, { once: true })
  const died = once(child, 'exit', { signal: ended.signal }).then(([code, killed]) => ({
    error: `${what} process ended early (${code ?? killed})`,
  }))
  const done = once(child, 'message', { signal: ended.signal }).then(([answer]) => answer as A)
  // One of the two is abandoned below.
  for (const outcome of [died, done]) outcome.catch(() => {})
  if (signal.aborted) stop()
  // If it has just died, its exit reports that.
  child.send(order, () => {})
  try {
    return await Promise.race([done, died])
  } finally {
    clearTimeout(late)
    ended.abort()
    signal.removeEventListener('abort', stop)
  }
}

/**
 * The other side: does the work of each order, answers with the fields that it returns or with the reason why it
 * failed, and ends with the process that sends the orders.
 */
export function answerOrders<Order>(work: (order: Order) => Promise<unknown>): void {
  process.on('message', async (order: Order) => {
    const answer = await work(order).then(
      (found): Answered => Object.assign({ error: null }, found),
      (error: unknown): Answered => ({ error: getMessage(error) }),
    )
    // That process may be gone.
    process.send?.(answer, undefined, undefined, () => {})
  })
  process.on('disconnect', () => endProcess(EXIT.ok))
}
