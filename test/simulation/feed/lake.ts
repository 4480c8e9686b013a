import pino from 'pino'
import { type Environment, readSettings } from '#config/settings.ts'
import { type Alerts, createAlerts, judgeStore } from '#jobs/alerts/alerts.ts'
import type { Company } from '#jobs/queues/company_registry.ts'
import type { CompanyPaths } from '#src/core/company/company.ts'
import { requireLatest } from '#src/core/lake/manifest.ts'
import { workUntimed } from '#src/core/pipeline/request.ts'
import { publishLatest } from '#src/extras/object_store/remote_lake.ts'
import { hasContent, readRemoteState } from '#src/extras/object_store/state.ts'
import { RemoteError } from '#src/lib/objects/objects.ts'
import { publishBehind } from '#src/operate/extras.ts'
import { KEY } from '../alter.ts'
import { MemoryRedis } from '../memory_redis.ts'
import { checkReadable, type LocalSnapshots, latestOf, rememberLocal } from '../remote/check.ts'
import { inNoTime, openStore, type SimulatedStore, type StoreFaults } from '../remote/store.ts'
import type { Clock } from './history.ts'
import type { Receiver } from './receiver.ts'

const HOUR_MS = 3_600_000
const PREFIX = 'simulated'

type Parts = { readonly paths: CompanyPaths; readonly clock: Clock; readonly receiver: Receiver }

/** The lake of a company in an object store, and the alert about it. */
export class RemoteLake {
  readonly #parts: Parts
  readonly #store: SimulatedStore
  readonly #environment: Environment
  readonly #redis = new MemoryRedis()
  readonly #alerts: Alerts
  readonly #local: LocalSnapshots = new Map()

  private constructor(parts: Parts, store: SimulatedStore, environment: Environment) {
    const { clock, receiver } = parts
    this.#parts = parts
    this.#store = store
    this.#environment = environment
    this.#alerts = createAlerts({
      ...{ redis: this.#redis.client, prefix: PREFIX, log: pino({ level: 'silent' }) },
      settings: {
        routes: [{ to: 'webhook', severities: ['critical', 'warning'], webhookUrl: `${receiver.url}/alert` }],
        repeatMs: 12 * HOUR_MS,
      },
      now: () => new Date(clock.nowMs),
    })
  }

  /** Null in most worlds. */
  static async open(seed: string, place: string, parts: Parts): Promise<RemoteLake | null> {
    const store = await openStore(`feed ${seed}`, place, () => new Date(parts.clock.nowMs))
    if (store === null) return null
    const own = { API_BASE_URL: 'http://127.0.0.1:9', API_KEY: KEY, DATA_DIR: place, COMPANY: 'acme' }
    return new RemoteLake(parts, store, { ...own, ...store.environment })
  }

  /**
   * As after a run, or at a tick of the schedule: what the store refuses is remembered.
   * @param aheadMs how wrong the clock is meanwhile.
   */
  async publish(faults: StoreFaults, aheadMs = 0): Promise<void> {
    const { paths, clock } = this.#parts
    this.#store.faults = faults
    const { signal } = new AbortController()
    const settings = inNoTime(readSettings(this.#environment))
    const now = () => new Date(clock.nowMs + aheadMs)
    rememberLocal(paths, this.#local)
    await publishBehind(
      { paths, settings, now, signal, inStage: workUntimed },
      { progress() {}, note() {} },
      { what: 'publish', waitSeconds: 0 },
    ).catch(error => {
      if (!(error instanceof RemoteError)) throw error
    })
    this.#store.faults = 'none'
    rememberLocal(paths, this.#local)
    await checkReadable(this.#store, this.#local)
    // It needs no more of a company.
    const company = { slug: 'acme', settings, paths } as Company
    await judgeStore(this.#alerts, company)
    await this.#alerts.deliver()
  }

  /**
   * A store that has another log's data refuses this log's until somebody says that this one is right: does what its message says.
   * @returns whether it did.
   */
  async obey(): Promise<boolean> {
    const { paths, clock } = this.#parts
    const { error = null } = (await readRemoteState(paths.remote)) ?? {}
    const { remoteLake } = inNoTime(readSettings(this.#environment))
    if (remoteLake === null || !error?.includes('lake publish --new-log')) return false
    const { signal } = new AbortController()
    const now = () => new Date(clock.nowMs)
    await publishLatest({ settings: remoteLake, paths, now, signal, isThorough: true, isNewLog: true })
    return true
  }

  /** Returns what the object store waits for; null if it is in step. */
  async behind(): Promise<string | null> {
    const { paths } = this.#parts
    const latest = latestOf(this.#store)
    const { error = null } = (await readRemoteState(paths.remote)) ?? {}
    const manifest = await requireLatest(paths.lake)
    if (latest && latest.pending === null && hasContent(latest, manifest) && error === null) return null
    return `the object store has ${latest?.snapshot}, and the lake ${manifest.snapshot}${error ? `: ${error}` : ''}`
  }

  /** What its alerts wait for; null if none is raised, and the receiver knows. */
  async alarmed(): Promise<string | null> {
    const alerts = Object.keys(await this.#redis.hgetall(`${PREFIX}:alerts`))
    return alerts.length === 0 ? null : `these alerts do not end: ${alerts}`
  }

  close(): void {
    this.#store.close()
  }
}
