import { fork } from 'node:child_process'
import { once } from 'node:events'
import { messageOf } from '#src/platform/errors.ts'
import { remember } from '../processes.ts'

/** Functions that a process offers to its parent; arguments and results travel as JSON. */
export type Calls = Readonly<Record<string, (asked: never) => unknown>>

type Call = { readonly name: string; readonly asked: unknown }
type Answer = { readonly answer: unknown } | { readonly failed: string }

/** A process that answers one call after another. */
export type Callee<C extends Calls> = {
  /** @throws Error if the call failed there, or the process has ended. */
  call<K extends keyof C & string>(name: K, asked: Parameters<C[K]>[0]): Promise<Awaited<ReturnType<C[K]>>>
  /** Resolves when it has ended. */
  close(): Promise<void>
}

/**
 * Starts a file that answers calls, with `about` as its argument, and resolves once it listens. It gets none
 * of the caller's settings, which would change the results, except the place of compiled code.
 */
export async function startCallee<C extends Calls>(file: string, about: unknown): Promise<Callee<C>> {
  const { PATH, NODE_COMPILE_CACHE } = process.env
  const env = { PATH, NODE_COMPILE_CACHE }
  const child = remember(fork(file, [JSON.stringify(about)], { env, execArgv: [] }))
  const ended = once(child, 'exit')
  const early = ended.then(([code]) => Promise.reject(new Error(`${file} exited with ${code}`)))
  // A caller that waits for an answer sees the rejection; after a requested end nothing handles it.
  early.catch(() => {})
  const next = async () => await Promise.race([once(child, 'message').then(([message]) => message), early])
  await next()
  return {
    async call(name, asked) {
      child.send({ name, asked } satisfies Call)
      const result = (await next()) as Answer
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
  process.on('message', async ({ name, asked }: Call) => {
    const call = calls[name] as (asked: unknown) => unknown
    const result: Answer = await Promise.resolve(asked)
      .then(call)
      .then(
        answer => ({ answer }),
        error => ({ failed: error instanceof Error ? (error.stack ?? error.message) : messageOf(error) }),
      )
    process.send?.(result)
  })
  process.on('disconnect', () => process.exit())
  process.send?.('ready')
}
