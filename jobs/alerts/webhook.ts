import { request } from 'undici'
import { systemCode } from '#src/platform/errors.ts'
import type { Outcome } from './alert.ts'

/** A receiver that takes longer counts as down. */
export const WEBHOOK_TIMEOUT_MS = 10_000
/** The answer is not used. Up to this much is read, so that the connection can be reused. */
const MAX_ANSWER_BYTES = 64 * 1024

/** Errors that occur before anything is sent. */
const UNREACHED =
  /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|EHOSTDOWN|UND_ERR_CONNECT_TIMEOUT|ERR_TLS_.+|.*CERT.*)$/

export type Answer = {
  readonly outcome: Outcome
  /** What happened, for the log; no part of the address, and only the status of the answer. */
  readonly said: string
}

/** Posts the message as JSON. Never throws, follows no redirect, and ends within the timeout. */
export async function post(url: string, message: object, timeoutMs = WEBHOOK_TIMEOUT_MS): Promise<Answer> {
  const headers = { 'content-type': 'application/json' }
  return await ask(url, { method: 'POST', headers, body: JSON.stringify(message) }, timeoutMs)
}

/** Sends a GET request, as a browser would. Never throws, follows no redirect, and ends within the timeout. */
export async function visit(url: string, timeoutMs = WEBHOOK_TIMEOUT_MS): Promise<Answer> {
  return await ask(url, { method: 'GET', headers: {}, body: null }, timeoutMs)
}

type Question = {
  readonly method: 'GET' | 'POST'
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | null
}

async function ask(url: string, { headers, ...question }: Question, timeoutMs: number): Promise<Answer> {
  const signal = AbortSignal.timeout(timeoutMs)
  try {
    const { statusCode, body } = await request(url, {
      ...question,
      headers: { ...headers, 'user-agent': 'editais-sync', ...login(url) },
      signal,
    })
    // Only the status counts, even if the rest cannot be read.
    await body.dump({ limit: MAX_ANSWER_BYTES, signal }).catch(() => {})
    return judge(statusCode)
  } catch (error) {
    if (signal.aborted) {
      return { outcome: 'unanswered', said: `did not answer within ${timeoutMs / 1000} s` }
    }
    // The error's message might contain the address, and with it a token.
    const code = systemCode(error) ?? 'unknown error'
    return { outcome: UNREACHED.test(code) ? 'unreached' : 'unanswered', said: `did not answer (${code})` }
  }
}

function judge(status: number): Answer {
  if (status >= 200 && status < 300) return { outcome: 'delivered', said: `accepted it (${status})` }
  const hint = status >= 300 && status < 400 ? ', a redirect, which is not followed' : ''
  return { outcome: 'refused', said: `rejected the request (${status}${hint})` }
}

/** undici does not use a name and password in the address. */
function login(url: string): Readonly<Record<string, string>> {
  const { username, password } = new URL(url)
  if (!username && !password) return {}
  const pair = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  return { authorization: `Basic ${Buffer.from(pair).toString('base64')}` }
}
