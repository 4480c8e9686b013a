import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import zlib from 'node:zlib'
import { analysis } from '#schema/analysis.ts'
import { LIST_LIMIT, notice } from '#schema/notice.ts'
import { createRandom } from '#src/sandbox/random.ts'
import { type Company, createCompany } from './company.ts'

/*
 * The API of contract section 4 for one generated company, in a process of its own. It is told what to do
 * by its parent's messages and ends with it.
 */

export type Kind = 'list' | 'notice' | 'analysis' | 'refused'
/** Requests of one kind since the counters were last read; times are of the system's clock. */
export type Counter = { requests: number; bytes: number; firstMs: number; lastMs: number }
export type Counters = Readonly<Record<Kind, Counter>>

/** What the company is like; sizes in bytes of JSON. */
export type About = {
  readonly notices: number
  readonly averageBytes: number
  readonly largestBytes: number
  readonly averageChildren: number
  /** How much zstd at level 1 shrinks the analyses. */
  readonly compression: number
}
export type Asked = { readonly kind: 'counters' } | { readonly kind: 'change'; readonly share: number }
export type Said =
  | { readonly kind: 'ready'; readonly port: number; readonly about: About }
  | { readonly kind: 'counters'; readonly counters: Counters }
  | { readonly kind: 'changed'; readonly count: number }

const PREFIX = '/api/v1/editais'
/** So many documents are checked against the contract's schema; more would only take time. */
const CHECKED_DOCUMENTS = 50
/** About what one block of the raw log holds. */
const COMPRESSED_DOCUMENTS = 110
const CHANGED_WITHIN_MONTHS = 2

const [notices = 20_000, latencyMs = 0] = process.argv.slice(2, 4).map(Number)
const [seed = 'bench', apiKey = ''] = process.argv.slice(4, 6)
const company = createCompany(notices, seed)
const ids = new Map(company.subjects.map(({ id }, index) => [id, index]))
const versions = new Uint32Array(notices)
const lists: Buffer[] = []
const analyses: Buffer[] = []
let counters = newCounters()

const children = company.subjects.reduce((sum, _, index) => sum + write(index), 0)
const about = describe(children)
checkSample(company)

function write(index: number): number {
  const version = versions[index] as number
  const subject = company.subjects[index] as Company['subjects'][number]
  const made = company.analysis(index, version)
  const updatedAt = new Date(subject.createdAt.getTime() + (version + 1) * 3_600_000)
  lists[index] = Buffer.from(company.notice(index, updatedAt))
  analyses[index] = Buffer.from(made.json)
  return made.children
}

function describe(childRows: number): About {
  const bytes = analyses.reduce((sum, body) => sum + body.length, 0)
  const some = Buffer.concat(analyses.slice(0, COMPRESSED_DOCUMENTS))
  const level = { params: { [zlib.constants.ZSTD_c_compressionLevel]: 1 } }
  return {
    notices,
    averageBytes: Math.round(bytes / notices),
    largestBytes: Math.max(...analyses.map(body => body.length)),
    averageChildren: childRows / notices,
    compression: some.length / zlib.zstdCompressSync(some, level).length,
  }
}

/** What is measured must be the contract's documents. */
function checkSample({ subjects }: Company): void {
  for (let index = 0; index < Math.min(CHECKED_DOCUMENTS, subjects.length); index += 1) {
    notice.parse(JSON.parse(String(lists[index])))
    analysis.parse(JSON.parse(String(analyses[index])))
  }
}

/** Changes this share of all notices, taken from the newest months; returns how many. */
function change(share: number): number {
  const newest = company.subjects[0]?.createdAt ?? new Date()
  const since = Date.UTC(newest.getUTCFullYear(), newest.getUTCMonth() - CHANGED_WITHIN_MONTHS + 1)
  const recent = company.subjects.flatMap(({ createdAt }, index) =>
    createdAt.getTime() >= since ? index : [],
  )
  const chosen = createRandom(`${seed}:change`).sample(recent, Math.max(1, Math.round(notices * share)))
  for (const index of chosen) {
    versions[index] = (versions[index] as number) + 1
    write(index)
  }
  return chosen.length
}

function newCounters(): Counters {
  const counter = (): Counter => ({ requests: 0, bytes: 0, firstMs: 0, lastMs: 0 })
  return { list: counter(), notice: counter(), analysis: counter(), refused: counter() }
}

type Answer = { readonly kind: Kind; readonly status: number; readonly body: Buffer }

function answer(request: IncomingMessage): Answer {
  if (request.headers.authorization !== `Bearer ${apiKey}`) return refuse(401, 'unauthorized')
  const [path = '', query = ''] = (request.url ?? '').split('?')
  if (path === PREFIX) return { kind: 'list', status: 200, body: page(new URLSearchParams(query)) }
  const [id = '', part] = path.slice(PREFIX.length + 1).split('/')
  const index = ids.get(id)
  if (index === undefined || !path.startsWith(`${PREFIX}/`)) return refuse(404, 'not_found')
  return part === 'analysis'
    ? { kind: 'analysis', status: 200, body: analyses[index] as Buffer }
    : { kind: 'notice', status: 200, body: lists[index] as Buffer }
}

function refuse(status: number, error: string): Answer {
  return { kind: 'refused', status, body: Buffer.from(JSON.stringify({ error })) }
}

const COMMA = Buffer.from(',')

function page(query: URLSearchParams): Buffer {
  const limit = Math.min(LIST_LIMIT.max, Number(query.get('limit') ?? LIST_LIMIT.default))
  const offset = Number(query.get('offset') ?? 0)
  const shown = lists.slice(offset, offset + limit)
  const end = `],"count":${shown.length},"total":${notices},"limit":${limit},"offset":${offset}}`
  const parts = shown.flatMap((body, index) => (index === 0 ? body : [COMMA, body]))
  return Buffer.concat([Buffer.from('{"editais":['), ...parts, Buffer.from(end)])
}

function respond(request: IncomingMessage, response: ServerResponse): void {
  const nowMs = Date.now()
  const { kind, status, body } = answer(request)
  const counter = counters[kind]
  counter.requests += 1
  counter.bytes += body.length
  counter.firstMs ||= nowMs
  counter.lastMs = nowMs
  const send = () => {
    response.writeHead(status, { 'content-type': 'application/json', 'content-length': body.length })
    response.end(body)
  }
  if (latencyMs > 0) setTimeout(send, latencyMs)
  else send()
}

function say(message: Said): void {
  process.send?.(message)
}

process.on('message', (asked: Asked) => {
  if (asked.kind === 'change') return say({ kind: 'changed', count: change(asked.share) })
  say({ kind: 'counters', counters })
  counters = newCounters()
})
process.on('disconnect', () => process.exit())

const server = createServer(respond)
// A connection that rests while the client loads what it fetched is not to be cut.
server.keepAliveTimeout = 10 * 60_000
server.listen(0, '127.0.0.1', () =>
  say({ kind: 'ready', port: (server.address() as AddressInfo).port, about }),
)
