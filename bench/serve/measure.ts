import { fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { openSync, readFileSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { request } from 'undici'
import { commandOf } from '../command.ts'
import { childrenOf, rssBytes } from '../daemon/proc.ts'
import { remember, run, type Server } from '../processes.ts'
import type { Load, Loaded } from './clients.ts'
import { searchPaths } from './searches.ts'

const MAIN = fileURLToPath(new URL('../../src/cli/main.js', import.meta.url))
const CLIENTS = fileURLToPath(new URL('clients.ts', import.meta.url))
const FLOOR = fileURLToPath(new URL('floor.ts', import.meta.url))
const PAGE = 200
/** Events of one answer of the feed. */
export const EVENTS = 200
const READY_WITHIN_MS = 300_000

/** The kinds of requests. */
export const KINDS = ['page', 'page, gzip', 'notice', 'analysis', 'search', 'export', 'changes'] as const
export type Kind = (typeof KINDS)[number]

/** Clients of kinds for which the bars name a number. */
const CLIENTS_OF: Partial<Record<Kind, number>> = { search: 20, export: 1 }

/** Results of the mirror, and of the floor with bodies of the same size. */
export type Side = { readonly served: Loaded; readonly floor: Loaded; readonly bodyBytes: number }

export type Measured = {
  readonly kinds: Readonly<Record<Kind, Side>>
  /** From the server's start to its first answer. */
  readonly readySeconds: number
  /** Peak memory of the server, and of the process that prepares a snapshot for it. */
  readonly peakRssBytes: number
  readonly builderRssBytes: number
}

export type MeasureOptions = {
  readonly server: Server
  readonly notices: number
  readonly apiKey: string
  /** An empty directory for everything that is written. */
  readonly directory: string
  readonly clients: number
  readonly seconds: number
  readonly onStep: (step: string) => void
}

/** Makes a full sync, then serves it to clients on the same machine. */
export async function measureServe(options: MeasureOptions): Promise<Measured> {
  const { server, apiKey, directory, onStep } = options
  const env = {
    API_BASE_URL: server.url,
    API_KEY: apiKey,
    COMPANY: 'bench',
    DATA_DIR: join(directory, 'data'),
    HTTP_PORT: '0',
    TMPDIR: join(directory, 'tmp'),
  }
  await mkdir(env.TMPDIR)
  onStep('full sync')
  await run(MAIN, ['sync', '--full'], { cwd: directory, env: { ...env, LOG_LEVEL: 'error' } })
  const created = await run(MAIN, ['keys', 'create', '--description', 'bench'], { cwd: directory, env })
  onStep('start')
  const served = await startServing(directory, env, created.stdout.trim())
  const kinds: Partial<Record<Kind, Side>> = {}
  for (const kind of KINDS) {
    onStep(`${kind}, ${CLIENTS_OF[kind] ?? options.clients} clients`)
    kinds[kind] = await measureKind(kind, served, options)
  }
  const peakRssBytes = peakRss(served.pid)
  await served.close()
  return { kinds: kinds as Measured['kinds'], peakRssBytes, ...served.about }
}

type Serving = {
  readonly url: string
  readonly key: string
  readonly pid: number
  readonly about: Pick<Measured, 'readySeconds' | 'builderRssBytes'>
  close(): Promise<void>
}

async function startServing(
  directory: string,
  env: Readonly<Record<string, string>>,
  key: string,
): Promise<Serving> {
  const logPath = join(directory, 'serve.log')
  const startedMs = performance.now()
  const log = openSync(logPath, 'w')
  const { nodeOptions, file, args } = await commandOf('serve')
  const child = remember(
    spawn(process.execPath, [...nodeOptions, file, ...args], {
      cwd: directory,
      env: { PATH: process.env.PATH ?? '', ...env },
      stdio: ['ignore', 'ignore', log],
    }),
  )
  const pid = child.pid as number
  let builderRssBytes = 0
  for (;;) {
    if (child.exitCode !== null) throw new Error(`serve exited: ${readFileSync(logPath, 'utf8')}`)
    if (performance.now() - startedMs > READY_WITHIN_MS)
      throw new Error(`serve did not answer within ${READY_WITHIN_MS / 1000} s`)
    for (const builder of childrenOf(pid)) builderRssBytes = Math.max(builderRssBytes, rssBytes(builder))
    const url = /http:\S+?(?=;)/.exec(readFileSync(logPath, 'utf8'))?.[0]
    if (url && (await isReady(url, key))) {
      const readySeconds = (performance.now() - startedMs) / 1000
      const close = async () => {
        child.kill('SIGTERM')
        await once(child, 'exit')
      }
      return { url, key, pid, about: { readySeconds, builderRssBytes }, close }
    }
    await sleep(20)
  }
}

async function isReady(url: string, key: string): Promise<boolean> {
  const { statusCode, body } = await request(`${url}/api/v1/editais?limit=1`, {
    headers: { 'x-api-key': key },
  })
  await body.dump()
  return statusCode === 200
}

async function measureKind(
  kind: Kind,
  { url, key }: Serving,
  { notices, seconds, directory, ...options }: MeasureOptions,
): Promise<Side> {
  const clients = CLIENTS_OF[kind] ?? options.clients
  const paths = await pathsOf(kind, { url, key, notices })
  const gzip = kind === 'page, gzip'
  const load = async (at: string) => {
    const order: Load = { url: at, key, paths, clients, seconds, gzip }
    return JSON.parse((await run(CLIENTS, [JSON.stringify(order)], { cwd: directory })).stdout) as Loaded
  }
  const served = await load(url)
  const bodyBytes = Math.round(served.bytes / served.requests)
  const floor = remember(fork(FLOOR, [String(bodyBytes)]))
  const [port] = await once(floor, 'message')
  const least = await load(`http://127.0.0.1:${port}`)
  floor.disconnect()
  await once(floor, 'exit')
  return { served, floor: least, bodyBytes }
}

/** Every page, or some hundred notices from all over the list. */
async function pathsOf(
  kind: Kind,
  { url, key, notices }: { url: string; key: string; notices: number },
): Promise<string[]> {
  if (kind === 'search') return searchPaths()
  if (kind === 'export') return ['/api/v1/mirror/export.ndjson?what=both']
  if (kind === 'changes') return await pathsOfChanges(url, key)
  const pages = Array.from(
    { length: Math.ceil(notices / PAGE) },
    (_, n) => `/api/v1/editais?limit=${PAGE}&offset=${n * PAGE}`,
  )
  if (kind.startsWith('page')) return pages
  const ids: string[] = []
  for (const path of pages) {
    const { body } = await request(`${url}${path}`, { headers: { 'x-api-key': key } })
    const { editais } = (await body.json()) as { editais: { id: string }[] }
    ids.push(...editais.slice(0, 5).map(({ id }) => id))
  }
  return ids.map(id => `/api/v1/editais/${id}${kind === 'analysis' ? '/analysis' : ''}`)
}

/** Every answer of the feed that is full, from the beginning of the log. */
async function pathsOfChanges(url: string, key: string): Promise<string[]> {
  const paths: string[] = []
  for (let path = `/api/v1/mirror/changes?limit=${EVENTS}`; ; ) {
    const { statusCode, body } = await request(`${url}${path}`, { headers: { 'x-api-key': key } })
    const page = (await body.json()) as { next: string; has_more: boolean }
    // Its index is being made.
    if (statusCode === 503) {
      await sleep(500)
      continue
    }
    if (!page.has_more) return paths
    paths.push(path)
    path = `/api/v1/mirror/changes?limit=${EVENTS}&since=${page.next}`
  }
}

function peakRss(pid: number): number {
  const [, kilobytes] = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
  return Number(kilobytes) * 1024
}
