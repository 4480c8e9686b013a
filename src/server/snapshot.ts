import { join } from 'node:path'
import { UNAVAILABLE } from '#schema/analysis.ts'
import type { Manifest } from '#src/core/lake/manifest.ts'
import { computeTag } from '#src/lib/hash.ts'
import { Json, type NoticeFilter, type NoticeSource, Refusal } from './contract/source.ts'
import { DOCUMENT_TABLES, type MonthFiles } from './documents.ts'
import type { FeedSnapshot } from './feed/feed.ts'
import type { VersionFiles } from './feed/segments.ts'
import type { PageCache } from './page_cache.ts'
import { type MonthOrder, monthKey, type PreparedMonth } from './prepared_month.ts'

/** A missing analysis may come with the next run. */
const RETRY_ANALYSIS_AFTER_SECONDS = 300

/** Why there is no analysis, by `analysis_state`. */
const NO_ANALYSIS: Readonly<Record<string, string>> = {
  pending: 'The analysis of this notice has not been fetched yet. Try again after the next sync.',
  quarantined: 'The analysis of this notice could not be used. It will be fetched again soon.',
  excluded: 'Analyses of notices in this phase are not fetched here (ANALYSIS_STATUSES).',
}

type SnapshotAbout = FeedSnapshot & { readonly asOf: string }

/** The place of a notice. */
type Place = { readonly prepared: PreparedMonth; readonly at: number }

/** One published snapshot as the API shows it; it never changes. */
export class ServedSnapshot implements NoticeSource, FeedSnapshot {
  readonly name: string
  /** When it was published; ISO 8601. */
  readonly asOf: string
  readonly madeMs: number
  /** The last segment of the raw log that is in it. */
  readonly appliedSegment: number
  readonly versions: VersionFiles
  readonly timeZone: string
  /** Newest first. */
  readonly months: readonly PreparedMonth[]
  readonly #pages: PageCache
  readonly #onDamage: (prepared: PreparedMonth) => void
  readonly #now: () => Date
  readonly #size: number
  readonly #tag: string
  /** The notices of each phase, and of combinations of phases that were requested, newest first. */
  readonly #byStatus = new Map<string, readonly Place[]>()
  /** When a client began to read it in several requests; null if none did. */
  #readAt: Date | null = null

  /**
   * @param preparedMonths newest month first.
   * @param onDamage called with a month that can no longer be read.
   */
  constructor(
    about: SnapshotAbout,
    preparedMonths: readonly PreparedMonth[],
    {
      pages,
      onDamage,
      now,
    }: { pages: PageCache; onDamage: (prepared: PreparedMonth) => void; now: () => Date },
  ) {
    this.name = about.name
    this.asOf = about.asOf
    this.madeMs = about.madeMs
    this.appliedSegment = about.appliedSegment
    this.versions = about.versions
    this.timeZone = about.timeZone
    this.months = preparedMonths
    this.#pages = pages
    this.#onDamage = onDamage
    this.#now = now
    this.#size = preparedMonths.reduce((sum, { size }) => sum + size, 0)
    this.#tag = computeTag(preparedMonths.map(({ tag }) => tag).join())
    const places = preparedMonths.flatMap(prepared =>
      prepared.index.ids.map((_, at): Place => ({ prepared, at })),
    )
    const byStatus = Map.groupBy(places, ({ prepared, at }) => prepared.index.statuses[at] as string)
    for (const [status, some] of byStatus) this.#byStatus.set(status, some)
  }

  /** Notices of all months. */
  get size(): number {
    return this.#size
  }

  /** Returns a notice, counted from the newest; below `size`. */
  at(ordinal: number): Place {
    let at = ordinal
    for (const prepared of this.months) {
      if (at < prepared.size) return { prepared, at }
      at -= prepared.size
    }
    throw new Error(`${this.name} has no notice ${ordinal}`)
  }

  /** Notes that a client reads the snapshot in several requests: if it is replaced, it is kept for a while. */
  noteReader(): void {
    this.#readAt = this.#now()
  }

  /** Returns when it was read last, in ms since 1970; 0 if never. */
  get lastReadMs(): number {
    return this.#readAt?.getTime() ?? 0
  }

  wasReadWithin(minutes: number): boolean {
    return this.#readAt !== null && this.#now().getTime() - this.#readAt.getTime() < minutes * 60_000
  }

  /** Notes that a month can no longer be read. */
  noteDamage(prepared: PreparedMonth): void {
    this.#onDamage(prepared)
  }

  /** Returns the whole page (docs/contract.md#page) as JSON. */
  async list({ statuses, limit, offset }: NoticeFilter): Promise<Json> {
    const phases = statuses === null ? null : [...new Set(statuses)].sort()
    const key = [this.name, phases?.join() ?? '*', limit, offset].join(' ')
    const known = this.#pages.get(key)
    if (known) return known
    const { parts, count, total } = phases ? this.#some(phases, limit, offset) : this.#all(limit, offset)
    const page = Buffer.concat([
      Buffer.from('{"editais":['),
      ...parts.flatMap((part, index) => (index === 0 ? [part] : [COMMA, part])),
      Buffer.from(`],"count":${count},"total":${total},"limit":${limit},"offset":${offset}}`),
    ])
    const json = new Json(page, computeTag([this.#tag, ...(phases ?? [])].join()))
    // Empty pages are not cached: there is no end of them, and they cost nothing to build.
    return count === 0 ? json : this.#pages.add(key, json)
  }

  async get(id: string): Promise<Json | null> {
    const place = this.#find(id)
    return place ? place.prepared.notice(place.at) : null
  }

  /**
   * Reads the analysis of a notice; null if the notice is not known.
   * @throws Refusal (503) if the notice is known but its analysis is not.
   */
  async analysis(id: string): Promise<Json | null> {
    const place = this.#find(id)
    if (!place) return null
    const analysis = await place.prepared.analysis(place.at).catch(() => {
      this.#onDamage(place.prepared)
      const message = 'This analysis is being prepared again. Try again in a moment.'
      throw new Refusal(503, message, 5, UNAVAILABLE.now)
    })
    if (analysis) return analysis
    const state = place.prepared.index.states[place.at] as string
    const [retryAfter, code] =
      state === 'excluded' ? [null, UNAVAILABLE.excluded] : [RETRY_ANALYSIS_AFTER_SECONDS, UNAVAILABLE.now]
    throw new Refusal(503, NO_ANALYSIS[state] ?? (NO_ANALYSIS.pending as string), retryAfter, code)
  }

  #find(id: string): Place | null {
    for (const prepared of this.months) {
      const at = prepared.findPlace(id)
      if (at !== undefined) return { prepared, at }
    }
    return null
  }

  /** Returns a page of all notices as a slice of one month's memory, or of a few months'. */
  #all(limit: number, offset: number): Parts {
    const parts: Buffer[] = []
    let [skip, left] = [offset, limit]
    for (const prepared of this.months) {
      const taken = Math.min(left, prepared.size - skip)
      if (taken > 0) {
        parts.push(prepared.notices(skip, skip + taken))
        left -= taken
      }
      skip = Math.max(0, skip - prepared.size)
      if (left === 0) break
    }
    return { parts, count: limit - left, total: this.#size }
  }

  #some(phases: readonly string[], limit: number, offset: number): Parts {
    const places = this.#ofPhases(phases)
    const page = places.slice(offset, offset + limit)
    const parts = page.map(({ prepared, at }) => prepared.notices(at, at + 1))
    return { parts, count: page.length, total: places.length }
  }

  #ofPhases(phases: readonly string[]): readonly Place[] {
    const key = phases.join()
    const known = this.#byStatus.get(key)
    if (known) return known
    const merged = phases.flatMap(status => this.#byStatus.get(status) ?? []).sort(newestFirst)
    this.#byStatus.set(key, merged)
    return merged
  }
}

/** The notices of a page; a part may hold several, separated by commas. */
type Parts = { readonly parts: readonly Buffer[]; readonly count: number; readonly total: number }

const COMMA = Buffer.from(',')

function newestFirst(a: Place, b: Place): number {
  const [createdA, createdB] = [
    a.prepared.index.created[a.at] as number,
    b.prepared.index.created[b.at] as number,
  ]
  return createdB - createdA || (readPlaceId(a) < readPlaceId(b) ? -1 : 1)
}

function readPlaceId({ prepared, at }: Place): string {
  return prepared.index.ids[at] as string
}

/** A month, with the key of everything its documents depend on. */
export type Month = {
  readonly name: string
  readonly key: string
  readonly order: Omit<MonthOrder, 'directory'>
}

/** Returns what the feed needs of a snapshot. */
export function makeFeedSnapshot(manifest: Manifest, directory: string): FeedSnapshot {
  return {
    name: manifest.snapshot,
    madeMs: Date.parse(manifest.created_at),
    appliedSegment: manifest.applied_segment,
    versions: listVersionFiles(manifest, directory),
    timeZone: manifest.source_timezone,
  }
}

/** Returns the files of the versions of notices and analyses, of all months. */
export function listVersionFiles({ tables }: Manifest, directory: string): VersionFiles {
  const listFiles = (table: string) =>
    (tables[table]?.files ?? []).filter(({ rows }) => rows > 0).map(({ path }) => join(directory, path))
  return { notice: listFiles('edital_versions'), analysis: listFiles('analysis_versions') }
}

/** Returns the months with notices, newest first. */
export function listMonths({ tables, source_timezone: timeZone }: Manifest, directory: string): Month[] {
  const file = (table: string, month: string) =>
    tables[table]?.files.find(one => one.month === month && one.rows > 0) ?? null
  const names = (tables.editais?.files ?? []).flatMap(({ month, rows }) => (month && rows > 0 ? [month] : []))
  return names
    .sort()
    .reverse()
    .map(name => {
      const of = DOCUMENT_TABLES.map(table => [table, file(table, name)] as const)
      const files = Object.fromEntries(of.map(([table, one]) => [table, one && join(directory, one.path)]))
      const sum = (what: 'bytes' | 'rows') => of.reduce((all, [, one]) => all + (one?.[what] ?? 0), 0)
      const key = monthKey(
        of.map(([, one]) => one?.sha256 ?? null),
        timeZone,
      )
      const sums = { bytes: sum('bytes'), rows: sum('rows') }
      return { name, key, order: { files: files as MonthFiles, ...sums, timeZone } }
    })
}
