import type { ChangesOptions, ChangesPage } from './documents.js'
import { sleep } from './patience.js'
import type { Server } from './server.js'

/** As long as a connection without traffic survives most proxies. */
const WAIT_SECONDS = 30

/** An empty answer that comes sooner was not waited for. */
const QUICK_MS = 1000

/** The pages of the feed, for ever; with `wait: 0`, to its present end. */
export async function* changes(
  server: Server,
  options: ChangesOptions,
): AsyncGenerator<ChangesPage, void, undefined> {
  const { signal, wait = WAIT_SECONDS, ...rest } = options
  for (let since = options.since, hasMore = true; hasMore || wait > 0; ) {
    const query = { ...rest, since, wait }
    const request = { path: '/api/v1/mirror/changes', query, signal, waitMs: wait * 1000 }
    const askedMs = Date.now()
    const page = JSON.parse((await server.document(request)).text) as ChangesPage
    if (page.events.length > 0 || page.next !== since) yield page
    since = page.next
    hasMore = page.has_more
    // A server that is stopping answers at once.
    if (wait > 0 && page.events.length === 0 && Date.now() - askedMs < QUICK_MS) await sleep(QUICK_MS, signal)
  }
}
