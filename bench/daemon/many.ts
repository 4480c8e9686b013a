import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { commandOf } from '../command.ts'
import { run, type Server } from '../processes.ts'
import type { Configured, Place } from './place.ts'
import { childrenOf } from './proc.ts'
import { type Health, type Memory, watchHealth, watchMemory } from './watch.ts'
import { startWorker, type Worker } from './worker.ts'

/** One has a broken entry, one has no key, the runs of one are killed; all others are healthy. */
const TROUBLED = ['broken', 'keyless', 'killed'] as const
type Troubled = (typeof TROUBLED)[number]

const KILL_EVERY_MS = 50
/** An alert about the file waits until all workers can have read it; alerts are checked every half minute. */
const NAMED_WITHIN_MS = 120_000

/** Many companies in one file, three of them failing, on one worker. */
export type Many = {
  readonly companies: number
  /** From the start of the worker to the end of the last healthy company's first run. */
  readonly seconds: number
  /** From the start to the end of each healthy company's first run. */
  readonly waits: readonly number[]
  /** Those of the three that `status`, /metrics and exactly one alert report. */
  readonly named: readonly string[]
  /** Other companies with an alert. */
  readonly others: number
  readonly metricsSeconds: number
  readonly health: Health
  readonly memory: Memory
}

export async function measureMany(options: {
  server: Server
  companies: readonly Configured[]
  place: Place
  onStep: (step: string) => void
}): Promise<Many> {
  const { companies, place, onStep } = options
  await makeTrouble(place, companies)
  const [broken, keyless, killed, ...good] = companies.map(({ slug }) => slug) as [string, string, string]
  onStep(`${companies.length} companies, three of them failing`)
  const fromMs = Date.now()
  const worker = await startWorker(place)
  const health = watchHealth(worker)
  const memory = watchMemory(worker)
  const killing = killRunsOf(worker, killed)
  await untilAllRan(worker, good)
  const ended = worker.runs.filter(({ company }) => (good as readonly string[]).includes(company))
  const waits = ended.map(({ finished_at }) => (Date.parse(finished_at ?? '') - fromMs) / 1000)
  const measured = { health: await health.end(), memory: memory.end() }
  onStep('waiting until the three are reported')
  const troubled = { broken, keyless, killed }
  const metricsSeconds = await untilNamed(worker, troubled)
  const metrics = await worker.metrics()
  const named: string[] = []
  for (const [how, slug] of Object.entries(troubled)) {
    if (isNamed(metrics, slug) && (await statusNames(place, how as Troubled, slug))) named.push(how)
  }
  killing.abort()
  await worker.stop()
  const alerted = alertsIn(metrics).filter(slug => !Object.values(troubled).includes(slug))
  return {
    ...measured,
    companies: companies.length,
    seconds: Math.max(...waits),
    waits,
    named,
    metricsSeconds,
    others: alerted.length,
  }
}

/** Breaks the first two of the companies; the runs of the third are killed later. */
async function makeTrouble(place: Place, companies: readonly Configured[]): Promise<void> {
  const [broken, keyless] = companies as [Configured, Configured]
  const file = join(place.directory, 'companies.yaml')
  const text = await readFile(file, 'utf8')
  await writeFile(file, text.replace(`  ${broken.slug}: {`, `  ${broken.slug}: { api_timeout_ms: soon,`))
  await rm(join(place.directory, 'keys', keyless.slug))
}

async function untilAllRan(worker: Worker, good: readonly string[]): Promise<void> {
  for (const left = new Set(good); left.size > 0; ) {
    for (const { company, status, error } of worker.runs) {
      if (status !== 'ok') throw new Error(`The run of ${company} ended with ${status}: ${error}`)
      left.delete(company)
    }
    if (left.size > 0) await worker.next()
  }
}

function killRunsOf(worker: Worker, company: string): AbortController {
  const ending = new AbortController()
  const look = async () => {
    for (; !ending.signal.aborted; await sleep(KILL_EVERY_MS)) {
      for (const pid of childrenOf(worker.pid)) {
        const environment = await readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '')
        if (!environment.split('\0').includes(`COMPANY=${company}`)) continue
        try {
          process.kill(pid, 'SIGKILL')
        } catch {
          // It has just ended.
        }
      }
    }
  }
  void look()
  return ending
}

/** @returns the time in seconds of the /metrics answer that reports all of them, or else of the last answer. */
async function untilNamed(worker: Worker, troubled: Readonly<Record<Troubled, string>>): Promise<number> {
  const deadlineMs = Date.now() + NAMED_WITHIN_MS
  for (;;) {
    const fromMs = performance.now()
    const text = await worker.metrics()
    const seconds = (performance.now() - fromMs) / 1000
    const isDone = Object.values(troubled).every(slug => isNamed(text, slug))
    if (isDone || Date.now() > deadlineMs) return seconds
    await sleep(1000)
  }
}

/** True if exactly one alert and its own gauge report the company. */
function isNamed(metrics: string, slug: string): boolean {
  const isOnce = alertsIn(metrics).filter(company => company === slug).length === 1
  const gauge = `(editais_entry_broken\\{company="${slug}"|editais_last_run_status\\{company="${slug}",status="failed")\\} 1`
  return isOnce && new RegExp(`^${gauge}$`, 'm').test(metrics)
}

/** Companies with alerts, once per alert. */
function alertsIn(metrics: string): string[] {
  return [...metrics.matchAll(/^editais_alerts\{alert="\w+",company="([^"]+)"\} (\d+)$/gm)].flatMap(
    ([, company = '', count]) => Array.from({ length: Number(count) }, () => company),
  )
}

const REASONS: Readonly<Record<Troubled, RegExp>> = {
  broken: /API_TIMEOUT_MS=soon/,
  keyless: /cannot be read: ENOENT/,
  killed: /died \(SIGKILL\)/,
}

async function statusNames(place: Place, how: Troubled, slug: string): Promise<boolean> {
  const { nodeOptions, file, args } = await commandOf('status')
  const about = { cwd: place.directory, env: place.env, nodeOptions }
  // For a company without a snapshot the command fails, but prints the same.
  const output = await run(file, [...args, '--company', slug], about).then(
    ({ stdout }) => stdout,
    (error: Error) => error.message,
  )
  return REASONS[how].test(output)
}
