import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { LIST_LIMIT } from '#schema/notice.ts'
import { createRandom } from '#src/sandbox/random.ts'
import { sum } from '../frame/figures.ts'
import { answerCalls } from '../processes/calls.ts'
import { createTexts } from './text.ts'
import { type About, createWorld, type World } from './world.ts'

/** The API of docs/contract.md#endpoints for generated companies, each with its key, in a separate process. */

/** The only argument, as JSON. */
export type ApiOptions = {
  readonly companies: readonly { readonly notices: number; readonly seed: string; readonly apiKey: string }[]
  readonly latencyMs: number
}

type Kind = 'list' | 'notice' | 'analysis' | 'refused'
/** Requests of one kind since the counters were last read; times are from the system clock. */
type Counter = { requests: number; firstMs: number; lastMs: number }
export type Counters = Readonly<Record<Kind, Counter>>

/** A number of requests of one kind since the counters were last read. */
export type Mark = { readonly kind: Kind; readonly requests: number }

const PREFIX = '/api/v1/editais'

const { companies, latencyMs } = JSON.parse(process.argv[2] as string) as ApiOptions
const texts = createTexts(createRandom(`${companies[0]?.seed}:texts`))
const worlds = new Map(
  companies.map(({ notices, seed, apiKey }) => [`Bearer ${apiKey}`, createWorld(notices, seed, texts)]),
)
let counters = newCounters()
let waiting: { readonly mark: Mark; readonly resolve: () => void } | null = null

function newCounters() {
  const counter = (): Counter => ({ requests: 0, firstMs: 0, lastMs: 0 })
  return { list: counter(), notice: counter(), analysis: counter(), refused: counter() }
}

type Answer = { readonly kind: Kind; readonly status: number; readonly body: Buffer }

function answer(request: IncomingMessage): Answer {
  const world = worlds.get(request.headers.authorization ?? '')
  if (!world) return refuse(401, 'unauthorized')
  const [path = '', query = ''] = (request.url ?? '').split('?')
  if (path === PREFIX) return { kind: 'list', status: 200, body: page(world, new URLSearchParams(query)) }
  const [id = '', part] = path.slice(PREFIX.length + 1).split('/')
  const index = world.indexOf(id)
  if (index === undefined || !path.startsWith(`${PREFIX}/`)) return refuse(404, 'not_found')
  if (part !== 'analysis') return { kind: 'notice', status: 200, body: world.lists[index] as Buffer }
  return { kind: 'analysis', status: 200, body: world.analyses[index] as Buffer }
}

function refuse(status: number, error: string): Answer {
  return { kind: 'refused', status, body: Buffer.from(JSON.stringify({ error })) }
}

const COMMA = Buffer.from(',')

function page({ lists }: World, query: URLSearchParams): Buffer {
  const limit = Math.min(LIST_LIMIT.max, Number(query.get('limit') ?? LIST_LIMIT.default))
  const offset = Number(query.get('offset') ?? 0)
  const shown = lists.slice(offset, offset + limit)
  const end = `],"count":${shown.length},"total":${lists.length},"limit":${limit},"offset":${offset}}`
  const parts = shown.flatMap((body, index) => (index === 0 ? body : [COMMA, body]))
  return Buffer.concat([Buffer.from('{"editais":['), ...parts, Buffer.from(end)])
}

function respond(request: IncomingMessage, response: ServerResponse): void {
  const nowMs = Date.now()
  const { kind, status, body } = answer(request)
  count(counters[kind], nowMs)
  const send = () => {
    response.writeHead(status, { 'content-type': 'application/json', 'content-length': body.length })
    response.end(body)
  }
  if (latencyMs > 0) setTimeout(send, latencyMs)
  else send()
}

function count(counter: Counter, nowMs: number): void {
  counter.requests += 1
  counter.firstMs ||= nowMs
  counter.lastMs = nowMs
  noticeMark()
}

function noticeMark(): void {
  if (waiting && counters[waiting.mark.kind].requests >= waiting.mark.requests) waiting.resolve()
}

const server = createServer(respond)
// Keeps connections open that are idle while the client loads what it fetched.
server.keepAliveTimeout = 10 * 60_000
await once(server.listen(0, '127.0.0.1'), 'listening')

const calls = {
  url: () => `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
  /** One for each company, in order. */
  about: (): About[] => [...worlds.values()].map(({ about }) => about),
  /** Requests since the last call. */
  counters(): Counters {
    const read = counters
    counters = newCounters()
    return read
  },
  /** Changes this share of each company's notices. @returns their number. */
  change: (share: number) => sum([...worlds.values()].map(world => world.change(share))),
  /** Answers when the mark is reached; only one call at a time. */
  async reached(mark: Mark): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    waiting = { mark, resolve }
    noticeMark()
    await promise
  },
}
export type ApiCalls = typeof calls

answerCalls(calls)
