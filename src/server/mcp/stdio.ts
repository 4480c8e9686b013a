import { existsSync, lstatSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import type { Logger } from 'pino'
import { latestLink } from '#src/core/lake/manifest.ts'
import { EXIT, FatalError, getMessage } from '#src/lib/errors.ts'
import { endProcess } from '#src/lib/exit.ts'
import { Builders } from '#src/server/builders.ts'
import { ServedCompany } from '#src/server/company.ts'
import { Refusal } from '#src/server/contract/source.ts'
import { PageBudget } from '#src/server/page_cache.ts'
import { ownPrefix, Readers } from '#src/server/read/readers.ts'
import type { Searched } from '#src/server/search_page.ts'
import { createMcpServer } from './server.ts'

/** All scopes are granted: a user who can run this program can read the files anyway. */
const SCOPES = ['read', 'sql']
const NO_KEY = { prefix: '', isStillValid: () => true }
/** The first search of a large company waits for its index; clients wait for a minute. */
const READY_WITHIN_MS = 45_000
const LOOK_EVERY_MS = 100
/** A snapshot that is being prepared is there before this time; one that cannot be served says a later one. */
const PREPARED_WITHIN_SECONDS = 5

type Company = { readonly company: string; readonly lake: string; readonly log: Logger }

/** Serves a company's snapshots on standard input and output, until the input ends or a signal comes. */
export function serveOnStdio(served: Company): void {
  const { lake, log } = served
  const readers = new Readers(log)
  const search = new OwnSearch(served)
  const end = async () => {
    await search.close()
    endProcess(EXIT.ok)
  }
  process.stdin.once('end', end)
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.once(signal, end)
  serveStdio(
    () =>
      createMcpServer({
        scopes: SCOPES,
        lake,
        log,
        searched: () => search.ready(),
        read: (order, signal) => readers.read(NO_KEY, order, signal),
      }),
    {
      maxSubscriptions: 0,
      onerror: error => log.warn(`A message could not be answered: ${getMessage(error)}.`),
    },
  )
}

/**
 * The search of one company, as `editais serve` has it; its index is prepared for the first search. Prepared months are shared with
 * a server that is this user's, and otherwise in a temporary directory.
 */
class OwnSearch {
  readonly #served: Company
  #months: string | null = null
  #followed: ServedCompany | null = null

  constructor(served: Company) {
    this.#served = served
  }

  /** Waits until it can search. @throws FatalError if it cannot. */
  async ready(): Promise<Searched> {
    if (!existsSync(latestLink(this.#served.lake)))
      throw new FatalError('The company has no snapshot yet. Its first sync publishes one.')
    this.#followed ??= this.#follow()
    const followed = this.#followed
    const lateMs = performance.now() + READY_WITHIN_MS
    for (;;)
      try {
        followed.current
        return {
          snapshot: () => followed.current,
          findSnapshot: isWanted => followed.readable.find(isWanted) ?? null,
        }
      } catch (error) {
        if (!(error instanceof Refusal)) throw error
        const isPrepared = (error.retryAfterSeconds ?? 0) <= PREPARED_WITHIN_SECONDS
        if (!isPrepared || performance.now() > lateMs) throw new FatalError(error.message)
        await sleep(LOOK_EVERY_MS)
      }
  }

  async close(): Promise<void> {
    await this.#followed?.close()
    if (this.#months !== null) rmSync(this.#months, { recursive: true, force: true })
  }

  #follow(): ServedCompany {
    const { company, lake, log } = this.#served
    this.#months = isOurPlace(lake) ? null : mkdtempSync(join(tmpdir(), ownPrefix()))
    const followed = new ServedCompany(company, {
      findLake: () => lake,
      findLog: () => null,
      monthsIn: this.#months,
      log,
      pages: new PageBudget().open(),
      builders: new Builders(1),
      // No tool reads the feed.
      bringUp: async () => {
        throw new Error('there is no feed here')
      },
      onPublish: () => {},
      now: () => new Date(),
    })
    followed.follow()
    return followed
  }
}

/** Returns whether prepared months beside the lake are this user's: others could not be read, or would be in the way of a server. */
function isOurPlace(lake: string): boolean {
  const root = dirname(lake)
  const about =
    lstatSync(join(root, 'mirror'), { throwIfNoEntry: false }) ?? lstatSync(root, { throwIfNoEntry: false })
  return about?.uid === process.geteuid?.()
}
