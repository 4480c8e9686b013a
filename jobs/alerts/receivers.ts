import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { AlertRoute, ReceiverName, Severity } from '#config/alerts.ts'
import type { Company } from '#jobs/queues/company_registry.ts'
import { closing } from '#src/lib/closing.ts'
import { findSystemCode } from '#src/lib/errors.ts'
import { hashContent } from '#src/lib/hash.ts'
import type { HttpRequest } from '#src/lib/http/client.ts'
import { NetworkError } from '#src/lib/http/network_error.ts'
import { type Alert, type AlertMessage, composeAlert, type Outcome } from './alert.ts'

/** Limits of the receivers for their texts, in characters. */
const MAX_PAGERDUTY_SUMMARY = 1024
const MAX_OPSGENIE_MESSAGE = 130

/** One message as a receiver takes it. */
type Delivery = {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /** Sent as JSON. */
  readonly body: object
}

export type Receiver = {
  readonly to: ReceiverName
  readonly severities: readonly Severity[]
  /** For the log, where it is, without what may be secret. */
  readonly title: string
  /** The setting to check if it does not accept messages. */
  readonly setting: string
  /** Returns the request for the alert's current state, in the receiver's own form. */
  chooseDelivery(alert: Alert): Delivery
}

/** Creates the receiver of a route. @param prefix of this installation in Redis: several installations may share a receiver. */
export function createReceiver(route: AlertRoute, prefix: string): Receiver {
  const { to, severities } = route
  if ('webhookUrl' in route) {
    const { webhookUrl: url } = route
    const { host } = new URL(url)
    const composeBody = to === 'slack' ? slackBody : (message: AlertMessage) => message
    return {
      ...{ to, severities },
      title: to === 'slack' ? `The Slack webhook at ${host}` : `The alert webhook at ${host}`,
      setting: to === 'slack' ? 'ALERT_SLACK_URL' : 'ALERT_WEBHOOK_URL',
      chooseDelivery: alert => ({ url, headers: {}, body: composeBody(composeAlert(alert, to)) }),
    }
  }
  const { baseUrl, apiKey } = route
  const { host } = new URL(baseUrl)
  return {
    ...{ to, severities },
    title: to === 'pagerduty' ? `PagerDuty at ${host}` : `Opsgenie at ${host}`,
    setting: to === 'pagerduty' ? 'ALERT_PAGERDUTY_KEY' : 'ALERT_OPSGENIE_KEY',
    chooseDelivery(alert) {
      const about = { message: composeAlert(alert, to), key: composeKey(alert, prefix), baseUrl, apiKey }
      return to === 'pagerduty' ? toPagerDuty(about) : toOpsgenie(about)
    },
  }
}

/**
 * Identifies the problem: the same whenever it returns, and whichever worker reports it, even without Redis. Only
 * characters that need no encoding in a path.
 */
function composeKey({ name, subject }: Alert, prefix: string): string {
  // A directory is too long, and has other characters.
  const what = /^[\w-]{1,63}$/.test(subject) ? subject : hashContent(subject).slice(0, 16)
  return `editais-sync.${prefix}.${name}.${what}`
}

/** Composes the body of a Slack message: https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks */
function slackBody({ state, severity, text }: AlertMessage): object {
  const sign = state === 'recovered' ? ':white_check_mark:' : SIGNS[severity]
  return { text: `${sign} ${escapeForSlack(text)}` }
}

const SIGNS: Readonly<Record<Severity, string>> = {
  critical: ':red_circle:',
  warning: ':large_yellow_circle:',
}

/**
 * Escapes the characters that Slack obeys: a message can quote an error of the API, in which `<!channel>` would notify everyone.
 */
function escapeForSlack(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}

type About = {
  readonly message: AlertMessage
  readonly key: string
  readonly baseUrl: string
  readonly apiKey: string
}

/** Events API v2: https://developer.pagerduty.com/docs/events-api-v2/trigger-events/ */
function toPagerDuty({ message, key, baseUrl, apiKey }: About): Delivery {
  const { state, company, alert, severity, since, details, text } = message
  const event = { routing_key: apiKey, dedup_key: key }
  const trigger = {
    ...event,
    event_action: 'trigger',
    client: 'editais-sync',
    payload: {
      summary: cut(text, MAX_PAGERDUTY_SUMMARY),
      source: company ?? hostname(),
      severity,
      timestamp: since,
      component: 'editais-sync',
      class: alert,
      custom_details: { ...details, message: message.message, repeated: message.repeated },
    },
  }
  const body = state === 'raised' ? trigger : { ...event, event_action: 'resolve' }
  return { url: `${baseUrl}/v2/enqueue`, headers: {}, body }
}

const PRIORITIES: Readonly<Record<Severity, string>> = { critical: 'P1', warning: 'P3' }

/**
 * Composes a request to Opsgenie's Alert API (https://docs.opsgenie.com/docs/alert-api); Jira Service Management has the same API
 * at another address.
 */
function toOpsgenie({ message, key, baseUrl, apiKey }: About): Delivery {
  const { state, company, alert, severity, since, details, text } = message
  const headers = { authorization: `GenieKey ${apiKey}` }
  const source = 'editais-sync'
  if (state === 'recovered') {
    const url = `${baseUrl}/v2/alerts/${key}/close?identifierType=alias`
    return { url, headers, body: { source, note: text } }
  }
  const texts = Object.entries({ ...details, since }).map(([name, value]) => [name, `${value}`])
  const body = {
    message: cut(text, MAX_OPSGENIE_MESSAGE),
    alias: key,
    description: text,
    tags: [severity, alert],
    details: Object.fromEntries(texts),
    entity: company ?? hostname(),
    source,
    priority: PRIORITIES[severity],
  }
  return { url: `${baseUrl}/v2/alerts`, headers, body }
}

/** Cuts a text after `max` characters, not code units: half of a surrogate pair would not be valid JSON for every receiver. */
function cut(text: string, max: number): string {
  const characters = [...text]
  return characters.length <= max ? text : `${characters.slice(0, max - 1).join('')}…`
}

/** A receiver that takes longer counts as down. */
const WEBHOOK_TIMEOUT_MS = 10_000
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
  await using client = closing(
    openHttpClient({
      url,
      // For this request alone: the next alert may be days away.
      connections: 1,
      silenceMs: timeoutMs,
      answerMs: timeoutMs,
      limit,
      maxBodyBytes: MAX_ANSWER_BYTES,
      isStatusEnough: true,
    }),
  )
  const { pathname, search } = new URL(url)
  const headers = { ...request.headers, ...login(url) }
  const { status } = await client.send({ ...request, path: `${pathname}${search}`, headers })
  return judge(status, isRedirect(status))
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
    return { outcome: 'unanswered', said: `did not answer (${findSystemCode(error) ?? 'unknown error'})` }
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

/** A receiver that is down for a moment must not cause an alarm. */
const PAUSES_MS = [1000, 5000]

export type Heartbeat = (company: Pick<Company, 'slug' | 'schedule'>) => Promise<void>

/**
 * Requests a company's HEARTBEAT_URL after a good run. Its receiver alerts when the requests stop, whatever the cause:
 * this worker, its machine, Redis or the API. Never throws.
 */
export function createHeartbeat({
  log,
  pausesMs = PAUSES_MS,
  timeoutMs = WEBHOOK_TIMEOUT_MS,
}: {
  readonly log: Logger
  readonly pausesMs?: readonly number[]
  readonly timeoutMs?: number
}): Heartbeat {
  const failing = new Set<string>()
  return async ({ slug, schedule: { heartbeatUrl } }) => {
    if (heartbeatUrl === null) return
    const about = { company: slug }
    // Only the host is shown: the address may hold a token.
    const { host } = new URL(heartbeatUrl)
    let answer = await visit(heartbeatUrl, timeoutMs)
    for (const pauseMs of pausesMs) {
      if (answer.outcome === 'delivered') break
      await sleep(pauseMs)
      answer = await visit(heartbeatUrl, timeoutMs)
    }
    if (answer.outcome === 'delivered') {
      if (failing.delete(slug)) log.info(about, `The heartbeat at ${host} is accepted again.`)
    } else if (!failing.has(slug)) {
      failing.add(slug)
      log.error(about, `The heartbeat at ${host} ${answer.said}. Check HEARTBEAT_URL.`)
    }
  }
}
