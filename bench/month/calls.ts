import { fork } from 'node:child_process'
import { once } from 'node:events'
import { messageOf } from '#src/platform/errors.ts'
import { remember } from '../processes.ts'

/** What a process does when it is told to; what it is told and what it answers travel as JSON. */
export type Calls = Readonly<Record<string, (asked: never) => unknown>>

type Call = { readonly name: string; readonly asked: unknown }
type Answer = { readonly answer: unknown } | { readonly failed: string }

/** A process that does one thing after another, as it is told. */
export type Callee<C extends Calls> = {
  /** @throws Error with what went wrong there, or that it has ended. */
  call<K extends keyof C & string>(name: K, asked: Parameters<C[K]>[0]): Promise<Awaited<ReturnType<C[K]>>>
  /** Resolves when it has ended. */
  close(): Promise<void>
}

/**
 * Starts a file that answers calls, with `about` as its argument, and resolves once it listens. Nothing of
 * the caller's settings holds there, as they would change what is measured, but where compiled code is kept.
 */
export async function startCallee<C extends Calls>(file: string, about: unknown): Promise<Callee<C>> {
  const { PATH, NODE_COMPILE_CACHE } = process.env
  const env = { PATH, NODE_COMPILE_CACHE }
  const child = remember(fork(file, [JSON.stringify(about)], { env, execArgv: [] }))
  const ended = once(child, 'exit')
  const early = ended.then(([code]) => Promise.reject(new Error(`${file} ended (${code})`)))
  // Met by whoever waits for an answer; an end that was asked for is met by nobody.
  early.catch(() => {})
  const next = async () => await Promise.race([once(child, 'message').then(([message]) => message), early])
  await next()
  return {
    async call(name, asked) {
      child.send({ name, asked } satisfies Call)
      const said = (await next()) as Answer
      if ('failed' in said) throw new Error(`${file}, ${name}: ${said.failed}`)
      return said.answer as never
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
    const said: Answer = await Promise.resolve(asked)
      .then(call)
      .then(
        answer => ({ answer }),
        error => ({ failed: error instanceof Error ? (error.stack ?? error.message) : messageOf(error) }),
      )
    process.send?.(said)
  })
  process.on('disconnect', () => process.exit())
  process.send?.('ready')
}
