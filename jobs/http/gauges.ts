import { readFileSync } from 'node:fs'
import { readFile, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { Gauge, type Registry } from 'prom-client'
import type { CompanyRegistry } from '#jobs/queues/company_registry.ts'
import type { Queues } from '#jobs/queues/queue.ts'
import { fromRedis } from '#jobs/queues/redis.ts'
import type { Slots } from '#jobs/queues/slots.ts'
import type { Alerts } from '../alerts/alerts.ts'

const NOW = 'Of this worker, now: sum over the workers.'
const EACH = 'Of each worker.'
const SAME = 'Here every worker shows the same, so take the max over them.'
const REDIS_WITHIN_MS = 1000
/** The size of a memory page, the unit of statm in Linux; the same on everything that Node runs on. */
const PAGE_BYTES = 4096

export type Watched = {
  readonly registry: Pick<CompanyRegistry, 'companies'> & Partial<Pick<CompanyRegistry, 'problem' | 'broken'>>
  readonly redis: Queues['redis']
  /** Why Redis cannot be used, even if it answers. */
  readonly redisProblem: Queues['problem']
  readonly slots?: Slots
  readonly concurrency?: number
  readonly alerts?: Pick<Alerts, 'active'>
}

/** Gauges of the worker itself, and of what it depends on. @returns a function that updates them. */
export function createWorkerGauges(registry: Registry, watched: Watched): () => Promise<void> {
  const gauges = define(registry)
  gauges.version.set({ version: versionOfProgram() }, 1)
  return async () => {
    const [memory, disks, raised] = await Promise.all([
      memoryOf(watched.slots ?? new Set()),
      disksOf(watched.registry),
      alertsOf(watched),
    ])
    // No await from here on: one of two concurrent scrapes must not see gauges that the other has just reset.
    showConfiguration(gauges, watched)
    showSlots(gauges, watched, memory)
    gauges.redis.set(watched.redis.status === 'ready' && watched.redisProblem() === null ? 1 : 0)
    gauges.alerts.reset()
    for (const { name, company } of raised) gauges.alerts.inc({ alert: name, company: company ?? '' })
    gauges.diskFree.reset()
    gauges.diskSize.reset()
    for (const { directory, freeBytes, bytes } of disks) {
      gauges.diskFree.set({ directory }, freeBytes)
      gauges.diskSize.set({ directory }, bytes)
    }
  }
}

type Gauges = ReturnType<typeof define>

function define(registry: Registry) {
  const gauge = (name: string, help: string, labelNames: string[] = []) =>
    new Gauge({ name, help, labelNames, registers: [registry] })
  return {
    version: gauge('editais_build_info', `1, with the version of the program. ${EACH}`, ['version']),
    redis: gauge('editais_redis_up', `1 while Redis is connected and can be used, 0 otherwise. ${EACH}`),
    configuration: gauge(
      'editais_configuration_ok',
      `1 if the whole companies' file can be used, 0 if it or an entry is broken. ${EACH}`,
    ),
    broken: gauge(
      'editais_entry_broken',
      `1 for a company whose entry in the companies' file cannot be used, 0 for the others. ${EACH}`,
      ['company'],
    ),
    slots: gauge('editais_slots', `Limit of concurrent runs (WORKER_CONCURRENCY). ${NOW}`),
    slotsUsed: gauge('editais_slots_used', `Runs under way. ${NOW}`),
    started: gauge(
      'editais_run_started_timestamp_seconds',
      `When the company's current run began; absent without one. ${NOW}`,
      ['company'],
    ),
    memory: gauge(
      'editais_run_memory_bytes',
      `Resident memory of the company's current run; absent without one, and outside Linux. ${NOW}`,
      ['company'],
    ),
    alerts: gauge(
      'editais_alerts',
      `Raised alerts by name and company; the company is empty if the alert concerns none. Absent while Redis is away. ${SAME}`,
      ['alert', 'company'],
    ),
    diskFree: gauge(
      'editais_disk_free_bytes',
      `Space on the file system of DATA_DIR that this user may still use. ${SAME}`,
      ['directory'],
    ),
    diskSize: gauge('editais_disk_size_bytes', `Size of the file system of DATA_DIR. ${SAME}`, ['directory']),
  }
}

function showConfiguration({ configuration, broken }: Gauges, { registry }: Watched): void {
  const { companies, problem = null, broken: entries = new Map<string, string>() } = registry
  configuration.set(problem === null && entries.size === 0 ? 1 : 0)
  broken.reset()
  for (const company of [...companies.keys(), ...entries.keys()]) {
    broken.set({ company }, entries.has(company) ? 1 : 0)
  }
}

function showSlots(gauges: Gauges, watched: Watched, memory: ReadonlyMap<string, number>): void {
  const { slots = new Set(), concurrency = 0 } = watched
  gauges.slots.set(concurrency)
  gauges.slotsUsed.set(slots.size)
  gauges.started.reset()
  for (const { company, sinceMs } of slots) gauges.started.set({ company }, sinceMs / 1000)
  gauges.memory.reset()
  for (const [company, bytes] of memory) gauges.memory.set({ company }, bytes)
}

/** Returns the resident bytes of each run, by company. */
async function memoryOf(slots: Slots): Promise<ReadonlyMap<string, number>> {
  const found = await Promise.all(
    [...slots].map(async ({ company, pid }) => {
      const text = pid === null ? '' : await readFile(`/proc/${pid}/statm`, 'utf8').catch(() => '')
      return [company, Number(text.split(' ')[1] ?? 0) * PAGE_BYTES] as const
    }),
  )
  return new Map(found.filter(([, bytes]) => bytes > 0))
}

async function disksOf({ companies }: Watched['registry']) {
  const directories = new Set([...companies.values()].map(({ settings }) => settings.dataDir))
  const found = await Promise.all(
    [...directories].map(async directory => {
      const space = await statfs(directory).catch(() => null)
      if (space === null) return null
      return { directory, freeBytes: space.bavail * space.bsize, bytes: space.blocks * space.bsize }
    }),
  )
  return found.filter(disk => disk !== null)
}

async function alertsOf({ redis, alerts }: Watched) {
  if (!alerts) return []
  return await fromRedis(redis, REDIS_WITHIN_MS, () => alerts.active()).catch(() => [])
}

function versionOfProgram(): string {
  const path = join(import.meta.dirname, '../../package.json')
  return (JSON.parse(readFileSync(path, 'utf8')) as { version: string }).version
}
