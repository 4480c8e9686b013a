import type { Logger } from 'pino'
import { getMessage } from '#src/lib/errors.ts'
import { Builders, MAX_BUILDERS } from './builders.ts'
import { type Behind, ServedCompany, type Sources } from './company.ts'
import { Refusal } from './contract/source.ts'
import { createIndexers, type Feed } from './feed/feed.ts'
import { Waiting } from './feed/waiting.ts'
import { findKeyState, type KeyEntry, type KeyHolder } from './key_file.ts'
import { isKey, KeyStore } from './keys.ts'
import { PageBudget } from './page_cache.ts'
import type { ServedSnapshot } from './snapshot.ts'

/** The code of a refusal: keys cannot be written. */
export const LINK_UNUSABLE = 'link_unusable'
/** How often uses of keys are recorded, waiting revocations entered, and companies without a valid key closed. */
const CHECK_EVERY_MS = 2000
/** Short, because a lookup in the key file blocks all answers. */
const KEYS_WAIT_MS = 50
/** When a client may ask again whose company is behind. */
const BEHIND_RETRY_SECONDS = 30
/** A key that was used since then is missed if it is refused. */
const USED_WITHIN_MS = 7 * 24 * 3_600_000

export type ServedCompaniesOptions = Sources & {
  /** The directory of the keys. */
  readonly dataDir: string
  /** Maximum number of processes that prepare snapshots; two by default: each takes up to 700 MB. */
  readonly builders?: number
  readonly log: Logger
  readonly now: () => Date
  /** Returns what other hosts have later than this one. Absent without hosts that share a log. */
  readonly behindOthers?: (company: string) => Behind | null
  /** After so long, a state that is not the newest is served no more; by default, it always is. */
  readonly maxBehindMs?: number
}

/** The latest snapshots of all companies that have a valid API key. */
export class ServedCompanies {
  readonly #options: ServedCompaniesOptions
  readonly #companies = new Map<string, ServedCompany>()
  readonly #pages = new PageBudget()
  readonly #builders: Builders
  readonly #bringUp = createIndexers()
  /** Requests that wait for changes, of all companies. */
  readonly waiting = new Waiting()
  readonly #timer: NodeJS.Timeout
  /** Null until there is a key. */
  #keys: KeyStore | null = null
  #uses = new Map<string, Date>()
  /** Keys that were looked up in this turn of the event loop. */
  #lookedUp = new Map<string, KeyHolder | null>()
  /** Companies that still finish their work. */
  readonly #closing = new Set<Promise<void>>()
  /** The last problem with the keys that was logged; null if there is none. */
  #problem: string | null = null

  constructor(options: ServedCompaniesOptions) {
    this.#options = options
    this.#builders = new Builders(options.builders ?? MAX_BUILDERS)
    this.#checkKeys()
    this.#timer = setInterval(() => this.#checkKeys(), CHECK_EVERY_MS).unref()
  }

  /** Companies that are followed. */
  get companies(): readonly string[] {
    return [...this.#companies.keys()]
  }

  /**
   * Returns what a key stands for; null if it is unknown, revoked or expired. Requests that arrive together share one lookup
   * in the files: a lookup takes as long as everything else in a small request.
   * @throws Refusal (503) while the keys cannot be read.
   */
  whose(key: string): KeyHolder | null {
    if (!isKey(key)) return null
    const known = this.#lookedUp.get(key)
    if (known !== undefined) return known
    const holder = this.#lookUp(key)
    if (this.#lookedUp.size === 0) {
      setImmediate(() => {
        this.#lookedUp = new Map()
      })
    }
    this.#lookedUp.set(key, holder)
    return holder
  }

  #lookUp(key: string): KeyHolder | null {
    try {
      const now = this.#options.now()
      const found = this.#openKeys()?.find(key, now) ?? null
      if (found) this.#uses.set(found.prefix, now)
      return found
    } catch (error) {
      this.#options.log.error(`The API keys cannot be read: ${getMessage(error)}.`)
      throw new Refusal(503, 'The API keys cannot be read at the moment.', 1)
    }
  }

  /** Makes a key of a code that signs one person in; null if the code is not valid. @throws Refusal (503) if it cannot be written. */
  redeem(code: string): string | null {
    try {
      return this.#openKeys()?.redeem(code, this.#options.now()) ?? null
    } catch (error) {
      this.#options.log.error(`A link to sign in could not be used: ${getMessage(error)}.`)
      throw new Refusal(503, 'The API keys cannot be changed at the moment.', 1, LINK_UNUSABLE)
    }
  }

  /** Ends a key that a link made. If that fails, only the browser forgets it. */
  signOut(key: string): void {
    try {
      const holder = this.whose(key)
      if (holder) this.#openKeys()?.signOut(holder.prefix, this.#options.now())
    } catch (error) {
      this.#options.log.error(`The key of a person who signed out could not be ended: ${getMessage(error)}.`)
    }
  }

  /** Returns where the keys are. */
  get dataDir(): string {
    return this.#options.dataDir
  }

  /** Returns where a company's snapshots are. */
  findLake(company: string): string {
    return this.#options.findLake(company)
  }

  /**
   * Returns the current snapshot of a company.
   * @throws Refusal (503) if there is no snapshot yet, or it has been behind for too long.
   */
  getSnapshot(company: string): ServedSnapshot {
    return this.#current(company).current
  }

  /**
   * Returns the changes of a company.
   * @throws Refusal (503) if they have been behind for too long.
   */
  getFeed(company: string): Feed {
    return this.#current(company).feed
  }

  /** Returns since when a newer state of a company has been known than the served one, and why; null if that is the newest. */
  behind(company: string): Behind | null {
    const all = [
      this.#options.behindOthers?.(company) ?? null,
      this.#companies.get(company)?.behind ?? null,
    ].filter(one => one !== null)
    return all.toSorted((a, b) => a.since.getTime() - b.since.getTime())[0] ?? null
  }

  /** Returns the same if it is longer than `maxBehindMs`; otherwise null. */
  tooFarBehind(company: string): Behind | null {
    const behind = this.behind(company)
    const { now, maxBehindMs = Number.POSITIVE_INFINITY } = this.#options
    return behind !== null && now().getTime() - behind.since.getTime() > maxBehindMs ? behind : null
  }

  #current(company: string): ServedCompany {
    const behind = this.tooFarBehind(company)
    if (behind === null) return this.#followed(company)
    throw new Refusal(
      503,
      `What this host has of the company is older than it should be: a newer state has been known since ${behind.since.toISOString()}. The server log has the reason.`,
      BEHIND_RETRY_SECONDS,
    )
  }

  /**
   * Keys that expire, or expired, although they were used in the last seven days, and that have no successor.
   * @throws Error while the keys cannot be read.
   */
  expiringKeys(): readonly KeyEntry[] {
    const now = this.#options.now()
    const isMissed = (entry: KeyEntry) =>
      entry.expiresAt !== null &&
      ['valid', 'expired'].includes(findKeyState(entry, now)) &&
      entry.replacedBy === null &&
      now.getTime() - Date.parse(entry.lastUsedAt ?? '') < USED_WITHIN_MS
    return this.#openKeys()?.list(null).filter(isMissed) ?? []
  }

  /** Requests that wait for changes are answered now. */
  stopWaiting(): void {
    this.waiting.stop()
  }

  /** Returns the current snapshot of a company, and replaced ones that can still be read; newest first. */
  getReadable(company: string): readonly ServedSnapshot[] {
    return this.#companies.get(company)?.readable ?? []
  }

  async close(): Promise<void> {
    this.stopWaiting()
    clearInterval(this.#timer)
    this.#noteUses()
    for (const company of this.companies) this.#unfollow(company, followed => followed.close())
    await Promise.all(this.#closing)
    this.#keys?.close()
  }

  /** Returns the current keys: a removed or replaced key file takes effect at the next request. */
  #openKeys(): KeyStore | null {
    if (this.#keys?.isReplaced) this.#closeKeys()
    this.#keys ??= KeyStore.openIfThere(this.#options.dataDir, KEYS_WAIT_MS)
    return this.#keys
  }

  #closeKeys(): void {
    const keys = this.#keys
    this.#keys = null
    keys?.close()
  }

  #followed(company: string): ServedCompany {
    return this.#companies.get(company) ?? this.#follow(company)
  }

  #follow(company: string): ServedCompany {
    const shared = {
      ...this.#options,
      builders: this.#builders,
      bringUp: this.#bringUp,
      onPublish: (slug: string) => this.waiting.wake(slug),
    }
    const followed = new ServedCompany(company, { ...shared, pages: this.#pages.open() })
    this.#companies.set(company, followed)
    followed.follow()
    return followed
  }

  /** Releases its memory and files; requests that are reading can finish. */
  #unfollow(company: string, end: (followed: ServedCompany) => Promise<void>): void {
    const closing = end(this.#companies.get(company) as ServedCompany)
      .catch(error =>
        this.#options.log.error({ company }, `The company cannot be closed: ${getMessage(error)}.`),
      )
      .finally(() => this.#closing.delete(closing))
    this.#companies.delete(company)
    this.#closing.add(closing)
  }

  #checkKeys(): void {
    try {
      // A frozen file shows no changes; it may have become writable again.
      if (this.#keys?.isFrozen) this.#closeKeys()
      const keys = this.#openKeys()
      // A missing key file may come back, as in a restore, so prepared months are not removed.
      if (keys) this.#followThose(keys.companies(this.#options.now()))
      else for (const company of this.companies) this.#unfollow(company, followed => followed.close())
    } catch (error) {
      this.#report(`The API keys cannot be read: ${getMessage(error)}.`)
      return
    }
    this.#noteUses()
  }

  /** Follows these companies, and no others. */
  #followThose(companies: readonly string[]): void {
    for (const company of companies) if (!this.#companies.has(company)) this.#follow(company)
    for (const company of this.companies) {
      if (companies.includes(company)) continue
      this.#unfollow(company, followed => followed.forget())
      this.#options.log.info({ company }, 'No longer served: the company has no valid API key.')
    }
  }

  #noteUses(): void {
    try {
      this.#keys?.carryOver()
      if (this.#uses.size > 0) this.#keys?.noteUse(this.#uses)
      this.#uses = new Map()
      this.#problem = null
    } catch (error) {
      // Answering matters more, and this is retried. Revocations are effective even before they are entered.
      this.#report(`Uses and revocations of API keys cannot be saved yet: ${getMessage(error)}`)
    }
  }

  /** Logs a problem only once, although the keys are checked every two seconds. */
  #report(problem: string): void {
    if (problem !== this.#problem) this.#options.log.warn(problem)
    this.#problem = problem
  }
}
