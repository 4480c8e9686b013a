import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'

const LAST_LINES = 20
const LINE_CHARACTERS = 300

/** A program that serves HTTP, such as `npm start` and `editais serve`: it logs its address. */
export type ServiceProcess = {
  readonly pid: number
  readonly url: string
  /** Rejects with the end of its log if it ends. */
  readonly early: Promise<never>
  /** The end of its log. */
  readonly last: readonly string[]
  /** The seconds since its start. */
  seconds(): number
  /** Ends it with a signal. @returns its exit code, and the seconds from the signal to its exit. */
  end(signal: 'SIGTERM' | 'SIGKILL'): Promise<{ readonly code: number | null; readonly seconds: number }>
}

/** A line of a program's log; a line that is not JSON is in `msg`. */
export type LogLine = Readonly<Record<string, unknown>> & {
  readonly msg: string
  readonly level?: string
  readonly company?: string
}

/**
 * Starts a program and resolves when it listens.
 * @throws Error with the end of its log if it ends instead.
 */
export async function startServiceProcess(options: {
  /** Its name in errors. */
  readonly name: string
  readonly command: readonly string[]
  readonly directory: string
  readonly env: Readonly<Record<string, string>>
  /** Gets the process as soon as it runs. */
  readonly onStart: (child: ChildProcess) => void
  /** Follows its log. Without it, nobody reads the log after the line with the address. */
  readonly onLine?: ((line: LogLine) => void) | undefined
}): Promise<ServiceProcess> {
  const { name, command, directory, env, onStart, onLine } = options
  const [program = '', ...words] = command
  const startedMs = performance.now()
  const child = spawn(program, words, { cwd: directory, env, stdio: ['ignore', 'ignore', 'pipe'] })
  onStart(child)
  const exited = once(child, 'exit').then(([code]) => ({
    code: code as number | null,
    atMs: performance.now(),
  }))
  const listening = Promise.withResolvers<string>()
  const last: string[] = []
  const lines = createInterface({ input: child.stderr })
  lines.on('line', text => {
    last.push(text.slice(0, LINE_CHARACTERS))
    if (last.length > LAST_LINES) last.shift()
    onLine?.(parse(text))
    const [, url] = /Listening on (http:\S+?);/.exec(text) ?? []
    if (url) listening.resolve(url)
    if (url && !onLine) lines.pause()
  })
  // Its last lines arrive after its exit.
  const early = Promise.all([exited, once(lines, 'close')]).then(([{ code }]) => {
    throw new Error(`${name} exited with ${code ?? child.signalCode}:\n${last.join('\n')}`)
  })
  // A caller that waits for something sees the rejection; after a requested end nothing handles it.
  early.catch(() => {})
  const url = await Promise.race([listening.promise, early])
  return {
    pid: child.pid as number,
    url,
    early,
    last,
    seconds: () => (performance.now() - startedMs) / 1000,
    async end(signal) {
      const fromMs = performance.now()
      child.kill(signal)
      const { code, atMs } = await exited
      return { code, seconds: (atMs - fromMs) / 1000 }
    },
  }
}

function parse(text: string): LogLine {
  try {
    return { msg: '', ...JSON.parse(text) }
  } catch {
    return { msg: text }
  }
}
