import { enableCompileCache } from 'node:module'
import { createInterface } from 'node:readline'

/**
 * A process that carries out one command after another, each as `src/cli/main.ts` would in a process of its
 * own: with nothing in its environment but what it is given. It ends with its standard input.
 * Usage: node shared_process.ts, with a JSON line for each command.
 */
export type Order = {
  readonly args: readonly string[]
  readonly environment: Readonly<Record<string, string>>
  readonly cwd: string
}

/** Ends what a command wrote, on both streams; on stdout it holds the exit code. */
export const END = '\0'

if (import.meta.main) {
  enableCompileCache()
  // Each command listens for what a process of its own would listen for once.
  for (const emitter of [process, process.stdout]) emitter.setMaxListeners(0)
  const [node = '', here = ''] = process.argv
  let count = 0
  for await (const line of createInterface({ input: process.stdin })) {
    const { args, environment, cwd } = JSON.parse(line) as Order
    process.chdir(cwd)
    for (const name of Object.keys(process.env)) delete process.env[name]
    Object.assign(process.env, environment)
    process.argv = [node, here, ...args]
    process.exitCode = undefined
    count += 1
    // A process of its own would have only those of its own command.
    for (const signal of ['SIGINT', 'SIGTERM']) process.removeAllListeners(signal)
    if (environment.TEST_END_AT_STEP) await import(`./end_at_step.ts?${count}`)
    // The program runs when it is loaded; under another name it is loaded again, and what it needs is not.
    await import(`../../src/cli/program.ts?${count}`)
    process.stderr.write(END)
    process.stdout.write(`${END}${process.exitCode ?? 0}${END}`)
  }
  process.exitCode = 0
}
