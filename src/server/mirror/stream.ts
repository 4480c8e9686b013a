import type { FeedPage } from '#src/server/feed/index_file.ts'
import type { FeedFollower } from './follower.ts'

/** How often a client, and the proxies before it, see that the stream is alive. */
export const HEARTBEAT_MS = 15_000
/** Then the stream ends, and the client comes back with the id of its last event. */
const LASTS_MS = 15 * 60_000
/** How long a client waits before it comes back. */
const COME_BACK_MS = 2000
const HEARTBEAT = ':\n\n'
const PIECE_BYTES = 256 * 1024

/**
 * Yields server-sent events (WHATWG HTML, 9.2): the id of each is its cursor, so a client that reconnects continues without help.
 * Ends when the server stops, the key is no longer valid, or the log is another one: the next request says why.
 * @param first the first page, read before the answer began.
 */
export async function* streamOf(
  follower: FeedFollower,
  first: FeedPage,
  isStillValid: () => boolean,
): AsyncGenerator<Uint8Array> {
  const endMs = performance.now() + LASTS_MS
  yield* pieces(`retry: ${COME_BACK_MS}\n\n${eventsOf(first)}`)
  for (let page: FeedPage | null = first; page && performance.now() < endMs; ) {
    if (!page.hasMore) {
      const woken = await follower.sleep(HEARTBEAT_MS)
      if (woken === 'stopping' || woken === 'gone') return
    }
    if (!isStillValid()) return
    // Whatever is wrong, the next request gets it as an answer.
    page = await follower.next().catch(() => null)
    if (page) yield* pieces(eventsOf(page) || HEARTBEAT)
  }
}

function eventsOf({ events }: FeedPage): string {
  return events.map(({ cursor, kind, json }) => `id: ${cursor}\nevent: ${kind}\ndata: ${json}\n\n`).join('')
}

/** Cuts a text into pieces: a client has as long for each as it may take to read anything. */
function* pieces(text: string): Generator<Uint8Array> {
  const bytes = Buffer.from(text)
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) yield bytes.subarray(at, at + PIECE_BYTES)
}
