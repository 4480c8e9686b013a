import { createHash } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'

/**
 * An S3 server in memory, as strict as a store may be: conditional writes, hashes of bodies, small list pages. It
 * checks no signature. `fault` decides about each request before it is carried out.
 */

export type Stored = {
  readonly bytes: Buffer
  readonly tag: string
  readonly modified: Date
  /** Headers that the writer gave it. */
  readonly metadata?: Readonly<Record<string, string>>
}
export type S3Request = {
  readonly method: string
  readonly key: string
  readonly isConditional: boolean
  /** The access key id that it was signed with. */
  readonly keyId: string
}

/**
 * `lose`: carried out, but the connection ends without an answer. `drop`: it ends before the request is carried out. A
 * number: this status instead of an answer. `endless`: an answer that begins well, and never ends.
 */
export type Fault = 'lose' | 'drop' | 'endless' | number | null

export type S3Server = {
  readonly url: string
  readonly bucket: string
  readonly objects: Map<string, Stored>
  /** All requests that were answered or lost, in order. */
  readonly requests: S3Request[]
  fault: (request: S3Request) => Fault
  /** Awaited before each request. */
  gate: (request: S3Request) => Promise<void>
  /** The store's clock. */
  now: () => Date
  latencyMs: number
  /** Whether conditions of writes are enforced. */
  isStrict: boolean
  /** Whether If-Match is, too. */
  knowsIfMatch: boolean
  /** How far the clock of who signs a request may be from the store's: none does by default. */
  clockToleranceMs: number
  close(): void
}

export const BUCKET = 'lake'
const PAGE = 7

/** Writes a key as `S3_CREDENTIALS_FILE` has it, after that of another profile. @returns the path. @param id by default the secret, too. */
export async function writeCredentials(path: string, id: string, secret = id): Promise<string> {
  await writeFile(
    path,
    `[other]\naws_access_key_id=x\n\n[default]\r\naws_access_key_id = ${id}\r\naws_secret_access_key = ${secret}\n`,
  )
  return path
}

/** Starts an object store. @param host the address that it listens on; the port is a free one. */
export async function startS3(host = '127.0.0.1'): Promise<S3Server> {
  const server: S3Server = {
    url: '',
    bucket: BUCKET,
    objects: new Map(),
    requests: [],
    fault: () => null,
    gate: async () => {},
    now: () => new Date(),
    latencyMs: 0,
    isStrict: true,
    knowsIfMatch: true,
    clockToleranceMs: Number.POSITIVE_INFINITY,
    close() {
      http.closeAllConnections()
      http.close()
    },
  }
  const http = createServer((request, response) => void answer(server, request, response))
  await new Promise<void>(resolve => http.listen(0, host, resolve))
  return Object.assign(server, { url: `http://${host}:${(http.address() as AddressInfo).port}` })
}

async function answer(server: S3Server, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? '/', 'http://s3')
  const [, bucket, ...path] = decodeURIComponent(url.pathname).split('/')
  const { method = 'GET', headers } = request
  const asked = {
    method,
    key: path.join('/'),
    isConditional: Boolean(headers['if-none-match'] ?? headers['if-match']),
    keyId: /Credential=([^/]+)/.exec(headers.authorization ?? '')?.[1] ?? '',
  }
  // A client may leave in the middle of its request.
  const body = await buffer(request).catch(() => null)
  if (body === null) return void response.destroy()
  if (server.latencyMs > 0) await new Promise(resolve => setTimeout(resolve, server.latencyMs))
  await server.gate(asked)
  server.requests.push(asked)
  const fault = server.fault(asked)
  if (fault === 'drop') return void request.socket.destroy()
  if (fault === 'endless') return sendForever(response)
  if (typeof fault === 'number') return refuse(response, fault, 'Injected')
  if (Number.isFinite(server.clockToleranceMs)) response.setHeader('date', server.now().toUTCString())
  if (Math.abs(signedAt(headers) - server.now().getTime()) > server.clockToleranceMs)
    return refuse(response, 403, 'RequestTimeTooSkewed')
  if (bucket !== BUCKET) return refuse(response, 404, 'NoSuchBucket')
  const sent = headers['x-amz-content-sha256']
  if (typeof sent === 'string' && /^[0-9a-f]{64}$/.test(sent) && sent !== sha256(body))
    return refuse(response, 400, 'XAmzContentSHA256Mismatch')
  const reply = carryOut(server, asked, { url, headers, body })
  if (fault === 'lose') return void request.socket.destroy()
  if (typeof reply === 'function') return reply(response)
  response.writeHead(200, { 'content-type': 'application/xml' }).end(reply)
}

/** Sends bytes until the client closes the connection. */
function sendForever(response: ServerResponse): void {
  const some = Buffer.alloc(64 * 1024, ' ')
  response.writeHead(200, { etag: '"endless"', 'content-type': 'application/xml' })
  const send = () => {
    while (!response.destroyed) if (!response.write(some)) return void response.once('drain', send)
  }
  send()
}

type Sent = { readonly url: URL; readonly headers: IncomingMessage['headers']; readonly body: Buffer }

function carryOut(
  { objects, isStrict, knowsIfMatch, now }: S3Server,
  { method, key }: S3Request,
  { url, headers, body }: Sent,
): string | ((response: ServerResponse) => void) {
  if (key === '' && method === 'GET') return list(objects, url.searchParams)
  if (key === '' && method === 'POST' && url.searchParams.has('delete')) {
    for (const [, name = ''] of body.toString().matchAll(/<Key>([^<]*)<\/Key>/g)) objects.delete(name)
    return '<DeleteResult/>'
  }
  const stored = objects.get(key)
  if (method === 'PUT') {
    const isRefused =
      isStrict &&
      ((headers['if-none-match'] === '*' && stored !== undefined) ||
        (knowsIfMatch && headers['if-match'] !== undefined && headers['if-match'] !== stored?.tag))
    if (isRefused) return response => refuse(response, 412, 'PreconditionFailed')
    const tag = `"${createHash('md5').update(body).digest('hex')}"`
    objects.set(key, { bytes: body, tag, modified: now(), metadata: metadataIn(headers) })
    return response => response.writeHead(200, { etag: tag }).end()
  }
  if (stored === undefined) return response => refuse(response, 404, 'NoSuchKey')
  return response => send(response, stored, { method, range: headers.range, now })
}

function send(
  response: ServerResponse,
  { bytes, tag, modified, metadata }: Stored,
  { method, range, now }: { method: string; range: string | undefined; now: () => Date },
): void {
  const [, from = '0', to = ''] = /^bytes=(\d+)-(\d*)$/.exec(range ?? '') ?? []
  const part = range ? bytes.subarray(Number(from), to === '' ? undefined : Number(to) + 1) : bytes
  response.writeHead(range ? 206 : 200, {
    etag: tag,
    'content-length': part.length,
    date: now().toUTCString(),
    'last-modified': modified.toUTCString(),
    'accept-ranges': 'bytes',
    ...metadata,
    ...(range ? { 'content-range': `bytes ${from}-${Number(from) + part.length - 1}/${bytes.length}` } : {}),
  })
  response.end(method === 'HEAD' ? undefined : part)
}

function list(objects: S3Server['objects'], query: URLSearchParams): string {
  const prefix = query.get('prefix') ?? ''
  const after = query.get('continuation-token') ?? query.get('start-after') ?? ''
  const keys = [...objects.keys()].sort().filter(key => key.startsWith(prefix) && key > after)
  const page = keys.slice(0, PAGE)
  const contents = page.map(key => {
    const { bytes, tag, modified } = objects.get(key) as Stored
    return `<Contents><Key>${key}</Key><Size>${bytes.length}</Size><ETag>${tag.replaceAll('"', '&quot;')}</ETag><LastModified>${modified.toISOString()}</LastModified></Contents>`
  })
  const next = keys.length > PAGE ? `<NextContinuationToken>${page.at(-1)}</NextContinuationToken>` : ''
  return `<?xml version="1.0"?><ListBucketResult><Name>${BUCKET}</Name><Prefix>${prefix}</Prefix><KeyCount>${page.length}</KeyCount><IsTruncated>${next !== ''}</IsTruncated>${contents.join('')}${next}</ListBucketResult>`
}

/** Reads when a request was signed, such as 20261231T235959Z. */
function signedAt(headers: IncomingMessage['headers']): number {
  const [, ...parts] = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(String(headers['x-amz-date'])) ?? []
  const [year = 0, month = 0, ...rest] = parts.map(Number)
  return Date.UTC(year, month - 1, ...rest)
}

function metadataIn(headers: IncomingMessage['headers']): Record<string, string> {
  const own = Object.entries(headers).filter(([name]) => name.startsWith('x-amz-meta-'))
  return Object.fromEntries(own.map(([name, value]) => [name, String(value)]))
}

function refuse(response: ServerResponse, status: number, code: string): void {
  response.writeHead(status, { 'content-type': 'application/xml' })
  response.end(`<?xml version="1.0"?><Error><Code>${code}</Code><Message>${code}</Message></Error>`)
}

function sha256(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex')
}
