import type { IncomingMessage, ServerResponse } from 'node:http'
import { pipeline, Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { LIST_LIMIT } from '#schema/notice.ts'
import { getMessage } from '#src/lib/errors.ts'
import { hashContent } from '#src/lib/hash.ts'
import { type Intercept, startHttp } from '#src/lib/http/server.ts'
import { createService } from '#src/server/contract/app.ts'
import type { Extras } from '#src/server/contract/openapi.ts'
import { createApiRoutes } from '#src/server/contract/routes.ts'
import type { NoticeSource } from '#src/server/contract/source.ts'
import { createStrikes, type Fault, type Faults, noFaults, type RawAnswer } from './faults.ts'
import { computeFraction } from './random.ts'
import {
  createRequestLog,
  describeRequest,
  type RequestLog,
  recordRequest,
  requestUrl,
  type SandboxRequest,
} from './requests.ts'

type Keyring<T> = {
  /** Returns the holder of a key; null if the key is unknown or revoked. */
  find(key: string): T | null
  /** Rejects the key from now on. */
  revoke(key: string): void
}

/** Keys are looked up by their hash, so the time of a rejection reveals nothing about any key. */
function createKeyring<T>(
  holders: readonly { key: string; holder: T }[],
  revoked: readonly string[] = [],
): Keyring<T> {
  const byHash = new Map(holders.map(({ key, holder }) => [hashContent(key), holder]))
  const revoke = (key: string) => void byHash.delete(hashContent(key))
  revoked.forEach(revoke)
  return { find: key => byHash.get(hashContent(key)) ?? null, revoke }
}

/** Returns the key of a company in the sandbox; the same seed and slug give the same key. */
export function deriveSandboxKey(seed: string | number, slug: string): string {
  return `edk_${slug}_${hashContent(`sandbox ${seed} ${slug}`).slice(0, 32)}`
}

export type SandboxCompany = {
  readonly slug: string
  readonly key: string
  readonly world: NoticeSource
  /** The company's former keys: rejected. */
  readonly revokedKeys?: readonly string[]
}

type SandboxOptions = {
  readonly companies: readonly SandboxCompany[]
  readonly faults?: Faults
  /** Decides which requests a fault with a probability affects. */
  readonly seed?: string | number
  readonly host?: string
  /** 0 picks a free port. */
  readonly port?: number
}

export type Sandbox = {
  /** Origin without a trailing slash: the client's API_BASE_URL. */
  readonly url: string
  readonly port: number
  /** May be changed at any time; the next request sees it. */
  readonly faults: Faults
  readonly requests: RequestLog
  /** Open connections: what a dead client sent is read until its connection ends. */
  connections(): number
  /** Rejects the key from now on. */
  revoke(key: string): void
  /** Stops at once: open requests lose their connection. */
  close(): Promise<void>
}

/**
 * Serves the contract's whole API for several companies, by default on the loopback address only.
 * Throws FatalError with exit code 2 if the port is taken or not allowed.
 */
export async function startSandbox(options: SandboxOptions): Promise<Sandbox> {
  const { companies, faults = noFaults(), host = '127.0.0.1', port = 0 } = options
  const keyring = createKeyring(
    companies.map(company => ({ key: company.key, holder: company })),
    companies.flatMap(company => company.revokedKeys ?? []),
  )
  const api = createApiRoutes({ companyOfKey: key => keyring.find(key)?.world ?? null })
  const service = createService({ api, extras: SANDBOX_EXTRAS, log: null, contents: CONTENTS })
  const requests = createRequestLog()
  const strikes = createStrikes(faults, options.seed)

  const intercept: Intercept = async (incoming, outgoing, serve) => {
    const request = describeRequest(incoming, key => keyring.find(key)?.slug ?? null)
    const finish = recordRequest(requests, request)
    outgoing.once('close', () => finish(outgoing.writableFinished ? outgoing.statusCode : null))
    const answering: Answering = {
      serve,
      ask: async () => await service.fetch(toRequest(incoming), { incoming }),
    }
    try {
      await faults.onRequest?.(request)
      const raw = await faults.respond?.(request)
      if (raw) sendRaw(outgoing, raw)
      else await answerWithFaults(answering, { incoming, outgoing, request }, strikes(request))
    } catch (error) {
      const detail = getMessage(error)
      if (outgoing.headersSent) outgoing.destroy()
      else sendRaw(outgoing, { status: 500, body: JSON.stringify({ error: 'internal_error', detail }) })
    }
  }
  const http = await startHttp(service, {
    host,
    port,
    intercept,
    explain: code =>
      code === 'EADDRINUSE'
        ? `Port ${port} is already in use; choose another with --port.`
        : `Cannot listen on ${host}:${port} (${code}).`,
  })
  return {
    url: http.url,
    port: http.port,
    faults,
    requests,
    connections: () => http.connections().open,
    revoke: keyring.revoke,
    close: () => http.abort(),
  }
}

const SANDBOX_EXTRAS: Extras = {
  about: `
This is the sandbox: its companies and notices are made up. With \`--fault\`, responses may differ from this description.
`,
  parameters: [],
  responses: {},
  headers: {},
  localSessions: true,
}

const CONTENTS = {
  'GET /api/v1/editais': 'notices, page by page; needs an API key, which the sandbox prints at startup',
  'GET /api/v1/editais/{id}': 'one notice',
  'GET /api/v1/editais/{id}/analysis': 'its analysis',
  'GET /openapi.json': 'description of this API, OpenAPI 3.1',
  'GET /docs': 'the same description for a browser',
  'GET /healthz': 'liveness of this process',
}

function toRequest(incoming: IncomingMessage): Request {
  const headers = Object.entries(incoming.headersDistinct).flatMap(([name, values = []]) =>
    values.map((value): [string, string] => [name, value]),
  )
  return new Request(`http://sandbox.invalid${incoming.url ?? '/'}`, {
    method: incoming.method ?? 'GET',
    headers,
  })
}

/** The API without faults. */
type Answering = {
  /** Answers as the API would, by the fastest way. */
  readonly serve: () => Promise<void>
  /** Returns the API's answer without sending it. */
  readonly ask: () => Promise<Response>
}

type Exchange = {
  readonly incoming: IncomingMessage
  readonly outgoing: ServerResponse
  readonly request: SandboxRequest
}

/** Sends the API's answer, changed or replaced by the faults that apply. */
async function answerWithFaults(
  api: Answering,
  { incoming, outgoing, request }: Exchange,
  faults: readonly Fault[],
): Promise<void> {
  for (const fault of faults) {
    if (fault.fault === 'latency') await sleep(latencyMs(fault, request), null, { ref: false })
  }
  const replacement = faults.find(replacesAnswer)
  if (replacement) return replaceAnswer(replacement, { incoming, outgoing, request })
  if (request.kind === 'list') for (const fault of faults) bendRequest(fault, incoming)
  if (!faults.some(fault => BENDS.includes(fault.fault))) return api.serve()

  const response = await api.ask()
  const whole = await response.text()
  const bends = faults.toSorted((a, b) => BENDS.indexOf(a.fault) - BENDS.indexOf(b.fault))
  const body = response.ok ? bends.reduce((text, fault) => bendBody(text, fault, request), whole) : whole
  const answer = { status: response.status, headers: Object.fromEntries(response.headers), body }
  if (faults.some(fault => fault.fault === 'reset')) return resetMidBody(outgoing, answer)
  sendRaw(outgoing, answer)
}

/** Sends exactly these bytes; `content-length` is their number unless the headers set it. */
function sendRaw(outgoing: ServerResponse, { status, headers, body }: RawAnswer): void {
  outgoing.writeHead(status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    ...headers,
  })
  outgoing.end(body)
}

/** In the order they are applied: faults that parse the body come before those that break it. */
const BENDS: readonly Fault['fault'][] = ['mutate', 'total', 'pretty', 'bom', 'truncate', 'reset']

function replacesAnswer(fault: Fault): boolean {
  if (fault.fault === 'reset') return fault.when === 'before_headers'
  return ['status', 'hang', 'oversize', 'redirect'].includes(fault.fault)
}

function latencyMs({ ms, toMs }: Fault & { fault: 'latency' }, request: SandboxRequest): number {
  if (toMs === undefined) return ms
  return ms + computeFraction(`latency ${request.kind} ${request.id} ${request.offset}`) * (toMs - ms)
}

function replaceAnswer(fault: Fault, { incoming, outgoing }: Exchange): void {
  if (fault.fault === 'reset') {
    incoming.socket.resetAndDestroy()
  } else if (fault.fault === 'status') {
    sendRaw(outgoing, statusAnswer(fault))
  } else if (fault.fault === 'redirect') {
    sendRaw(outgoing, { status: 302, headers: { location: `${fault.origin}${incoming.url}` }, body: '' })
  } else if (fault.fault === 'oversize') {
    outgoing.writeHead(200, { 'content-type': 'application/json' })
    pipeline(Readable.from(paddedJson(fault.bytes)), outgoing, () => outgoing.destroy())
  }
}

function statusAnswer(fault: Fault & { fault: 'status' }): RawAnswer {
  const { status, retryAfterSeconds: seconds, retryAfterAs, body } = fault
  const html = body === 'html'
  return {
    status,
    headers: {
      ...(html && { 'content-type': 'text/html; charset=utf-8' }),
      ...(seconds !== undefined && {
        'retry-after':
          retryAfterAs === 'date' ? new Date(Date.now() + seconds * 1000).toUTCString() : String(seconds),
      }),
    },
    body: html
      ? `<!DOCTYPE html><html><head><title>${status}</title></head><body><h1>${status}</h1></body></html>`
      : JSON.stringify({ error: status === 429 ? 'too_many_requests' : 'unavailable' }),
  }
}

function* paddedJson(bytes: number): Generator<Buffer> {
  const [head, tail] = [Buffer.from('{"padding":"'), Buffer.from('"}')]
  const chunk = Buffer.alloc(64 * 1024, 'x')
  yield head
  for (let left = bytes - head.length - tail.length; left > 0; left -= chunk.length) {
    yield chunk.subarray(0, Math.min(left, chunk.length))
  }
  yield tail
}

function bendRequest(fault: Fault, incoming: IncomingMessage): void {
  const url = requestUrl(incoming)
  if (fault.fault === 'ignore_offset') url.searchParams.delete('offset')
  else if (fault.fault === 'clamp_limit') {
    const limit = Number(url.searchParams.get('limit') ?? LIST_LIMIT.default)
    url.searchParams.set('limit', String(Math.min(limit, fault.max)))
  } else return
  incoming.url = `${url.pathname}${url.search}`
}

function bendBody(text: string, fault: Fault, request: SandboxRequest): string {
  switch (fault.fault) {
    case 'mutate':
      return JSON.stringify(fault.mutate(JSON.parse(text), request)) ?? ''
    case 'total': {
      const page = JSON.parse(text) as { total?: number }
      return page.total === undefined ? text : JSON.stringify({ ...page, total: page.total + fault.by })
    }
    case 'pretty':
      return JSON.stringify(JSON.parse(text), null, 2)
    case 'bom':
      return `\ufeff${text}`
    case 'truncate':
      return text.slice(0, Math.floor(text.length / 2))
    default:
      return text
  }
}

function resetMidBody(outgoing: ServerResponse, { status, headers, body }: RawAnswer): void {
  const bytes = Buffer.from(body)
  outgoing.writeHead(status, { ...headers, 'content-length': bytes.length })
  outgoing.write(bytes.subarray(0, Math.floor(bytes.length / 2)), () => outgoing.socket?.resetAndDestroy())
}
