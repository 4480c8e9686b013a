import { UNAVAILABLE } from '#schema/unavailable.ts'
import { Json, type NoticeFilter, type NoticeSource, Refusal } from '#src/api/server/source.ts'
import { tagOf } from '#src/api/server/tag.ts'
import type { PageCache } from './page_cache.ts'
import type { Shelf } from './shelf.ts'

/** An analysis that is not there yet may come with the next run. */
const RETRY_ANALYSIS_AFTER_SECONDS = 300

/** Why there is no analysis, by `analysis_state`. */
const NO_ANALYSIS: Readonly<Record<string, string>> = {
  pending: 'The analysis of this notice was not fetched yet. Ask again after the next sync.',
  quarantined: 'The analysis of this notice could not be used. It is fetched again before long.',
  excluded: 'Analyses of notices in this phase are not fetched here (ANALYSIS_STATUSES).',
}

/** Where a notice is. */
type Place = { readonly shelf: Shelf; readonly at: number }

/** One published snapshot as the API would show it: it never changes. */
export class MirrorSnapshot implements NoticeSource {
  readonly name: string
  /** When it was published; ISO 8601. */
  readonly asOf: string
  readonly #shelves: readonly Shelf[]
  readonly #pages: PageCache
  readonly #onDamage: (shelf: Shelf) => void
  readonly #size: number
  readonly #tag: string
  /** The notices of each phase, and of phases that were asked for together, newest first. */
  readonly #byStatus = new Map<string, readonly Place[]>()

  /**
   * @param shelves newest month first.
   * @param onDamage called with a shelf that cannot be read any more.
   */
  constructor(
    about: { name: string; asOf: string },
    shelves: readonly Shelf[],
    { pages, onDamage }: { pages: PageCache; onDamage: (shelf: Shelf) => void },
  ) {
    this.name = about.name
    this.asOf = about.asOf
    this.#shelves = shelves
    this.#pages = pages
    this.#onDamage = onDamage
    this.#size = shelves.reduce((sum, { size }) => sum + size, 0)
    this.#tag = tagOf(shelves.map(({ tag }) => tag).join())
    const places = shelves.flatMap(shelf => shelf.index.ids.map((_, at): Place => ({ shelf, at })))
    const byStatus = Map.groupBy(places, ({ shelf, at }) => shelf.index.statuses[at] as string)
    for (const [status, some] of byStatus) this.#byStatus.set(status, some)
  }

  /** The whole page (contract section 2.4) as JSON. */
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
    const json = new Json(page, tagOf([this.#tag, ...(phases ?? [])].join()))
    // There are as many empty pages as numbers, and each is made in no time.
    return count === 0 ? json : this.#pages.add(key, json)
  }

  async get(id: string): Promise<Json | null> {
    const place = this.#find(id)
    return place ? place.shelf.notice(place.at) : null
  }

  /** @throws Refusal (503) where the notice is known and its analysis is not. */
  async analysis(id: string): Promise<Json | null> {
    const place = this.#find(id)
    if (!place) return null
    const analysis = await place.shelf.analysis(place.at).catch(() => {
      this.#onDamage(place.shelf)
      const message = 'This analysis is being prepared again. Ask again in a moment.'
      throw new Refusal(503, message, 5, UNAVAILABLE.now)
    })
    if (analysis) return analysis
    const state = place.shelf.index.states[place.at] as string
    const [retryAfter, code] =
      state === 'excluded' ? [null, UNAVAILABLE.excluded] : [RETRY_ANALYSIS_AFTER_SECONDS, UNAVAILABLE.now]
    throw new Refusal(503, NO_ANALYSIS[state] ?? (NO_ANALYSIS.pending as string), retryAfter, code)
  }

  #find(id: string): Place | null {
    for (const shelf of this.#shelves) {
      const at = shelf.placeOf(id)
      if (at !== undefined) return { shelf, at }
    }
    return null
  }

  /** A page of all notices is a piece of one shelf's memory, or of a few. */
  #all(limit: number, offset: number): Parts {
    const parts: Buffer[] = []
    let [skip, left] = [offset, limit]
    for (const shelf of this.#shelves) {
      const taken = Math.min(left, shelf.size - skip)
      if (taken > 0) {
        parts.push(shelf.notices(skip, skip + taken))
        left -= taken
      }
      skip = Math.max(0, skip - shelf.size)
      if (left === 0) break
    }
    return { parts, count: limit - left, total: this.#size }
  }

  #some(phases: readonly string[], limit: number, offset: number): Parts {
    const places = this.#ofPhases(phases)
    const page = places.slice(offset, offset + limit)
    const parts = page.map(({ shelf, at }) => shelf.notices(at, at + 1))
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

/** Notices of a page, some of them together with commas between them. */
type Parts = { readonly parts: readonly Buffer[]; readonly count: number; readonly total: number }

const COMMA = Buffer.from(',')

function newestFirst(a: Place, b: Place): number {
  const [createdA, createdB] = [a.shelf.index.created[a.at] as number, b.shelf.index.created[b.at] as number]
  return createdB - createdA || (idOf(a) < idOf(b) ? -1 : 1)
}

function idOf({ shelf, at }: Place): string {
  return shelf.index.ids[at] as string
}
