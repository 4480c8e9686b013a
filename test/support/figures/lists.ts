import { known, sorted, sum } from './arithmetic.ts'
import { daysBetween, localTime } from './calendar.ts'
import type { Alert, Notice, PaymentRisk, Picture, Requirement } from './picture.ts'

/** The lists that cards and report share. */

export type Session = Notice & {
  readonly session: Temporal.PlainDateTime
  readonly sessionDay: Temporal.PlainDate
}
type Of<T> = T & { readonly notice: Notice }

export function daysTo(day: Temporal.PlainDate, { today }: Picture): number {
  return daysBetween(today, day)
}

/** Notices in progress with a session that has not begun, in the next `days`, today included. */
export function sessionsAhead(picture: Picture, days = Number.POSITIVE_INFINITY): Session[] {
  return picture.open
    .filter((notice): notice is Session => sessionStateOf(notice, picture) === 'futura')
    .filter(({ sessionDay }) => daysTo(sessionDay, picture) < days)
}

const SESSIONS = ['futura', 'passada', 'sem data'] as const

/** A session is over once it has begun; one without a time of day, when its day is over. */
export function sessionStateOf({ session, sessionDay }: Notice, picture: Picture): (typeof SESSIONS)[number] {
  if (session === null || sessionDay === null) return 'sem data'
  const isDayOnly = session.equals(sessionDay.toPlainDateTime())
  if (isDayOnly) return daysTo(sessionDay, picture) >= 0 ? 'futura' : 'passada'
  return Temporal.PlainDateTime.compare(session, localTime(picture.now)) >= 0 ? 'futura' : 'passada'
}

/** Notices with a future session, a past one, and none. */
export function bySession(notices: readonly Notice[], picture: Picture): readonly (readonly Notice[])[] {
  return SESSIONS.map(state => notices.filter(notice => sessionStateOf(notice, picture) === state))
}

export function requirementsOf(notices: readonly Notice[]): Of<Requirement>[] {
  return notices.flatMap(notice => notice.requirements.map(requirement => ({ ...requirement, notice })))
}

export function alertsOf(notices: readonly Notice[]): Of<Alert>[] {
  return notices.flatMap(notice => notice.alerts.map(alert => ({ ...alert, notice })))
}

/** An opportunity is never a risk, whatever its severity; every other alert is. */
export function isRisk({ type }: Pick<Alert, 'type'>): boolean {
  return type !== 'opportunity'
}

export function isGrave(alert: Alert, severities: readonly string[]): boolean {
  return isRisk(alert) && alert.severity !== null && severities.includes(alert.severity)
}

/** Without those whose purchase counts in another notice. */
export function countedOnce<T extends Notice>(notices: readonly T[]): T[] {
  return notices.filter(({ countsIn }) => countsIn === null)
}

/** Summed in cents, so that the sum is exact in any order. */
export function worthOf(notices: readonly Notice[]): number {
  return (
    sum(known(countedOnce(notices).map(({ value }) => value)).map(value => Math.round(value * 100))) / 100
  )
}

/** Notices whose session has not begun. */
export function coming(notices: readonly Notice[], picture: Picture): readonly Notice[] {
  return bySession(notices, picture)[0] ?? []
}

/** What these notices are worth whose session has not begun. */
export function inDispute(notices: readonly Notice[], picture: Picture): number {
  return worthOf(coming(notices, picture))
}

export type Portion = {
  readonly name: string
  readonly notices: readonly Notice[]
  readonly value: number
  readonly ahead: readonly Notice[]
  readonly inDispute: number
}

/** Notices in progress, by state or by modality. */
export function portionsOf(picture: Picture, name: (notice: Notice) => string | null): Portion[] {
  const parts = Map.groupBy(picture.open, notice => name(notice) ?? 'não informada')
  return [...parts].map(([name, notices]) => ({
    name,
    notices,
    value: worthOf(notices),
    ahead: coming(notices, picture),
    inDispute: inDispute(notices, picture),
  }))
}

/** Those with a notice whose session has not begun. */
export function portionsAhead(picture: Picture, name: (notice: Notice) => string | null): Portion[] {
  return portionsOf(picture, name).filter(({ ahead }) => ahead.length > 0)
}

export type Buyer = {
  readonly cnpj: string | null
  readonly orgao: string | null
  readonly uf: string | null
  readonly all: readonly Notice[]
  readonly open: readonly Notice[]
  readonly value: number
  readonly risk: PaymentRisk | null
  readonly nextSession: Temporal.PlainDate | null
}

/** Buyers with a notice in progress. A buyer is identified by its CNPJ or, if that is unknown, by its name. */
export function buyersOf(picture: Picture): Buyer[] {
  const buyers = Map.groupBy(picture.live, ({ cnpj, orgao }) => cnpj ?? orgao)
  return [...buyers.values()].map(notices => buyerOf(notices, picture)).filter(({ open }) => open.length > 0)
}

function buyerOf(notices: readonly Notice[], picture: Picture): Buyer {
  const latestFirst = sorted(notices, ({ updatedAt }) => -updatedAt.getTime())
  const risks = latestFirst.map(({ risk }) => risk).filter(({ value }) => value !== null)
  const latest = (what: (notice: Notice) => string | null) => known(latestFirst.map(what))[0] ?? null
  const open = notices.filter(({ phase }) => phase.open)
  const ahead = sorted(sessionsAhead({ ...picture, open }), ({ sessionDay }) => sessionDay.toString())
  return {
    open,
    all: notices,
    value: worthOf(open),
    cnpj: notices[0]?.cnpj ?? null,
    orgao: latest(({ orgao }) => orgao),
    uf: latest(({ uf }) => uf),
    // An unknown risk does not replace a known one.
    risk: risks.find(({ value }) => value !== 'desconhecido') ?? risks[0] ?? null,
    nextSession: ahead[0]?.sessionDay ?? null,
  }
}
