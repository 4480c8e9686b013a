import { createHash } from 'node:crypto'
import { hostname } from 'node:os'
import type { AlertRoute, ReceiverName, Severity } from '#config/alerts.ts'
import { type Alert, type AlertMessage, composeAlert } from './alert.ts'

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
  deliveryOf(alert: Alert): Delivery
}

/** Creates the receiver of a route. @param prefix of this installation in Redis: several installations may share a receiver. */
export function receiverOf(route: AlertRoute, prefix: string): Receiver {
  const { to, severities } = route
  if ('webhookUrl' in route) {
    const { webhookUrl: url } = route
    const { host } = new URL(url)
    const bodyOf = to === 'slack' ? slackBody : (message: AlertMessage) => message
    return {
      ...{ to, severities },
      title: to === 'slack' ? `The Slack webhook at ${host}` : `The alert webhook at ${host}`,
      setting: to === 'slack' ? 'ALERT_SLACK_URL' : 'ALERT_WEBHOOK_URL',
      deliveryOf: alert => ({ url, headers: {}, body: bodyOf(composeAlert(alert, to)) }),
    }
  }
  const { baseUrl, apiKey } = route
  const { host } = new URL(baseUrl)
  return {
    ...{ to, severities },
    title: to === 'pagerduty' ? `PagerDuty at ${host}` : `Opsgenie at ${host}`,
    setting: to === 'pagerduty' ? 'ALERT_PAGERDUTY_KEY' : 'ALERT_OPSGENIE_KEY',
    deliveryOf(alert) {
      const about = { message: composeAlert(alert, to), key: keyOf(alert, prefix), baseUrl, apiKey }
      return to === 'pagerduty' ? toPagerDuty(about) : toOpsgenie(about)
    },
  }
}

/**
 * Identifies the problem: the same whenever it returns, and whichever worker reports it, even without Redis. Only
 * characters that need no encoding in a path.
 */
function keyOf({ name, subject }: Alert, prefix: string): string {
  // A directory is too long, and has other characters.
  const what = /^[\w-]{1,63}$/.test(subject)
    ? subject
    : createHash('sha256').update(subject).digest('hex').slice(0, 16)
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
