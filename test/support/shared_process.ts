import { enableCompileCache } from 'node:module'
import { createInterface } from 'node:readline'

/**
 * A process that runs one command after another, each as `src/cli/main.js` would in its own process: with only the
 * given environment. It ends when its stdin closes.
 * Usage: node shared_process.ts, with a JSON line for each command on stdin.
 */
export type Order = {
  readonly args: readonly string[]
  readonly environment: Readonly<Record<string, string>>
  readonly cwd: string
}

/** Marks the end of a command's output on both streams; on stdout, with the exit code. */
export const END = '\0'

if (import.meta.main) {
  enableCompileCache()
  // Each command adds the listeners that its own process would add once.
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
    // Removes the listeners of earlier commands.
    for (const signal of ['SIGINT', 'SIGTERM']) process.removeAllListeners(signal)
    if (environment.TEST_END_AT_STEP) await import(`./end_at_step.ts?${count}`)
    // Loading the program runs it. Another URL loads it again, but not the modules that it imports.
    await import(`../../src/cli/start.ts?${count}`)
    process.stderr.write(END)
    process.stdout.write(`${END}${process.exitCode ?? 0}${END}`)
  }
  process.exitCode = 0
}
