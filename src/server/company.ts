import { rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Logger } from 'pino'
import { type Manifest, readLatestName, readManifest, snapshotsDirectory } from '#src/core/lake/manifest.ts'
import { getMessage } from '#src/lib/errors.ts'
import type { S3Settings } from '#src/lib/objects/objects.ts'
import { formatMoment } from '#src/present/text/format.ts'
import type { Builders } from './builders.ts'
import { Refusal } from './contract/source.ts'
import { type BringUp, Feed } from './feed/feed.ts'
import { KeptSnapshots, type PageCache } from './page_cache.ts'
import { MonthStore, type PreparedMonth } from './prepared_month.ts'
import { listMonths, type Month, makeFeedSnapshot, ServedSnapshot } from './snapshot.ts'

/** How often the link to the latest snapshot is read. */
const LOOK_EVERY_MS = 250
/** Delay before a snapshot that could not be prepared is retried: first this, then doubled up to the maximum. */
const RETRY_AFTER_MS = { first: 5000, most: 300_000 }
/** Memory for replaced snapshots: this many times that for cached pages, which the companies also share. */
const KEPT_PER_PAGES = 4

export type Sources = {
  /** Returns the directory of a company's snapshots. */
  readonly findLake: (company: string) => string
  /** Returns the store in which hosts share its raw log; null if they do not. */
  readonly findLog: (company: string) => S3Settings | null
}

type Options = Sources & {
  readonly log: Logger
  readonly pages: PageCache
  readonly builders: Builders
  readonly bringUp: BringUp
  /** The directory of prepared months; null for the usual one, beside the lake. */
  readonly monthsIn?: string | null
  /** Called when a new snapshot is served. */
  readonly onPublish: (company: string) => void
  readonly now: () => Date
}

/**
 * A company's latest snapshot, ready to be served; a new one replaces it once it is prepared. Months whose files
 * have not changed are reused, from memory or from disk.
 */
export class ServedCompany {
  readonly #company: string
  readonly #options: Options
  readonly #store: MonthStore
  /** Its changes, up to the snapshot that is served. */
  readonly feed: Feed
  readonly #stop = new AbortController()
  #months: ReadonlyMap<string, PreparedMonth> = new Map()
  /** Keys of months that can no longer be read; they are built again. */
  readonly #damaged = new Set<string>()
  #current: ServedSnapshot | null = null
  /** Replaced snapshots that clients are reading. */
  readonly #kept = new KeptSnapshots()
  /** Why the latest snapshot is not the current one; null if it is, or is being prepared. */
  #problem: string | null = null
  /** When the latest snapshot could not be served for the first time since it appeared. */
  #failingSince: Date | null = null
  #failures = 0
  #preparing = false
  #timer: NodeJS.Timeout | null = null
  #looking: Promise<void> | null = null

  constructor(company: string, options: Options) {
    this.#company = company
    this.#options = { ...options, log: options.log.child({ company }) }
    // Beside the lake: it is as large as the lake, and the system's temporary directory may be small or in memory.
    const root = dirname(options.findLake(company))
    this.#store = new MonthStore(options.monthsIn ?? join(root, 'mirror'))
    const settings = options.findLog(company)
    const shared = settings && { settings, company }
    this.feed = new Feed({ root, shared, log: this.#options.log, bringUp: options.bringUp })
  }

  /** Returns the snapshot that is served. @throws Refusal (503) with the reason if there is none yet. */
  get current(): ServedSnapshot {
    if (this.#current) return this.#current
    if (this.#problem)
      throw new Refusal(
        503,
        'The snapshot of this company cannot be served. The server log has the reason.',
        60,
      )
    throw new Refusal(
      503,
      this.#preparing
        ? 'The snapshot of this company is being prepared. Try again in a moment.'
        : 'There is no snapshot of this company yet. Try again after its first sync.',
      5,
    )
  }

  /** Returns why the current snapshot is not the latest one, which cannot be prepared; null if it is. */
  get behind(): Behind | null {
    const [since, why] = [this.#failingSince, this.#problem]
    return since === null || why === null
      ? null
      : { since, why: `the latest snapshot cannot be served: ${why}` }
  }

  /** Returns the current snapshot, and replaced ones that can still be read; newest first. */
  get readable(): readonly ServedSnapshot[] {
    return this.#current ? [this.#current, ...this.#kept.readable] : []
  }

  /** Follows the link from now on. */
  follow(): void {
    if (this.#stop.signal.aborted) return
    this.#looking = this.#look().then(
      () => this.#again(LOOK_EVERY_MS),
      error => this.#again(this.#failed(error)),
    )
  }

  /** Resolves when all work has ended. */
  async close(): Promise<void> {
    this.#stop.abort()
    await this.#looking
    if (this.#timer) clearTimeout(this.#timer)
    await this.feed.close()
    for (const prepared of [...this.#months.values(), ...this.#kept.clear()]) await prepared.drop()
    this.#options.pages.close()
  }

  /** Closes, and removes what was prepared from disk. */
  async forget(): Promise<void> {
    await this.close()
    await this.#store.clear()
  }

  #again(ms: number): void {
    this.#timer = setTimeout(() => this.follow(), ms)
  }

  /** Records a failed attempt, and logs it if the reason is new. @returns when to try again. */
  #failed(error: unknown): number {
    this.#preparing = false
    const problem = getMessage(error)
    if (problem !== this.#problem && !this.#stop.signal.aborted) {
      const instead = this.#current ? ` Still serving ${this.#current.name}.` : ''
      this.#options.log.error(`The latest snapshot cannot be served: ${problem}.${instead} Retrying soon.`)
    }
    this.#problem = problem
    this.#failingSince ??= this.#options.now()
    this.#failures += 1
    return Math.min(RETRY_AFTER_MS.first * 2 ** (this.#failures - 1), RETRY_AFTER_MS.most)
  }

  async #look(): Promise<void> {
    if (this.#current) await drop(this.#kept.expire(this.#current, this.#maxKeptBytes))
    const lake = this.#options.findLake(this.#company)
    const name = await readLatestName(lake)
    if (name === null) return
    if (name === this.#current?.name && this.#damaged.size === 0) return this.#inStep()
    const directory = join(snapshotsDirectory(lake), name)
    const manifest = await readManifest(directory)
    if (!manifest) throw new Error(`${directory} has no manifest`)
    this.#preparing = true
    await this.#take(manifest, directory)
    this.#preparing = false
    this.#inStep()
  }

  #inStep(): void {
    this.#problem = null
    this.#failingSince = null
    this.#failures = 0
  }

  async #take(manifest: Manifest, directory: string): Promise<void> {
    const startedMs = performance.now()
    const months = listMonths(manifest, directory)
    const damaged = [...this.#damaged]
    for (const key of damaged) await this.#store.remove(key)
    const usable = new Map([...this.#months].filter(([key]) => !damaged.includes(key)))
    const stored = await this.#open(months.filter(({ key }) => !usable.has(key)))
    const missing = months.filter(({ key }) => !usable.has(key) && !stored.has(key))
    const built = await this.#build(missing).catch(async error => {
      for (const prepared of stored.values()) await prepared.drop()
      throw error
    })
    const all = new Map([...usable, ...stored, ...built])
    const preparedMonths = new Map(months.map(({ key }) => [key, all.get(key) as PreparedMonth]))
    const about = {
      ...makeFeedSnapshot(manifest, directory),
      asOf: new Date(manifest.created_at).toISOString(),
    }
    this.#months = preparedMonths
    for (const key of damaged) this.#damaged.delete(key)
    const { pages, now } = this.#options
    const onDamage = (prepared: PreparedMonth) => this.#noteDamage(prepared)
    const replaced = this.#current
    this.#current = new ServedSnapshot(about, [...preparedMonths.values()], { pages, onDamage, now })
    this.#options.onPublish(this.#company)
    if (replaced) await drop(this.#kept.replace(replaced, this.#current, this.#maxKeptBytes))
    await this.#store.removeOthers(new Set(preparedMonths.keys()))
    const counts = { months: months.length, stored: stored.size, built: built.size }
    const ms = Math.round(performance.now() - startedMs)
    this.#options.log.info({ snapshot: manifest.snapshot, ...counts, ms }, 'Serving a new snapshot')
  }

  get #maxKeptBytes(): number {
    return this.#options.pages.maxBytes * KEPT_PER_PAGES
  }

  #noteDamage(damaged: PreparedMonth): void {
    for (const [key, prepared] of this.#months) {
      if (prepared !== damaged || this.#damaged.has(key)) continue
      this.#damaged.add(key)
      this.#options.log.error(`The prepared month ${key} is damaged on disk. Preparing it again.`)
    }
  }

  /** Opens the months that were prepared before, by this process or another. */
  async #open(months: readonly Month[]): Promise<Map<string, PreparedMonth>> {
    const preparedMonths = await Promise.all(
      months.map(async ({ key }) => [key, await this.#store.open(key)] as const),
    )
    return new Map(preparedMonths.flatMap(([key, prepared]) => (prepared ? [[key, prepared]] : [])))
  }

  async #build(months: readonly Month[]): Promise<Map<string, PreparedMonth>> {
    const preparedMonths = new Map<string, PreparedMonth>()
    if (months.length === 0) return preparedMonths
    const place = await this.#store.begin()
    try {
      const orders = months.map(({ name, order }) => ({ ...order, directory: join(place, name) }))
      await this.#options.builders.build(orders, this.#stop.signal)
      for (const [index, { key }] of months.entries())
        preparedMonths.set(key, await this.#store.keep(key, orders[index]?.directory as string))
      return preparedMonths
    } catch (error) {
      for (const prepared of preparedMonths.values()) await prepared.drop()
      throw error
    } finally {
      await rm(place, { recursive: true, force: true })
    }
  }
}

async function drop(months: Iterable<PreparedMonth>): Promise<void> {
  for (const month of months) await month.drop()
}

/** Since when a newer state of a company has been known than the one that is served here, and why that is so. */
export type Behind = { readonly since: Date; readonly why: string }

/** Describes the age of a page's data, and whether there are newer ones elsewhere. */
export function describeAge(
  { asOf, timeZone }: { asOf: string; timeZone: string },
  behind: Behind | null,
): string {
  const published = formatMoment(asOf, timeZone)
  if (behind === null) return published
  return `${published}; desde ${formatMoment(behind.since.toISOString(), timeZone)} há dados mais novos, que este servidor ainda não tem`
}
