import { systemCode } from '#src/lib/errors.ts'
import type { HttpRequest } from '#src/lib/http/client.ts'
import { NetworkError } from '#src/lib/http/network_error.ts'
import type { Outcome } from './alert.ts'

/** A receiver that takes longer counts as down. */
export const WEBHOOK_TIMEOUT_MS = 10_000
/** The answer is not used: more is not read. */
const MAX_ANSWER_BYTES = 64 * 1024

export type ReceiverAnswer = {
  readonly outcome: Outcome
  /** The outcome, for the log; no part of the address, and only the status of the answer. */
  readonly said: string
}

/** Posts the body as JSON. Never throws, follows no redirect, and ends within the timeout. */
export async function post(
  url: string,
  body: object,
  { headers = {}, timeoutMs = WEBHOOK_TIMEOUT_MS }: PostOptions = {},
): Promise<ReceiverAnswer> {
  const all = { ...headers, 'content-type': 'application/json' }
  return await ask(url, { method: 'POST', headers: all, body: JSON.stringify(body) }, timeoutMs)
}

type PostOptions = {
  readonly headers?: Readonly<Record<string, string>>
  readonly timeoutMs?: number
}

/** Sends a GET request, as a browser would. Never throws, follows no redirect, and ends within the timeout. */
export async function visit(url: string, timeoutMs = WEBHOOK_TIMEOUT_MS): Promise<ReceiverAnswer> {
  return await ask(url, { method: 'GET', headers: {} }, timeoutMs)
}

async function ask(
  url: string,
  request: Omit<HttpRequest, 'path'>,
  timeoutMs: number,
): Promise<ReceiverAnswer> {
  const limit = `${timeoutMs / 1000} s`
  try {
    return await send(url, request, { timeoutMs, limit })
  } catch (error) {
    return unanswered(error, limit)
  }
}

async function send(
  url: string,
  request: Omit<HttpRequest, 'path'>,
  { timeoutMs, limit }: { timeoutMs: number; limit: string },
): Promise<ReceiverAnswer> {
  // Loaded for the first alert: most workers never send one.
  const { isRedirect, openHttpClient } = await import('#src/lib/http/client.ts')
  const client = openHttpClient({
    url,
    // For this request alone: the next alert may be days away.
    connections: 1,
    silenceMs: timeoutMs,
    answerMs: timeoutMs,
    limit,
    maxBodyBytes: MAX_ANSWER_BYTES,
    isStatusEnough: true,
  })
  try {
    const { pathname, search } = new URL(url)
    const headers = { ...request.headers, ...login(url) }
    const { status } = await client.send({ ...request, path: `${pathname}${search}`, headers })
    return judge(status, isRedirect(status))
  } finally {
    await client.close()
  }
}

function judge(status: number, isRedirect: boolean): ReceiverAnswer {
  if (status >= 200 && status < 300) return { outcome: 'delivered', said: `accepted it (${status})` }
  // Its target is not shown: the host of a receiver may be a secret.
  const hint = isRedirect ? ', a redirect, which is not followed' : ''
  return { outcome: 'refused', said: `rejected the request (${status}${hint})` }
}

function unanswered(error: unknown, limit: string): ReceiverAnswer {
  if (!(error instanceof NetworkError)) {
    // The error's message might contain the address, and with it a token.
    return { outcome: 'unanswered', said: `did not answer (${systemCode(error) ?? 'unknown error'})` }
  }
  const { trouble, message, code } = error
  switch (trouble) {
    case 'untrusted':
      return { outcome: 'unreached', said: `cannot be trusted: ${message} (${code})` }
    case 'unreached':
      return { outcome: 'unreached', said: `did not answer (${code})` }
    case 'late':
      return { outcome: 'unanswered', said: `did not answer within ${limit}` }
    case 'lost':
      return { outcome: 'unanswered', said: `did not answer (${code})` }
  }
}

/** Returns the header for the name and password in an address, of which the client sends only the path. */
function login(url: string): Readonly<Record<string, string>> {
  const { username, password } = new URL(url)
  if (!username && !password) return {}
  const pair = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  return { authorization: `Basic ${Buffer.from(pair).toString('base64')}` }
}
