import { execFile } from 'node:child_process'
import { onTestFinished } from 'vitest'
import { type Ended, type Environment, surroundings } from './project.ts'

type Run = {
  readonly cwd: string
  readonly environment?: Environment
  /** Kills it. */
  readonly signal?: AbortSignal
}

/** Runs a program to its end, or the test's. */
export function runProgram(
  program: string,
  args: readonly string[],
  { cwd, environment = {}, signal }: Run,
): Promise<Ended> {
  return new Promise(resolve => {
    const options = { cwd, env: { ...surroundings(), ...environment }, maxBuffer: 64 << 20 }
    const child = execFile(program, args, options, (_, stdout, stderr) =>
      resolve({ code: child.exitCode, stdout, stderr }),
    )
    const kill = () => void child.kill('SIGKILL')
    onTestFinished(kill)
    signal?.addEventListener('abort', kill)
  })
}
