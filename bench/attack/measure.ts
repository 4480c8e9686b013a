import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { request } from 'undici'
import { companyPaths } from '#src/store/company.ts'
import { commandOf } from '../command.ts'
import { childrenOf, rssBytes } from '../daemon/proc.ts'
import { type Health, watchHealth, watchOwnDelay } from '../daemon/watch.ts'
import { remember, run } from '../processes.ts'
import type { Attack, Attacked, AttackOrder } from './attackers.ts'

const MAIN = fileURLToPath(new URL('../../src/cli/main.js', import.meta.url))
const ATTACKERS = fileURLToPath(new URL('attackers.ts', import.meta.url))
const SAMPLE_EVERY_MS = 50
const READY_WITHIN_MS = 300_000
/** Resources not released within this time count as never released. */
const GIVEN_BACK_WITHIN_MS = 90_000
/** Connections of the health probe. */
const OWN_CONNECTIONS = 3

export type Measured = {
  /** Health checks that reuse their connections. */
  readonly health: Health
  /** Health checks that open a connection each time, as those of containers and proxies do. */
  readonly newcomers: Health
  /** Delay of the probe's own timers; milliseconds. */
  readonly askerLateMs: number
  readonly peakRssBytes: number
  /** From the attack's end until connections and bytes are released; null if they were not. */
  readonly givenBackSeconds: number | null
  readonly attacked: Attacked
}

export type Serving = {
  readonly command: (typeof SERVERS)[number]
  readonly url: string
  readonly port: number
  readonly pid: number
  readonly startedMs: number
  close(): Promise<void>
}

type Env = Readonly<Record<string, string>>

/** The commands that start them: the API server alone, and the daemon, which also serves the API. */
export const SERVERS = ['serve', 'start'] as const

/** Starts this npm script. Its log is not read any more once it has logged its address. */
export async function startServing(
  directory: string,
  env: Env,
  command: (typeof SERVERS)[number] = 'serve',
): Promise<Serving> {
  const { nodeOptions, file, args } = await commandOf(command)
  const startedMs = performance.now()
  const child = remember(
    spawn(process.execPath, [...nodeOptions, file, ...args], {
      cwd: directory,
      env: { PATH: process.env.PATH ?? '', HTTP_PORT: '0', ...env },
      stdio: ['ignore', 'ignore', 'pipe'],
    }),
  )
  const url = await addressOf(child)
  return {
    command,
    url,
    port: Number(new URL(url).port),
    pid: child.pid as number,
    startedMs,
    async close() {
      child.kill('SIGTERM')
      await once(child, 'exit')
    },
  }
}

async function addressOf(child: ChildProcess): Promise<string> {
  let text = ''
  for await (const chunk of child.stderr?.iterator({ destroyOnReturn: false }) ?? []) {
    text += chunk
    const [, url] = /Listening on (http:\S+?);/.exec(text) ?? []
    if (!url) continue
    child.stderr?.pause()
    return url
  }
  throw new Error(`The server exited: ${text}`)
}

/** Resolves when this key's company is served, to the seconds since the start. */
export async function served({ url, startedMs }: Serving, key: string): Promise<number> {
  for (;;) {
    const { statusCode, body } = await request(`${url}/api/v1/editais?limit=1`, {
      headers: { 'x-api-key': key },
    })
    await body.dump()
    const tookMs = performance.now() - startedMs
    if (statusCode === 200) return tookMs / 1000
    if (tookMs > READY_WITHIN_MS)
      throw new Error(`${url} did not serve the company within ${READY_WITHIN_MS / 1000} s`)
    await sleep(20)
  }
}

/** One attack on a server while health checks run. */
export async function underAttack(
  serving: Serving,
  order: Omit<AttackOrder, 'port'>,
  directory: string,
): Promise<Measured> {
  const memory = watchMemory(serving.pid)
  const [health, newcomers] = [watchHealth(serving), watchHealth(serving, 'new')]
  const late = watchOwnDelay()
  const argument = JSON.stringify({ ...order, port: serving.port } satisfies AttackOrder)
  const { stdout } = await run(ATTACKERS, [argument], { cwd: directory })
  const endedMs = performance.now()
  const measured = {
    health: await health.end(),
    newcomers: await newcomers.end(),
    askerLateMs: late.end(),
  }
  const givenBackSeconds = await givenBack(serving, endedMs)
  return { ...measured, givenBackSeconds, peakRssBytes: memory.end(), attacked: JSON.parse(stdout) }
}

function watchMemory(pid: number): { end(): number } {
  let peak = rssBytes(pid)
  const timer = setInterval(() => {
    peak = Math.max(peak, rssBytes(pid))
  }, SAMPLE_EVERY_MS)
  return {
    end() {
      clearInterval(timer)
      return peak
    },
  }
}

async function givenBack({ url }: Serving, endedMs: number): Promise<number | null> {
  while (performance.now() - endedMs < GIVEN_BACK_WITHIN_MS) {
    const { body } = await request(`${url}/metrics`)
    const text = await body.text()
    const value = (name: string) => Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1])
    const connections = value('editais_http_connections')
    if (connections <= OWN_CONNECTIONS && value('editais_http_unread_bytes') === 0)
      return (performance.now() - endedMs) / 1000
    await sleep(100)
  }
  return null
}

/** Many companies prepared at once, and the time of a restart afterwards. */
export type Crowd = {
  readonly companies: number
  readonly processes: number
  readonly peakRssBytes: number
  readonly serverPeakRssBytes: number
  readonly firstSeconds: number
  readonly allSeconds: number
  readonly restartSeconds: number
}

/** Copies one company's lake for each of them, so that the server must prepare all. */
export async function measureCrowd(
  companies: number,
  { from, directory }: { from: string; directory: string },
): Promise<Crowd> {
  const dataDir = join(directory, 'crowd')
  const keys: string[] = []
  await mkdir(dataDir)
  for (let n = 0; n < companies; n += 1) {
    const slug = `company-${n}`
    const { root, lake } = companyPaths(dataDir, slug)
    await mkdir(root, { mode: 0o711 })
    await cp(from, lake, { recursive: true, verbatimSymlinks: true })
    const env = { DATA_DIR: dataDir, COMPANY: slug }
    const created = await run(MAIN, ['keys', 'create', '--description', 'bench'], { cwd: directory, env })
    keys.push(created.stdout.trim())
  }
  const first = await prepare(directory, dataDir, keys)
  const again = await prepare(directory, dataDir, keys)
  return { companies, ...first, restartSeconds: again.allSeconds }
}

async function prepare(
  directory: string,
  dataDir: string,
  keys: readonly string[],
): Promise<Omit<Crowd, 'companies' | 'restartSeconds'>> {
  const serving = await startServing(directory, { DATA_DIR: dataDir })
  let [processes, peakRssBytes, serverPeakRssBytes] = [0, 0, 0]
  const timer = setInterval(() => {
    const builders = childrenOf(serving.pid).map(rssBytes)
    const own = rssBytes(serving.pid)
    processes = Math.max(processes, builders.filter(bytes => bytes > 0).length)
    serverPeakRssBytes = Math.max(serverPeakRssBytes, own)
    peakRssBytes = Math.max(
      peakRssBytes,
      builders.reduce((sum, bytes) => sum + bytes, own),
    )
  }, SAMPLE_EVERY_MS)
  try {
    const ready = await Promise.all(keys.map(key => served(serving, key)))
    const seconds = { firstSeconds: Math.min(...ready), allSeconds: Math.max(...ready) }
    return { ...seconds, processes, peakRssBytes, serverPeakRssBytes }
  } finally {
    clearInterval(timer)
    await serving.close()
  }
}

/** Peak memory of a process since its start. */
export async function peakRss(pid: number): Promise<number> {
  const [, kilobytes] = /VmHWM:\s+(\d+) kB/.exec(await readFile(`/proc/${pid}/status`, 'utf8')) ?? []
  return Number(kilobytes) * 1024
}

export type Attacks = Readonly<Record<Attack, Measured>>

/** Results of one server under all attacks, one after another. */
export type Server = {
  readonly attacks: Attacks
  /** Over all attacks. */
  readonly peakRssBytes: number
}
