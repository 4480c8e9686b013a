import type { ReceiverName, Severity } from '#config/alerts.ts'
import { type AlertName, findSeverity } from './table.ts'

export type Details = Readonly<Record<string, string | number | boolean | null>>

/** A problem, or a recovery that is not delivered yet; kept in Redis. Times are ISO. */
export type Alert = {
  /** Identifies the message about the current state: new for each change, the same each time it is sent. */
  readonly id: string
  readonly name: AlertName
  /** Null if it is about the worker, Redis or the disk. */
  readonly company: string | null
  /** The subject of the alert: the company, a directory or `worker`. */
  readonly subject: string
  readonly state: 'raised' | 'recovered'
  /** When it was raised; kept after its recovery. */
  readonly since: string
  /** When the current state began. */
  readonly at: string
  /** Not sent before this: a worker that changes it back until then only saw an older state. */
  readonly not_before: string
  readonly message: string
  readonly details: Details
  /** The state that each receiver knows; one that is missing knows of no problem. */
  readonly receipts: Readonly<Partial<Record<ReceiverName, Receipt>>>
}

/** The state of an alert that a receiver knows. */
type Receipt = {
  /** `unknown`: a message was sent but not answered. Null: it knows of no problem. */
  readonly state: 'raised' | 'unknown' | null
  /** When it last accepted a message; null if it never did. */
  readonly at: string | null
  /** How many messages it accepted since it was well. */
  readonly count: number
  /** The last attempt to send one, if it is not over; and what the receiver knew before. */
  readonly attempt: { readonly token: string; readonly before: Receipt['state'] } | null
}

const NO_RECEIPT: Receipt = { state: null, at: null, count: 0, attempt: null }

export type News = Pick<Alert, 'name' | 'company' | 'message'> & {
  /** Separates several alerts of the same name and company. */
  readonly subject?: string
  /** Sent only if it lasts this long: for what workers may see at different times. */
  readonly settleMs?: number
  /** It is already in the log. */
  readonly isLogged?: boolean
}

/** The id and the time of a change. */
type Moment = { readonly id: string; readonly now: Date }

/** How an attempt to send it ended. */
export type Outcome =
  | 'delivered'
  /** The receiver rejected it. */
  | 'refused'
  /** The receiver was never reached. */
  | 'unreached'
  /** It was sent but not answered: the receiver may have accepted it. */
  | 'unanswered'

/** People read a message in a chat. */
const MAX_MESSAGE = 1000

export function nameSubject({ subject, company }: Pick<News, 'subject' | 'company'>): string {
  return subject ?? company ?? 'worker'
}

/** Returns the alert after a problem occurred. If it is already raised, it stays as it is. */
export function raiseAlert(
  before: Alert | null,
  news: News & { readonly details?: Details },
  moment: Moment,
): Alert {
  if (before?.state === 'raised') return before
  const { name, company, details = {} } = news
  // If a recovery was not delivered, for that receiver the problem never ended.
  const isOngoing = Object.values(before?.receipts ?? {}).some(({ state }) => state === 'raised')
  return {
    name,
    company,
    subject: nameSubject(news),
    details,
    ...changed(news, moment),
    state: 'raised',
    since: before && isOngoing ? before.since : moment.now.toISOString(),
    receipts: before?.receipts ?? {},
  }
}

/** Returns the alert after the problem ended. One that was never delivered is removed without a message. */
export function clearAlert(before: Alert | null, news: News, moment: Moment): Alert | null {
  if (before?.state !== 'raised') return before
  return unlessForgotten({ ...before, ...changed(news, moment), state: 'recovered' })
}

function changed({ message, settleMs = 0 }: News, { id, now }: Moment) {
  return {
    id,
    at: now.toISOString(),
    not_before: new Date(now.getTime() + settleMs).toISOString(),
    message: message.replace(/\s+/g, ' ').slice(0, MAX_MESSAGE),
  }
}

/** Returns the alert; null if it is over, and no receiver knows of it any more. */
function unlessForgotten(alert: Alert): Alert | null {
  const isKnown = Object.values(alert.receipts).some(({ state }) => state !== null)
  return alert.state === 'recovered' && !isKnown ? null : alert
}

/** A receiver, and when it wants to hear of an alert. */
export type AlertListener = {
  readonly to: ReceiverName
  readonly severities: readonly Severity[]
  /** A raised alert is repeated after this; 0 for never. */
  readonly repeatMs: number
}

/** Returns whether the receiver must be sent the current state: for the first time, because it changed, or as a repetition. */
export function isOwed(alert: Alert, { to, severities, repeatMs }: AlertListener, now: Date): boolean {
  const { state, at } = findReceipt(alert, to)
  if (Date.parse(alert.not_before) > now.getTime()) return false
  // Also of a severity that it no longer gets: it must not believe forever that the problem lasts.
  if (alert.state === 'recovered') return state !== null
  if (!severities.includes(findSeverity(alert.name))) return false
  if (state !== 'raised') return true
  return repeatMs > 0 && at !== null && now.getTime() - Date.parse(at) >= repeatMs
}

/** Returns the alert before it is sent: from here on, what the receiver knows is uncertain, even if the sender dies. */
export function noteAttempt(before: Alert, to: ReceiverName, token: string): Alert {
  const known = findReceipt(before, to)
  return withReceipt(before, to, { ...known, state: 'unknown', attempt: { token, before: known.state } })
}

/** An attempt to send an alert, and how it ended. */
type Sent = {
  readonly to: ReceiverName
  /** The alert as it was sent. */
  readonly alert: Alert
  readonly outcome: Outcome
  readonly now: Date
}

/** Returns the alert after it was sent. Meanwhile its state may have changed, or another worker may have sent it. */
export function settleAlert(before: Alert | null, { to, alert, outcome, now }: Sent): Alert | null {
  const { attempt, at, count } = findReceipt(alert, to)
  if (!before || !attempt || findReceipt(before, to).attempt?.token !== attempt.token) return before
  if (outcome !== 'delivered') {
    const state = outcome === 'unanswered' ? 'unknown' : attempt.before
    return unlessForgotten(withReceipt(before, to, { state, at, count, attempt: null }))
  }
  const receipt =
    alert.state === 'raised'
      ? ({ state: 'raised', at: now.toISOString(), count: count + 1, attempt: null } as const)
      : NO_RECEIPT
  return unlessForgotten(withReceipt(before, to, receipt))
}

function findReceipt({ receipts }: Alert, to: ReceiverName): Receipt {
  return receipts[to] ?? NO_RECEIPT
}

function withReceipt(alert: Alert, to: ReceiverName, receipt: Receipt): Alert {
  return { ...alert, receipts: { ...alert.receipts, [to]: receipt } }
}

/** An alert as version 0.2.0 stored it: there was only the webhook. */
type OldAlert = Omit<Alert, 'receipts'> & { readonly told: Receipt['state']; readonly attempt?: unknown }

/** Returns the text of an alert in Redis, which a worker of an older version may have written. */
export function readAlert(text: string): Alert {
  const alert = JSON.parse(text) as Alert | OldAlert
  if ('receipts' in alert) return alert
  const { told: state, attempt: _, ...rest } = alert
  if (state === null) return { ...rest, receipts: {} }
  return { ...rest, receipts: { webhook: { state, at: rest.at, count: 1, attempt: null } } }
}

export type AlertMessage = ReturnType<typeof composeAlert>

/** Composes the message that a receiver gets. The webhook gets it as JSON, the others in their own forms. */
export function composeAlert(alert: Alert, to: ReceiverName) {
  const { id, at, company, name, state, message, since, details } = alert
  const about = company === null ? '' : `${company}: `
  // How often it was sent before, so that a receiver that skips known ids takes a repetition.
  const repeated = state === 'raised' ? findReceipt(alert, to).count : 0
  const still = repeated > 0 ? `Still, since ${since}: ` : ''
  return {
    id: repeated > 0 ? `${id}.${repeated}` : id,
    at,
    company,
    alert: name,
    severity: findSeverity(name),
    state,
    message,
    since,
    repeated,
    details,
    // What Slack and similar receivers show.
    text: `[editais-sync] ${about}${still}${message}`,
  }
}
