import { fork } from 'node:child_process'
import { once } from 'node:events'
import { getMessage } from '#src/lib/errors.ts'
import { remember } from './processes.ts'

/** Functions that a process offers to its parent; arguments and results travel as JSON. */
export type Calls = Readonly<Record<string, (asked: never) => unknown>>

type Call = { readonly id: number; readonly name: string; readonly asked: unknown }
type Answer = { readonly id: number } & ({ readonly answer: unknown } | { readonly failed: string })

/** A process that answers calls. */
export type Callee<C extends Calls> = {
  readonly pid: number
  /** @throws Error if the call failed there, or the process has ended. */
  call<K extends keyof C & string>(name: K, ...asked: Parameters<C[K]>): Promise<Awaited<ReturnType<C[K]>>>
  /** Resolves when it has ended. */
  close(): Promise<void>
}

/**
 * Starts a file that answers calls, with `about` as its argument, and resolves once it listens. It gets none
 * of the caller's settings, which would change the results, except the place of compiled code.
 */
export async function startCallee<C extends Calls>(file: string, about: unknown = null): Promise<Callee<C>> {
  const { PATH, NODE_COMPILE_CACHE } = process.env
  const env = { PATH, NODE_COMPILE_CACHE }
  const child = remember(fork(file, [JSON.stringify(about)], { env, execArgv: [] }))
  child.setMaxListeners(0)
  const ended = once(child, 'exit')
  const early = ended.then(([code]) => Promise.reject(new Error(`${file} exited with ${code}`)))
  // A caller that cannot send, or waits for an answer, sees the rejection; after a requested end nothing handles it.
  early.catch(() => {})
  await Promise.race([once(child, 'message'), early])
  const waiting = new Map<number, (answer: Answer) => void>()
  child.on('message', (answer: Answer) => waiting.get(answer.id)?.(answer))
  let calls = 0
  return {
    pid: child.pid as number,
    async call(name, ...[asked]) {
      const id = calls++
      const answered = Promise.withResolvers<Answer>()
      waiting.set(id, answered.resolve)
      child.send({ id, name, asked } satisfies Call, () => {})
      const result = await Promise.race([answered.promise, early])
      waiting.delete(id)
      if ('failed' in result) throw new Error(`${file}, ${name}: ${result.failed}`)
      return result.answer as never
    },
    async close() {
      child.disconnect()
      await ended
    },
  }
}

/** The other side: answers each call, and ends with the caller. */
export function answerCalls(calls: Calls): void {
  process.on('message', async ({ id, name, asked }: Call) => {
    const call = calls[name] as (asked: unknown) => unknown
    const result = await Promise.resolve(asked)
      .then(call)
      .then(
        answer => ({ answer }),
        error => ({ failed: error instanceof Error ? (error.stack ?? error.message) : getMessage(error) }),
      )
    process.send?.({ id, ...result } satisfies Answer)
  })
  process.on('disconnect', () => process.exit())
  process.send?.('ready')
}
