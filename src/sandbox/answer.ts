import type { IncomingMessage, ServerResponse } from 'node:http'
import { pipeline, Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { LIST_LIMIT } from '#schema/notice.ts'
import type { Fault, RawAnswer } from './faults.ts'
import { fractionOf } from './random.ts'
import { requestUrl, type SandboxRequest } from './requests.ts'

/** The API without faults. */
export type Answering = {
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
export async function answerWithFaults(
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
export function sendRaw(outgoing: ServerResponse, { status, headers, body }: RawAnswer): void {
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
  return ms + fractionOf(`latency ${request.kind} ${request.id} ${request.offset}`) * (toMs - ms)
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
