import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { promisify } from 'node:util'

type User = { readonly uid: number; readonly gid: number }
type Running = { readonly output: () => string; readonly kill: () => Promise<void> }

/** Programs that run until they are killed. */
export class Programs {
  readonly #children: ChildProcess[] = []

  start(
    command: string,
    args: readonly string[],
    environment: Readonly<Record<string, string>>,
    user: User | null = null,
  ): Running {
    const { PATH = '', HOME = '' } = process.env
    const child = spawn(command, args, {
      cwd: '/',
      env: { PATH, HOME, ...environment },
      stdio: ['ignore', 'ignore', 'pipe'],
      ...user,
    })
    this.#children.push(child)
    let text = ''
    child.stderr.setEncoding('utf8').on('data', part => {
      text = (text + part).slice(-10_000)
    })
    return { output: () => text, kill: () => end(child, 'SIGKILL') }
  }

  async stop(): Promise<void> {
    await Promise.all(this.#children.map(child => end(child, 'SIGTERM')))
  }
}

async function end(child: ChildProcess, signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill(signal)
  await ended
}

/** The user that Postgres's package made, if this one is root. */
export async function postgresUser(): Promise<User | null> {
  if (process.getuid?.() !== 0) return null
  const idOf = async (which: string) =>
    Number((await promisify(execFile)('id', [which, 'postgres'])).stdout.trim())
  return { uid: await idOf('-u'), gid: await idOf('-g') }
}
