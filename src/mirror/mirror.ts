import type { Logger } from 'pino'
import { messageOf } from '#src/errors.ts'
import { Refusal } from '#src/service/source.ts'
import { Builders } from './builders.ts'
import { MirroredCompany, type Sources } from './company.ts'
import { KeyStore } from './keys.ts'
import { PageBudget } from './page_cache.ts'
import type { MirrorSnapshot } from './snapshot.ts'

/** How soon it is written down that a key was used, and seen that the keys are another file. */
const LOOK_AFTER_MS = 2000
/** A look at the keys blocks all answers. */
const KEYS_WAIT_MS = 50

export type MirrorOptions = Sources & {
  /** Where the keys are. */
  readonly dataDir: string
  /** Processes at once that prepare snapshots. */
  readonly builders: number
  readonly log: Logger
  readonly now: () => Date
}

/** The latest snapshots of all companies that have an API key. */
export class Mirror {
  readonly #options: MirrorOptions
  readonly #companies = new Map<string, MirroredCompany>()
  readonly #pages = new PageBudget()
  readonly #builders: Builders
  readonly #timer: NodeJS.Timeout
  /** Null until there is a key. */
  #keys: KeyStore | null
  #uses = new Map<string, Date>()

  /** @throws FatalError (usage) where the keys cannot be opened. */
  constructor(options: MirrorOptions) {
    this.#options = options
    this.#builders = new Builders(options.builders)
    this.#keys = KeyStore.openIfThere(options.dataDir, KEYS_WAIT_MS)
    for (const company of this.#keys?.companies() ?? []) this.#follow(company)
    this.#timer = setInterval(() => this.#lookAfterKeys(), LOOK_AFTER_MS).unref()
  }

  /** Companies that are followed. */
  get companies(): readonly string[] {
    return [...this.#companies.keys()]
  }

  /**
   * Who a key is for; null where it is for nobody.
   * @throws Refusal (503) while the keys cannot be read.
   */
  whose(key: string): { readonly company: string; readonly prefix: string } | null {
    try {
      this.#keys ??= KeyStore.openIfThere(this.#options.dataDir, KEYS_WAIT_MS)
      const found = this.#keys?.find(key) ?? null
      if (found) this.#uses.set(found.prefix, this.#options.now())
      return found
    } catch (error) {
      this.#options.log.error(`The API keys cannot be read: ${messageOf(error)}.`)
      throw new Refusal(503, 'The API keys cannot be read just now.', 1)
    }
  }

  /**
   * What there is of a company now.
   * @throws Refusal (503) where there is no snapshot yet.
   */
  snapshotOf(company: string): MirrorSnapshot {
    return (this.#companies.get(company) ?? this.#follow(company)).current
  }

  async close(): Promise<void> {
    clearInterval(this.#timer)
    this.#lookAfterKeys()
    await Promise.all([...this.#companies.values()].map(company => company.close()))
    this.#keys?.close()
  }

  #follow(company: string): MirroredCompany {
    const shared = { ...this.#options, builders: this.#builders }
    const followed = new MirroredCompany(company, { ...shared, pages: this.#pages.open() })
    this.#companies.set(company, followed)
    followed.follow()
    return followed
  }

  #lookAfterKeys(): void {
    const { dataDir, log } = this.#options
    try {
      if (this.#keys?.isReplaced) {
        const replaced = this.#keys
        this.#keys = KeyStore.openIfThere(dataDir, KEYS_WAIT_MS)
        replaced.close()
      }
      if (this.#uses.size === 0) return
      this.#keys?.noteUse(this.#uses)
      this.#uses = new Map()
    } catch (error) {
      // To answer matters more, and it is tried again.
      log.warn(`When API keys were last used cannot be written down: ${messageOf(error)}.`)
    }
  }
}
