/** What can be wrong with a company or with the worker itself; receivers depend on these names. */
export type AlertName =
  | 'key_refused'
  | 'run_failed'
  | 'identity_guard'
  | 'quarantine_growing'
  | 'stale'
  | 'disk_low'
  | 'redis_evicts'
  | 'redis_unusable'
  | 'wrong_configuration'
  | 'wrong_directory'
  | 'report_not_mailed'
  | 'store_behind'

export type Details = Readonly<Record<string, string | number | boolean | null>>

/** A problem, or a recovery that is not delivered yet; kept in Redis. Times are ISO. */
export type Alert = {
  /** Identifies the message about the current state: new for each change, the same each time it is sent. */
  readonly id: string
  readonly name: AlertName
  /** Null if it is about the worker, Redis or the disk. */
  readonly company: string | null
  /** What exactly it is about: the company, a directory or `worker`. */
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
  /** The state that the receiver knows. Null: no problem; `unknown`: a message was sent but not answered. */
  readonly told: 'raised' | 'unknown' | null
  /** The last attempt to send it, and the state that the receiver knew before. */
  readonly attempt: { readonly token: string; readonly told: Alert['told'] } | null
}

export type News = Pick<Alert, 'name' | 'company' | 'message'> & {
  /** Separates several alerts of the same name and company. */
  readonly subject?: string
  /** Sent only if it lasts this long: for what workers may see at different times. */
  readonly settleMs?: number
  /** It is already in the log. */
  readonly isLogged?: boolean
}

/** The id and the time of a change. */
export type Moment = { readonly id: string; readonly now: Date }

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

export function subjectOf({ subject, company }: Pick<News, 'subject' | 'company'>): string {
  return subject ?? company ?? 'worker'
}

/** The alert after a problem occurred. If it is already raised, it stays as it is. */
export function raised(
  before: Alert | null,
  news: News & { readonly details?: Details },
  moment: Moment,
): Alert {
  if (before?.state === 'raised') return before
  const { name, company, details = {} } = news
  const now = moment.now.toISOString()
  return {
    name,
    company,
    subject: subjectOf(news),
    details,
    ...changed(news, moment),
    state: 'raised',
    // If the recovery was not delivered, for the receiver the problem never ended.
    since: before?.told === 'raised' ? before.since : now,
    told: before?.told ?? null,
    attempt: before?.attempt ?? null,
  }
}

/** The alert after the problem ended. One that was never delivered is removed without a message. */
export function cleared(before: Alert | null, news: News, moment: Moment): Alert | null {
  if (before?.state !== 'raised') return before
  if (before.told === null) return null
  return { ...before, ...changed(news, moment), state: 'recovered' }
}

function changed({ message, settleMs = 0 }: News, { id, now }: Moment) {
  return {
    id,
    at: now.toISOString(),
    not_before: new Date(now.getTime() + settleMs).toISOString(),
    message: message.replace(/\s+/g, ' ').slice(0, MAX_MESSAGE),
  }
}

/** Whether the receiver may not know the current state. */
export function isUntold({ state, told }: Alert): boolean {
  return state === 'raised' ? told !== 'raised' : told !== null
}

/** The alert before it is sent: from here on, what the receiver knows is uncertain, even if the sender dies. */
export function attempted(before: Alert, token: string): Alert {
  return { ...before, told: 'unknown', attempt: { token, told: before.told } }
}

/** The alert after it was sent as `sent`. Meanwhile its state may have changed, or another worker may have sent it. */
export function settled(before: Alert | null, sent: Alert, outcome: Outcome): Alert | null {
  const { attempt } = sent
  if (!before || !attempt || before.attempt?.token !== attempt.token) return before
  const told = knownAfter(outcome, { state: sent.state, told: attempt.told })
  return before.state === 'recovered' && told === null ? null : { ...before, told, attempt: null }
}

function knownAfter(outcome: Outcome, { state, told }: Pick<Alert, 'state' | 'told'>): Alert['told'] {
  if (outcome === 'delivered') return state === 'raised' ? 'raised' : null
  return outcome === 'unanswered' ? 'unknown' : told
}

/** What the webhook receives, as JSON. */
export function messageOf({ id, at, company, name, state, message, since, details }: Alert) {
  const about = company === null ? '' : `${company}: `
  // `text` is what Slack and similar receivers show.
  const text = `[editais-sync] ${about}${message}`
  return { id, at, company, alert: name, state, message, since, details, text }
}
