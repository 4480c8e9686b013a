import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const MAIN = join(import.meta.dirname, '../../src/cli/main.ts')
const WITHIN_MS = 60_000
const POLL_MS = 100
const LIST = '/api/v1/editais'
/** The ids of some notices of the company, and of some of another one. */
const [OWN_IDS, FOREIGN_IDS] = [12, 4]

/** A server to test, as its command starts it. */
export type Served = {
  readonly name: string
  readonly url: string
  readonly key: string
  readonly ids: readonly string[]
}

type Started = { readonly child: ChildProcess; readonly said: () => string }

/** The sandbox, and a mirror of its first company, both below a directory of their own. */
export class Servers {
  readonly #directory: string
  readonly #children: ChildProcess[] = []

  constructor(directory: string) {
    this.#directory = directory
  }

  async startSandbox(): Promise<Served> {
    const { said, child } = this.#start(['sandbox', '--port', '0'])
    const ready = async () => /API_BASE_URL=(\S+)\nAPI_KEY=(\S+)/.exec(said())
    const [, url = '', key = ''] = await until(ready, { child, said, what: 'The sandbox does not start' })
    const foreignKey = [...said().matchAll(/notices\s+(\S+)$/gm)]
      .map(([, one]) => one)
      .find(one => one !== key)
    if (!foreignKey) throw new Error(`The sandbox has one company only: ${said()}`)
    const ids = [...(await idsOf(url, key, OWN_IDS)), ...(await idsOf(url, foreignKey, FOREIGN_IDS))]
    return { name: 'sandbox', url, key, ids }
  }

  /** Syncs once, makes a key and serves. */
  async startMirror(sandbox: Served): Promise<Served> {
    const environment = {
      ...{ API_BASE_URL: sandbox.url, API_KEY: sandbox.key, COMPANY: 'mirrored' },
      ...{ DATA_DIR: join(this.#directory, 'data'), HTTP_PORT: '0', LOG_LEVEL: 'info' },
    }
    await this.#run(['sync', '--full'], environment)
    const key = (await this.#run(['keys', 'create', '--description', 'test:api'], environment)).trim()
    const { said, child } = this.#start(['serve'], environment)
    const ready = async () => {
      const url = /Listening on (http:\S+?);/.exec(said())?.[1]
      if (!url) return null
      const { status } = await fetch(`${url}${LIST}`, { headers: { 'x-api-key': key } })
      return status === 200 ? url : null
    }
    const url = await until(ready, { child, said, what: 'The mirror does not answer' })
    return { ...sandbox, name: 'mirror', url, key }
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

  #start(args: readonly string[], environment: Readonly<Record<string, string>> = {}): Started {
    const { PATH = '', HOME = '' } = process.env
    const child = spawn(process.execPath, [MAIN, ...args], {
      cwd: this.#directory,
      // Nothing of the caller's settings.
      env: { PATH, HOME, ...environment },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    this.#children.push(child)
    let said = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', text => {
        // Of a log that goes on only the beginning is read.
        if (said.length < 100_000) said += text
      })
    }
    return { child, said: () => said }
  }

  /** Runs a command to its end; resolves to its first line, which is what it is asked for. */
  async #run(args: readonly string[], environment: Readonly<Record<string, string>>): Promise<string> {
    const { child, said } = this.#start(args, environment)
    const [code] = await once(child, 'close')
    if (code !== 0) throw new Error(`${args[0]} ended with ${code}: ${said().slice(-2000)}`)
    return /^edk_\S+$/m.exec(said())?.[0] ?? ''
  }
}

async function idsOf(url: string, key: string, count: number): Promise<string[]> {
  const response = await fetch(`${url}${LIST}?limit=${count}`, { headers: { 'x-api-key': key } })
  const { editais } = (await response.json()) as { editais: { id: string }[] }
  return editais.map(({ id }) => id)
}

async function until<T>(
  look: () => Promise<T | null>,
  { child, said, what }: Started & { what: string },
): Promise<T> {
  for (let waitedMs = 0; waitedMs < WITHIN_MS && child.exitCode === null; waitedMs += POLL_MS) {
    const found = await look()
    if (found !== null) return found
    await sleep(POLL_MS)
  }
  throw new Error(`${what}: ${said().slice(-2000)}`)
}
