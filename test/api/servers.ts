import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { EXIT, getMessage } from '#src/lib/errors.ts'

const MAIN = join(import.meta.dirname, '../../src/cli/main.js')
const WITHIN_MS = 60_000
const POLL_MS = 100
const LIST = '/api/v1/editais'
/** Number of ids of the company's notices, and of another company's. */
const [OWN_IDS, FOREIGN_IDS] = [12, 4]

/** The company of the mirror. */
export const MIRRORED = 'mirrored'

/** A server to test, started by its command. */
export type Served = {
  readonly name: string
  readonly url: string
  /** The path of its description. */
  readonly description: string
  /** Checks that do not apply to it. */
  readonly without: readonly string[]
  /** Paths that are tested elsewhere. */
  readonly withoutPaths: readonly string[]
  readonly key: string
  readonly ids: readonly string[]
}

type Started = { readonly child: ChildProcess; readonly output: () => string }

type Readiness = {
  readonly isReady?: (response: Response) => Promise<boolean>
  readonly withinMs?: number
  readonly environment?: Readonly<Record<string, string>>
}

/** Runs tests of servers in a new directory, writes their counts if a file is named, and sets the exit code. Then it ends the servers. */
export async function runWithServers(
  name: string,
  countsFile: string | undefined,
  test: (
    servers: Servers,
    directory: string,
  ) => Promise<{ readonly passed: number; readonly failed: number }>,
): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), `editais-sync-test-${name}-`))
  const servers = new Servers(directory)
  const end = async () => {
    await servers.stop()
    await rm(directory, { recursive: true, force: true })
  }
  const stop = () => void end().finally(() => process.exit(EXIT.interrupted))
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, stop)
  try {
    const counts = await test(servers, directory)
    if (countsFile) await writeFile(countsFile, JSON.stringify(counts))
    process.exitCode = counts.failed === 0 ? EXIT.ok : EXIT.failed
  } catch (error) {
    process.stderr.write(`${getMessage(error)}\n`)
    process.exitCode = EXIT.failed
  } finally {
    await end()
  }
}

/** The sandbox, and a mirror of its first company, both below one directory. */
export class Servers {
  readonly #directory: string
  readonly #children: ChildProcess[] = []

  constructor(directory: string) {
    this.#directory = directory
  }

  async startSandbox(options: readonly string[] = []): Promise<Served> {
    const { output, child } = this.#start(['sandbox', '--port', '0', ...options])
    const ready = async () => /API_BASE_URL=(\S+)\nAPI_KEY=(\S+)/.exec(output())
    const [, url = '', key = ''] = await until(ready, { child, output, what: 'The sandbox did not start' })
    const foreignKey = [...output().matchAll(/notices\s+(\S+)$/gm)]
      .map(([, one]) => one)
      .find(one => one !== key)
    if (!foreignKey) throw new Error(`The sandbox has only one company: ${output()}`)
    const ids = [...(await idsOf(url, key, OWN_IDS)), ...(await idsOf(url, foreignKey, FOREIGN_IDS))]
    return { name: 'sandbox', url, description: '/openapi.json', without: [], withoutPaths: [], key, ids }
  }

  /** Syncs once, creates a key and serves. */
  async startMirror(sandbox: Served): Promise<Served> {
    const environment = this.#mirrored(sandbox)
    await this.run(['sync', '--full'], environment)
    const key = keyIn(await this.run(['keys', 'create', '--description', 'test:api'], environment))
    const { output, child } = this.#start(['serve'], environment)
    const ready = async () => {
      const url = /Listening on (http:\S+?);/.exec(output())?.[1]
      if (!url) return null
      const { status } = await fetch(`${url}${LIST}`, { headers: { 'x-api-key': key } })
      return status === 200 ? url : null
    }
    const url = await until(ready, { child, output, what: 'The mirror did not answer' })
    return { ...sandbox, name: 'mirror', url, key }
  }

  /** Runs a command on the data of the mirror; resolves to what it printed. */
  async runBehindMirror(args: readonly string[], sandbox: Served): Promise<string> {
    return await this.run(args, this.#mirrored(sandbox))
  }

  /** The raw log of the mirror. */
  get rawLog(): string {
    return join(this.#directory, 'data', MIRRORED, 'raw')
  }

  #mirrored({ url, key }: Served) {
    return {
      API_BASE_URL: url,
      API_KEY: key,
      COMPANY: MIRRORED,
      DATA_DIR: join(this.#directory, 'data'),
      HTTP_PORT: '0',
      LOG_LEVEL: 'info',
    }
  }

  async stop(): Promise<void> {
    await Promise.all(
      this.#children.map(async child => {
        if (child.exitCode !== null || child.signalCode !== null) return
        const ended = once(child, 'exit')
        child.kill('SIGKILL')
        await ended
      }),
    )
  }

  /** Another program, which is stopped with the others; resolves when it answers at this address, and is ready. */
  async startProgram(
    command: string,
    args: readonly string[],
    url: string,
    { isReady = async () => true, withinMs = WITHIN_MS, environment = {} }: Readiness = {},
  ): Promise<void> {
    const started = this.#start(args, environment, command)
    const answers = async () =>
      (await fetch(url).then(
        async response => await isReady(response),
        () => false,
      )) || null
    await until(answers, { ...started, what: `${command} did not start`, withinMs })
  }

  #start(
    args: readonly string[],
    environment: Readonly<Record<string, string>> = {},
    command: string | null = null,
  ): Started {
    const { PATH = '', HOME = '' } = process.env
    const [program, words] = command ? [command, args] : [process.execPath, [MAIN, ...args]]
    const child = spawn(program, words, {
      cwd: this.#directory,
      // Without the caller's settings.
      env: { PATH, HOME, ...environment },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    this.#children.push(child)
    let text = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', part => {
        // Only the beginning of a long log is needed.
        if (text.length < 100_000) text += part
      })
    }
    return { child, output: () => text }
  }

  /** Runs a command to its end; resolves to what it printed. */
  async run(args: readonly string[], environment: Readonly<Record<string, string>>): Promise<string> {
    const { child, output } = this.#start(args, environment)
    const [code] = await once(child, 'close')
    if (code !== 0) throw new Error(`${args[0]} exited with ${code}: ${output().slice(-2000)}`)
    return output()
  }
}

/** The API key in what `keys create` printed. */
export function keyIn(output: string): string {
  return /^edk_\S+$/m.exec(output)?.[0] ?? ''
}

async function idsOf(url: string, key: string, count: number): Promise<string[]> {
  const response = await fetch(`${url}${LIST}?limit=${count}`, { headers: { 'x-api-key': key } })
  const { editais } = (await response.json()) as { editais: { id: string }[] }
  return editais.map(({ id }) => id)
}

async function until<T>(
  look: () => Promise<T | null>,
  { child, output, what, withinMs = WITHIN_MS }: Started & { what: string; withinMs?: number },
): Promise<T> {
  for (let waitedMs = 0; waitedMs < withinMs && child.exitCode === null; waitedMs += POLL_MS) {
    const found = await look()
    if (found !== null) return found
    await sleep(POLL_MS)
  }
  throw new Error(`${what}: ${output().slice(-2000)}`)
}
