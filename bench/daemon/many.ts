import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { childrenOf } from '#tools/proc.ts'
import { companiesOf, startApi } from '../company/api.ts'
import { type Place, placeOfAll, runAt } from '../company/place.ts'
import { type Figure, figure, median, megabytes, most } from '../frame/figures.ts'
import type { Bench } from '../frame/situation.ts'
import { watchHealth, watchMemory } from '../processes/watch.ts'
import { signal, startWorker, type Worker } from '../processes/worker.ts'
import { untilRun } from './crowd.ts'

/** Keeps runs as short as possible: this measures the worker. */
const FEW_NOTICES = 3
const KILL_EVERY_MS = 50
/** An alert about the file waits until all workers can have read it; alerts are checked every half minute. */
const NAMED_WITHIN_MS = 120_000

/** The reasons that `status` gives for a broken entry, a missing key and killed runs. */
const REASONS = [/API_TIMEOUT_MS=soon/, /cannot be read: ENOENT/, /died \(SIGKILL\)/] as const

/** Many companies in one file, three of them failing, on one worker. */
export async function measureMany(
  bench: Bench,
  { companies: count, seed }: { readonly companies: number; readonly seed: string },
  redisUrl: string,
): Promise<Figure[]> {
  bench.step('generating many companies')
  const companies = companiesOf(count, { notices: FEW_NOTICES, seed })
  const api = await startApi(companies)
  const settings = { API_BASE_URL: api.url, REDIS_URL: redisUrl, REDIS_PREFIX: 'many' }
  const place = await placeOfAll(await bench.folder('many'), companies, settings)
  const slugs = companies.map(({ slug }) => slug)
  const [troubled, good] = [slugs.slice(0, REASONS.length), slugs.slice(REASONS.length)]
  const [broken = '', keyless = '', killed = ''] = troubled
  await makeTrouble(place, broken, keyless)
  bench.step(`${count} companies, three of them failing`)
  const fromMs = Date.now()
  const worker = await startWorker(place)
  const [health, memory] = [watchHealth(worker.url), watchMemory(worker.pid)]
  const killing = killRunsOf(worker, killed)
  await untilRun([worker], good, 1)
  const ended = worker.log.runs.filter(({ company }) => good.includes(company))
  const waits = ended.map(({ finished_at }) => (Date.parse(finished_at ?? '') - fromMs) / 1000)
  const { p99 } = await health.end()
  const { ownBytes } = memory.end()
  bench.step('waiting until the three are reported')
  const { metrics, seconds } = await untilNamed(worker, troubled)
  let unnamed = 0
  for (const [n, slug] of troubled.entries())
    if (!isNamed(metrics, slug) || !REASONS[n]?.test(await statusOf(place, slug))) unnamed += 1
  killing.abort()
  await worker.stop()
  await api.close()
  const others = alertsIn(metrics).filter(slug => !troubled.includes(slug)).length
  const label = 'many companies, three failing: all others have run, s'
  return [
    figure('many_seconds', label, 1, Math.max(...waits)),
    figure('many_median_seconds', '  half of them, s', 1, median(waits)),
    figure(
      'many_unnamed',
      '  of the three, not reported by status, /metrics and one alert',
      0,
      unnamed,
      most(0),
    ),
    figure('many_others_alerted', '  others with an alert', 0, others, most(0)),
    figure('many_metrics_seconds', '  /metrics, s', 2, seconds),
    figure('many_health_p99_ms', '  /healthz: p99, ms', 1, p99),
    figure('many_daemon_peak_rss_megabytes', '  peak RSS of the daemon alone, MB', 0, megabytes(ownBytes)),
  ]
}

/** Breaks the entry of one company, and takes the key of another one away. */
async function makeTrouble({ directory, env }: Place, broken: string, keyless: string): Promise<void> {
  const file = env.COMPANIES_FILE as string
  const text = await readFile(file, 'utf8')
  await writeFile(file, text.replace(`  ${broken}: {`, `  ${broken}: { api_timeout_ms: soon,`))
  await rm(join(directory, 'keys', keyless))
}

function killRunsOf(worker: Worker, company: string): AbortController {
  const ending = new AbortController()
  const look = async () => {
    for (; !ending.signal.aborted; await sleep(KILL_EVERY_MS)) {
      for (const pid of childrenOf(worker.pid)) {
        const environment = await readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '')
        if (environment.split('\0').includes(`COMPANY=${company}`)) signal(pid, 'SIGKILL')
      }
    }
  }
  void look()
  return ending
}

/** Waits for an answer of /metrics that reports all of them, at most some time. @returns the last answer, and its time. */
async function untilNamed(worker: Worker, troubled: readonly string[]) {
  const deadlineMs = Date.now() + NAMED_WITHIN_MS
  for (;;) {
    const fromMs = performance.now()
    const metrics = await worker.metrics()
    const seconds = (performance.now() - fromMs) / 1000
    const isDone = troubled.every(slug => isNamed(metrics, slug))
    if (isDone || Date.now() > deadlineMs) return { metrics, seconds }
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

/** Returns the text that `status` prints, also for a company without a snapshot, for which it fails. */
async function statusOf(place: Place, slug: string): Promise<string> {
  return await runAt(place, 'status', ['--company', slug]).then(
    ({ stdout }) => stdout,
    (error: Error) => error.message,
  )
}
