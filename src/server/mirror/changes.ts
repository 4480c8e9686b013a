import type { Context } from 'hono'
import { z } from 'zod'
import { computeTag } from '#src/lib/hash.ts'
import type { HttpBindings } from '#src/lib/http/outgoing.ts'
import { sendJson } from '#src/server/contract/answers.ts'
import { Json, Refusal } from '#src/server/contract/source.ts'
import { KINDS } from '#src/server/feed/events.ts'
import { CursorGone } from '#src/server/feed/feed.ts'
import type { FeedPage, PageRequest } from '#src/server/feed/index_file.ts'
import type { Woken } from '#src/server/feed/waiting.ts'
import { MIRROR_PATH, type MirrorSource, mirrorRoute, watchForEnd, wholeParameter } from './routes.ts'

const PATH = '/changes'
const EVENT_STREAM = 'text/event-stream'
const MAX_LIMIT = 1000
/** An answer ends with the event that exceeds this; an event has at most some hundred kilobytes of values. */
const MAX_PAGE_BYTES = 1024 * 1024
/** A stream is as good in small pages, and holds one for as long as its client reads nothing. */
const MAX_STREAMED_BYTES = 32 * 1024
/** Less than the minute after which proxies usually give up. */
const MAX_WAIT_SECONDS = 50
/** How often a client, and the proxies before it, see that the stream is alive. */
const HEARTBEAT_MS = 15_000
/** Then the stream ends, and the client comes back with the id of its last event. */
const LASTS_MS = 15 * 60_000
/** How long a client waits before it comes back. */
const COME_BACK_MS = 2000
const HEARTBEAT = ':\n\n'
const PIECE_BYTES = 256 * 1024
/** A stream whose client reads nothing for this long is cut. */
const STALLED_MS = 3 * HEARTBEAT_MS

const KIND_LIST = Object.entries(KINDS)
  .map(([kind, what]) => `- \`${kind}\`: ${what}`)
  .join('\n')

/** The route of changes, in the order of the raw log. */
export const CHANGES_ROUTE = mirrorRoute({
  method: 'GET',
  path: PATH,
  name: 'changes',
  scope: 'feed',
  ownTurns: true,
  summary: 'What changed since a cursor',
  description: `Changes of notices and analyses, in the order in which they were seen, each once. Begin without \`since\`, or read
everything once and begin with \`since=latest\`; then pass the \`next\` of each answer. An event appears only after
its snapshot is served: a request for its notice returns at least that state.

${KIND_LIST}

With \`Accept: ${EVENT_STREAM}\` the answer is a stream of server-sent events, whose ids are cursors; \`Last-Event-ID\` counts
as \`since\`.`,
  query: z.object({
    since: z
      .string()
      .max(100, 'is not a cursor of this API')
      .optional()
      .describe(
        'Where to continue: the `next` of an answer, or `latest`. Without it, from the beginning of the log.',
      ),
    limit: wholeParameter({ min: 1, max: MAX_LIMIT, usual: 200 }).describe(
      'The most events of an answer; 200 by default.',
    ),
    wait: wholeParameter({ min: 0, max: MAX_WAIT_SECONDS, usual: 0 }).describe(
      'If there is no event yet, how many seconds to wait for one.',
    ),
    include: z
      .enum(['values'])
      .optional()
      .describe('`values`: events that name `fields` also have `changes`, with the values before and after.'),
  }),
  responses: {
    '200': {
      description: 'The next events; none if nothing has changed.',
      content: {
        'application/json': { schema: pageSchema() },
        [EVENT_STREAM]: { schema: { type: 'string' } },
      },
    },
    '410': {
      description: 'The log that the cursor belongs to was rewritten. Read everything once, and begin anew.',
      content: { 'application/json': { schema: goneSchema() } },
    },
  },
  async answer({ context, source, query, inTurn }) {
    const isHead = context.req.method === 'HEAD'
    const isStream = !isHead && (context.req.header('accept') ?? '').includes(EVENT_STREAM)
    const lastId = isStream ? context.req.header('last-event-id') : undefined
    const waitMs = isStream || isHead ? 0 : query.wait * 1000
    const gone = watchForEnd(context)
    const leave =
      isStream || waitMs > 0
        ? source.waiting.enter({ company: source.company, key: source.prefix })
        : () => {}
    gone.addEventListener('abort', leave)
    const follower = new FeedFollower({
      ...{ source, inTurn, gone },
      since: lastId || (query.since ?? null),
      request: {
        limit: query.limit,
        withValues: query.include === 'values',
        maxBytes: isStream ? MAX_STREAMED_BYTES : MAX_PAGE_BYTES,
      },
    })
    let isStreaming = false
    try {
      const page = await follower.nextWithin(waitMs)
      if (!page) return context.body(null)
      if (!isStream) return await sendPage(context, page)
      isStreaming = true
      cutIfStalled(context)
      const events = streamEvents(follower, page, () => source.isStillValid())
      return new Response(ReadableStream.from(events), {
        headers: { 'content-type': EVENT_STREAM, 'x-accel-buffering': 'no' },
      })
    } catch (error) {
      if (error instanceof CursorGone) return sendGone(context, error)
      throw error
    } finally {
      // A stream keeps its place until its connection ends.
      if (!isStreaming) leave()
    }
  },
})

async function sendPage(context: Context, { events, next, hasMore }: FeedPage): Promise<Response> {
  const list = events.map(({ json }) => json).join(',')
  const bytes = Buffer.from(`{"events":[${list}],"next":"${next}","has_more":${hasMore}}`)
  return await sendJson(context, new Json(bytes, computeTag(bytes)))
}

function sendGone(context: Context, { message }: CursorGone): Response {
  const restart = { since: 'latest', url: `${MIRROR_PATH}${PATH}?since=latest` }
  const detail = `${message} Begin anew: get the cursor of ${restart.url}, read everything once, then follow that cursor.`
  return context.json({ error: 'cursor_gone', detail, restart }, 410)
}

function cutIfStalled(context: Context): void {
  const { outgoing } = (context.env ?? {}) as Partial<HttpBindings>
  outgoing?.setTimeout(STALLED_MS, () => outgoing.destroy())
}

function pageSchema(): object {
  const value = { description: 'Null if the field had, or has, no value.' }
  return {
    type: 'object',
    required: ['events', 'next', 'has_more'],
    properties: {
      events: {
        type: 'array',
        items: {
          type: 'object',
          required: ['cursor', 'at', 'edital_id', 'kind'],
          properties: {
            cursor: { type: 'string', description: 'The position after this event.' },
            at: { type: 'string', format: 'date-time', description: 'When the mirror saw it.' },
            edital_id: { type: 'string' },
            kind: { type: 'string', description: 'More kinds may be added.', enum: Object.keys(KINDS) },
            fields: {
              type: 'array',
              items: { type: 'string' },
              description: 'Names of fields that changed.',
            },
            from: { type: ['string', 'null'], description: 'Of `verdict_changed`.' },
            to: { type: ['string', 'null'], description: 'Of `verdict_changed`.' },
            changes: {
              type: 'array',
              description: 'With `include=values`.',
              items: {
                type: 'object',
                required: ['field'],
                properties: {
                  field: { type: 'string' },
                  before: value,
                  after: value,
                  omitted: { const: true, description: 'A value is longer than 2 kB; read the document.' },
                },
              },
            },
          },
        },
      },
      next: { type: 'string', description: '`since` of the next request.' },
      has_more: { type: 'boolean', description: 'Whether more events are there already.' },
    },
  }
}

function goneSchema(): object {
  return {
    type: 'object',
    required: ['error', 'detail', 'restart'],
    properties: {
      error: { const: 'cursor_gone' },
      detail: { type: 'string' },
      restart: {
        type: 'object',
        required: ['since', 'url'],
        properties: { since: { const: 'latest' }, url: { type: 'string' } },
      },
    },
  }
}

/**
 * Yields server-sent events (WHATWG HTML, 9.2): the id of each is its cursor, so a client that reconnects continues without help.
 * Ends when the server stops, the key is no longer valid, or the log is another one: the next request says why.
 * @param first the first page, read before the answer began.
 */
async function* streamEvents(
  follower: FeedFollower,
  first: FeedPage,
  isStillValid: () => boolean,
): AsyncGenerator<Uint8Array> {
  const endMs = performance.now() + LASTS_MS
  yield* pieces(`retry: ${COME_BACK_MS}\n\n${formatEvents(first)}`)
  for (let page: FeedPage | null = first; page && performance.now() < endMs; ) {
    if (!page.hasMore) {
      const woken = await follower.sleep(HEARTBEAT_MS)
      if (woken === 'stopping' || woken === 'gone') return
    }
    if (!isStillValid()) return
    // Whatever is wrong, the next request gets it as an answer.
    page = await follower.next().catch(() => null)
    if (page) yield* pieces(formatEvents(page) || HEARTBEAT)
  }
}

function formatEvents({ events }: FeedPage): string {
  return events.map(({ cursor, kind, json }) => `id: ${cursor}\nevent: ${kind}\ndata: ${json}\n\n`).join('')
}

/** Cuts a text into pieces: a client has as long for each as it may take to read anything. */
function* pieces(text: string): Generator<Uint8Array> {
  const bytes = Buffer.from(text)
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) yield bytes.subarray(at, at + PIECE_BYTES)
}

/** How soon a client whose key is revoked no longer waits. */
const LOOK_AT_KEY_MS = 2000

type Options = {
  readonly source: Pick<MirrorSource, 'company' | 'feed' | 'snapshot' | 'waiting' | 'isStillValid'>
  readonly inTurn: <T>(work: () => Promise<T>) => Promise<T | null>
  /** Aborted when the client is gone. */
  readonly gone: AbortSignal
  /** A cursor, `latest`, or null for the beginning of the log. */
  readonly since: string | null
  readonly request: Omit<PageRequest, 'upTo' | 'madeMs'>
}

/** One client that reads the changes of its company, page by page, and waits for more. */
class FeedFollower {
  readonly #options: Options
  #since: string | null
  /** The name of the snapshot that was read last. */
  #read: string | null = null

  constructor(options: Options) {
    this.#options = options
    this.#since = options.since
  }

  /**
   * Returns the next page; empty if there is nothing new. Null if the client is gone.
   * @throws Refusal and CursorGone, as `Feed` does.
   */
  async next(): Promise<FeedPage | null> {
    const { source, inTurn, request } = this.#options
    const feed = source.feed()
    const snapshot = await feed.ready(() => source.snapshot())
    this.#read = snapshot.name
    const page = await inTurn(async () => {
      // Checked again for each page: the log may have been replaced since the last one.
      return feed.page(feed.findPosition(this.#since, snapshot), snapshot, request)
    })
    if (page) this.#since = page.next
    return page
  }

  /** Waits for the next snapshot, for as long as its key is valid. */
  async sleep(ms: number): Promise<Woken> {
    const { source, gone } = this.#options
    // Published since: no client would be woken for it again.
    if (!gone.aborted && this.#read !== null && source.snapshot().name !== this.#read) return 'published'
    const endMs = performance.now() + ms
    for (;;) {
      const leftMs = endMs - performance.now()
      const woken = await source.waiting.sleep(source.company, Math.min(leftMs, LOOK_AT_KEY_MS), gone)
      if (woken !== 'late' || leftMs <= LOOK_AT_KEY_MS || !source.isStillValid()) return woken
    }
  }

  /** Returns the next page that has events, or the last one when the time is over. */
  async nextWithin(ms: number): Promise<FeedPage | null> {
    const { source } = this.#options
    const endMs = performance.now() + ms
    for (;;) {
      const page = await this.next()
      if (!page || page.events.length > 0) return page
      const leftMs = endMs - performance.now()
      if (leftMs <= 0) return page
      const woken = await this.sleep(leftMs)
      if (woken === 'gone') return null
      if (!source.isStillValid())
        throw new Refusal(401, 'The API key was revoked or has expired while the request waited.')
      if (woken !== 'published') return page
    }
  }
}
