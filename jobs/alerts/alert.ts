/** What can be wrong, with a company or with the worker itself; receivers build on these names. */
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

export type Details = Readonly<Record<string, string | number | boolean | null>>

/** Something that is wrong, or was and its end is not told yet; kept in Redis. Times are ISO. */
export type Alert = {
  /** Names the message about the present state: another one for each change, the same each time it is sent. */
  readonly id: string
  readonly name: AlertName
  /** Null when it is about the worker, Redis or the disk. */
  readonly company: string | null
  /** What exactly it is about: the company, a directory, or `worker`. */
  readonly subject: string
  readonly state: 'raised' | 'recovered'
  /** When it was raised; also after its recovery. */
  readonly since: string
  /** When the state became what it is. */
  readonly at: string
  /** Not told before: who changes it back until then was only looking at something older. */
  readonly not_before: string
  readonly message: string
  readonly details: Details
  /** What the receiver believes. Null: that all is well; `unknown`: a message went out and was not answered. */
  readonly told: 'raised' | 'unknown' | null
  /** The last time that somebody began to send it, and what the receiver believed before. */
  readonly attempt: { readonly token: string; readonly told: Alert['told'] } | null
}

export type News = Pick<Alert, 'name' | 'company' | 'message'> & {
  /** For several alerts of one name and company. */
  readonly subject?: string
  /** Told only when it lasts so long: for what workers may see at different moments. */
  readonly settleMs?: number
  /** The log has it already. */
  readonly isLogged?: boolean
}

/** Where and when a change happens. */
export type Moment = { readonly id: string; readonly now: Date }

/** How an attempt to send it ended. */
export type Outcome =
  | 'delivered'
  /** The receiver said no: it did not take it. */
  | 'refused'
  /** It was never reached. */
  | 'unreached'
  /** It was sent, but not answered: it may have been taken. */
  | 'unanswered'

/** A message is for people, in a chat. */
const MAX_MESSAGE = 1000

export function subjectOf({ subject, company }: Pick<News, 'subject' | 'company'>): string {
  return subject ?? company ?? 'worker'
}

/** After something went wrong. What is raised already stays as it is. */
export function raised(
  before: Alert | null,
  news: News & { readonly details?: Details },
  moment: Moment,
): Alert {
  if (before?.state === 'raised') return before
  const { name, company, details = {} } = news
  const now = moment.now.toISOString()
  return {
    ...{ name, company, subject: subjectOf(news), details, ...changed(news, moment) },
    state: 'raised',
    // While the recovery was not told, for the receiver it never ended.
    since: before?.told === 'raised' ? before.since : now,
    told: before?.told ?? null,
    attempt: before?.attempt ?? null,
  }
}

/** After it went well again. What was never told disappears without a word. */
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

/** Whether the receiver believes something else than what is. */
export function isUntold({ state, told }: Alert): boolean {
  return state === 'raised' ? told !== 'raised' : told !== null
}

/** Before it is sent: from here on nobody knows what the receiver believes, also if the sender dies. */
export function attempted(before: Alert, token: string): Alert {
  return { ...before, told: 'unknown', attempt: { token, told: before.told } }
}

/** After it was sent as `sent`; meanwhile its state may have changed, or somebody else have sent it anew. */
export function settled(before: Alert | null, sent: Alert, outcome: Outcome): Alert | null {
  const { attempt } = sent
  if (!before || !attempt || before.attempt?.token !== attempt.token) return before
  const told = believedAfter(outcome, { state: sent.state, told: attempt.told })
  return before.state === 'recovered' && told === null ? null : { ...before, told, attempt: null }
}

function believedAfter(outcome: Outcome, { state, told }: Pick<Alert, 'state' | 'told'>): Alert['told'] {
  if (outcome === 'delivered') return state === 'raised' ? 'raised' : null
  return outcome === 'unanswered' ? 'unknown' : told
}

/** What the webhook receives, as JSON. */
export function messageOf({ id, at, company, name, state, message, since, details }: Alert) {
  const about = company === null ? '' : `${company}: `
  // `text` is what Slack and its like show.
  const text = `[editais-sync] ${about}${message}`
  return { id, at, company, alert: name, state, message, since, details, text }
}
