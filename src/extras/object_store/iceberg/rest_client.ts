import pRetry from 'p-retry'
import type { CatalogLogin, CatalogSettings } from '#config/iceberg_catalog.ts'
import {
  describeRedirect,
  type HttpClient,
  type HttpReply,
  type HttpRequest,
  isRedirect,
  openHttpClient,
} from '#src/lib/http/client.ts'
import { NetworkError } from '#src/lib/http/network_error.ts'
import { RemoteError, readKeyFile } from '#src/lib/objects/objects.ts'
import type { Patience } from '#src/lib/objects/patience.ts'

/** Requests to an Iceberg REST catalog: how they sign in, and what a refusal means. */

const TIMEOUT_MS = 30_000
/** Without this limit, a catalog that hangs would hold the publish, and its slot. */
const RETRY_WITHIN_MS = 20_000
const CONNECTIONS = 8
const RETRIES = 4
/** The metadata of a table with thousands of snapshots. */
const MAX_BODY_BYTES = 64 * 1024 * 1024
const MAX_TEXT = 300

export type RestClient = {
  /** Name as the subject of a sentence. */
  readonly name: string
  /** Sends a GET, again if the answer may differ the next time. */
  get(path: string): Promise<CatalogAnswer>
  /** Sends a POST once: the caller decides about an unclear answer. */
  post(path: string, body: object): Promise<CatalogAnswer>
  /** Returns the error for an answer that the caller cannot use. */
  refusal(what: string, answer: CatalogAnswer): RemoteError
  close(): void
}

export type CatalogAnswer = {
  /** Null if it is unknown whether the catalog carried out the request. */
  readonly status: number | null
  /** The body if it is a JSON object. */
  readonly json: Readonly<Record<string, unknown>>
  /** Why there is no status, or what the catalog says about a refusal; a clause, or empty. */
  readonly text: string
  /** The catalog's name of the error. */
  readonly type: string
}

/**
 * Sends nothing yet.
 * @param patience once it has ended, requests reject with the reason.
 */
export function openRestClient({ uri, login, retryMs }: CatalogSettings, patience: Patience): RestClient {
  const name = `The catalog at ${uri}`
  const http = openClient(uri, name, patience)
  const { pathname } = new URL(uri)
  let token: Promise<string | null> | null = null
  const send = async (method: 'GET' | 'POST', path: string, body?: object): Promise<CatalogAnswer> => {
    token ??= tokenOf(login, patience)
    const known = await token
    const answer = await ask(http, name, {
      method,
      path: `${pathname === '/' ? '' : pathname}/v1/${path}`,
      headers: {
        accept: 'application/json',
        ...(known === null ? {} : { authorization: `Bearer ${known}` }),
        ...(body ? { 'content-type': 'application/json' } : {}),
      },
      ...(body ? { body: JSON.stringify(body) } : {}),
    })
    const masked = (text: string) => (known === null ? text : text.replaceAll(known, '***'))
    return { ...answer, text: masked(answer.text), type: masked(answer.type) }
  }
  /**
   * Sends a request, and repeats it with a new token if the old one has ended: one that was given for an hour may end during a
   * long upload.
   */
  const withNewToken = async (
    method: 'GET' | 'POST',
    path: string,
    body?: object,
  ): Promise<CatalogAnswer> => {
    const answer = await send(method, path, body)
    if (answer.status !== 401 || login === null || 'tokenFile' in login) return answer
    token = null
    return await send(method, path, body)
  }
  return {
    name,
    get: path => repeatedly(() => withNewToken('GET', path), retryMs, patience.ended),
    post: (path, body) => withNewToken('POST', path, body),
    refusal: (what, answer) => refusal(name, what, answer, login),
    close: () => void http.close(),
  }
}

/** @param name as the subject of a sentence. */
function openClient(uri: string, name: string, patience: Patience): HttpClient {
  const client = openHttpClient({
    signal: patience.ended,
    url: uri,
    connections: CONNECTIONS,
    silenceMs: TIMEOUT_MS,
    answerMs: TIMEOUT_MS,
    limit: `${TIMEOUT_MS / 1000} s`,
    maxBodyBytes: MAX_BODY_BYTES,
  })
  return {
    send: request => patience.attempt(null, () => client.send(request), name),
    close: () => client.close(),
  }
}

/** Sends a request to the catalog. @throws RemoteError if nothing was sent, or the catalog redirects to another server. */
async function ask(http: HttpClient, name: string, request: HttpRequest): Promise<CatalogAnswer> {
  const reply = await http.send(request).catch(error => {
    if (!(error instanceof NetworkError)) throw error
    if (error.trouble === 'untrusted')
      throw new RemoteError(`${name} cannot be trusted: ${error.message}. Check ICEBERG_CATALOG_URI.`)
    return error
  })
  if (reply instanceof NetworkError) {
    if (request.method === 'POST' && reply.trouble === 'unreached')
      throw new RemoteError(`${name} cannot be reached: ${reply.message}.`)
    return { status: null, json: {}, text: reply.message, type: '' }
  }
  if (isRedirect(reply.status))
    throw new RemoteError(`${name} ${describeRedirect(reply, 'ICEBERG_CATALOG_URI')}.`)
  return answerOf(reply)
}

function answerOf({ status, body, isCut }: HttpReply): CatalogAnswer {
  if (isCut) return { status: null, json: {}, text: 'the answer is too large', type: '' }
  const json = jsonOf(body)
  const { message = '', type = '' } = (json.error ?? {}) as { message?: unknown; type?: unknown }
  const text = lineOf(message)
  // By the specification, the state of a commit is unknown after these.
  if (status === 500 || status === 502 || status === 504)
    return { status: null, json, text: `it answered ${status}${text && `: ${text}`}`, type: lineOf(type) }
  return { status, json, text, type: lineOf(type) }
}

/** Returns a server's own words, safe for a terminal: on one line, bounded, without control characters. */
function lineOf(text: unknown): string {
  const line = String(text).replace(/[\p{C}\s]+/gu, ' ')
  return line.trim().slice(0, MAX_TEXT).replace(/\.$/, '')
}

function jsonOf(body: Buffer): Readonly<Record<string, unknown>> {
  try {
    const value = JSON.parse(body.toString()) as unknown
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
  } catch {
    return {}
  }
}

class Again extends Error {
  readonly answer: CatalogAnswer
  constructor(answer: CatalogAnswer) {
    super()
    this.answer = answer
  }
}

async function repeatedly(
  get: () => Promise<CatalogAnswer>,
  retryMs: number,
  ended: AbortSignal,
): Promise<CatalogAnswer> {
  const startedMs = performance.now()
  const attempt = async () => {
    const answer = await get()
    const { status } = answer
    if (status === null || status === 429 || status === 503) throw new Again(answer)
    return answer
  }
  return await pRetry(attempt, {
    retries: RETRIES,
    minTimeout: retryMs,
    randomize: true,
    shouldRetry: ({ error }) => error instanceof Again && performance.now() - startedMs < RETRY_WITHIN_MS,
    signal: ended,
  }).catch(error => {
    ended.throwIfAborted()
    if (error instanceof Again) return error.answer
    throw error
  })
}

function refusal(
  name: string,
  what: string,
  { status, text, type }: CatalogAnswer,
  login: CatalogLogin | null,
): RemoteError {
  if (status === null) return new RemoteError(`${name} did not ${what}: ${text}.`)
  const why = text === '' ? type : text
  const said = why === '' ? '' : `: ${why}`
  if (status === 401 || status === 403)
    return new RemoteError(`${name} did not ${what} (${status})${said}. ${loginAdvice(login)}`)
  return new RemoteError(`${name} did not ${what} (${status})${said}.`)
}

function loginAdvice(login: CatalogLogin | null): string {
  if (login === null) return 'Set ICEBERG_TOKEN_FILE or ICEBERG_CREDENTIAL_FILE.'
  return 'tokenFile' in login
    ? 'Check the token in ICEBERG_TOKEN_FILE, and its rights.'
    : 'Check the rights of the client in ICEBERG_CREDENTIAL_FILE, and ICEBERG_OAUTH_SCOPE.'
}

async function tokenOf(login: CatalogLogin | null, patience: Patience): Promise<string | null> {
  if (login === null) return null
  if ('tokenFile' in login) return readKeyFile('ICEBERG_TOKEN_FILE', login.tokenFile)
  const { oauthUri, credentialFile, scope } = login
  const [, id = '', secret = ''] =
    /^([^:]+):(.+)$/.exec(readKeyFile('ICEBERG_CREDENTIAL_FILE', credentialFile)) ?? []
  if (secret === '')
    throw new RemoteError(`ICEBERG_CREDENTIAL_FILE (${credentialFile}) must have one line, CLIENT:SECRET.`)
  const name = `The authorization server at ${oauthUri}`
  const form = { grant_type: 'client_credentials', client_id: id, client_secret: secret }
  const http = openClient(oauthUri, name, patience)
  try {
    const answer = await ask(http, name, {
      method: 'POST',
      path: new URL(oauthUri).pathname,
      headers: { accept: 'application/json', 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams(scope === null ? form : { ...form, scope }).toString(),
    })
    const { access_token: token, error } = answer.json
    if (answer.status === 200 && typeof token === 'string' && token !== '') return token
    const why = lineOf(typeof error === 'string' ? error : answer.text)
    throw new RemoteError(
      `${name} returned no token (${answer.status ?? 'no answer'})${why && `: ${why.replaceAll(secret, '***')}`}. Check ICEBERG_CREDENTIAL_FILE and the ICEBERG_OAUTH settings.`,
    )
  } finally {
    await http.close()
  }
}
