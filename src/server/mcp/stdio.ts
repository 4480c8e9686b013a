import { accessSync, constants, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import type { Logger } from 'pino'
import { FatalError, messageOf } from '#src/lib/errors.ts'
import { Builders } from '#src/server/builders.ts'
import { ServedCompany } from '#src/server/company.ts'
import { Refusal } from '#src/server/contract/source.ts'
import { PageBudget } from '#src/server/page_cache.ts'
import { Readers } from '#src/server/read/readers.ts'
import type { Searched } from '#src/server/search_page.ts'
import { createMcpServer } from './server.ts'

/** All scopes are granted: a user who can run this program can read the files anyway. */
const SCOPES = ['read', 'sql']
const NO_KEY = { prefix: '', isStillValid: () => true }
/** The first search of a large company waits for its index; clients wait for a minute. */
const READY_WITHIN_MS = 45_000
const LOOK_EVERY_MS = 100

type Company = { readonly company: string; readonly lake: string; readonly log: Logger }

/** Serves a company's snapshots on standard input and output, until the input ends. */
export function serveOnStdio(served: Company): void {
  const { lake, log } = served
  const readers = new Readers(log)
  const searched = createSearch(served)
  serveStdio(
    () =>
      createMcpServer({
        scopes: SCOPES,
        lake,
        log,
        searched,
        read: (order, signal) => readers.read(NO_KEY, order, signal),
      }),
    {
      maxSubscriptions: 0,
      onerror: error => log.warn(`A message could not be answered: ${messageOf(error)}.`),
    },
  )
}

/**
 * Creates the search of one company, as `editais serve` has it; its index is prepared for the first search. Prepared months are
 * shared with a server if this user may write beside the lake, and otherwise removed at the end.
 */
function createSearch({ company, lake, log }: Company): () => Promise<Searched> {
  let followed: ServedCompany | null = null
  return async () => {
    followed ??= follow({ company, lake, log })
    const searched = followed
    const lateMs = performance.now() + READY_WITHIN_MS
    for (;;)
      try {
        searched.current
        return {
          snapshot: () => searched.current,
          findSnapshot: isWanted => searched.readable.find(isWanted) ?? null,
        }
      } catch (error) {
        if (!(error instanceof Refusal)) throw error
        if (performance.now() > lateMs) throw new FatalError(error.message)
        await sleep(LOOK_EVERY_MS)
      }
  }
}

function follow({ company, lake, log }: Company): ServedCompany {
  const followed = new ServedCompany(company, {
    lakeOf: () => lake,
    logOf: () => null,
    monthsIn: placeForMonths(lake),
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

/** Returns a directory of this process's own if this user cannot write beside the lake; null for the usual place. */
function placeForMonths(lake: string): string | null {
  try {
    accessSync(dirname(lake), constants.W_OK)
    return null
  } catch {
    const own = mkdtempSync(join(tmpdir(), 'editais-sync-search-'))
    process.on('exit', () => rmSync(own, { recursive: true, force: true }))
    return own
  }
}
