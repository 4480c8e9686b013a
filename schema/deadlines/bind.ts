import { type Clause, clausesOf } from './clauses.ts'
import { type Role, roleOf } from './roles.ts'
import type { Act, TimeToken } from './tokens.ts'

/** A time with the acts that it belongs to: none if no words name them, or if it has nothing to do with acts. */
export type BoundTime = TimeToken & {
  readonly role: Role
  readonly acts: ReadonlySet<Act>
  /** Its clause does not name the acts, but one before does. */
  readonly isContinued: boolean
  readonly clause: Clause
  /** Its place in the clause. */
  readonly index: number
  /** All times of the clause. */
  readonly beside: readonly BoundTime[]
}

/** Acts beside one another, without a time in between, share their times. */
type Group = {
  readonly acts: ReadonlySet<Act>
  readonly start: number
  readonly end: number
  /** So many times of the clause are before it. */
  readonly timesBefore: number
}

/** A clause, with what its times stand for. */
type Parsed = {
  readonly clause: Clause
  readonly groups: readonly Group[]
  readonly roles: readonly Role[]
  /** How many deadlines are before each of its times, and in all. */
  readonly deadlinesBefore: readonly number[]
}

const NO_ACTS: ReadonlySet<Act> = new Set()

/**
 * Finds the times of a text, what each stands for, and the acts that each belongs to.
 * @param folded see `PlainText`.
 * @param times of it.
 */
export function bindTimes(folded: string, times: readonly TimeToken[]): BoundTime[] {
  const bound: BoundTime[] = []
  let topic: ReadonlySet<Act> | undefined
  let previous: BoundTime | undefined
  for (const clause of clausesOf(folded, times)) {
    const parsed = parse(folded, clause)
    const beside: BoundTime[] = []
    for (const [index, token] of clause.times.entries()) {
      const role = parsed.roles[index] as Role
      const group = role === 'prazo' || role === 'sessao' ? groupFor(folded, parsed, index) : undefined
      const isContinued = role === 'prazo' && group === undefined && topic !== undefined
      const acts = (isContinued ? topic : group?.acts) ?? NO_ACTS
      const time: BoundTime = { ...token, role, acts, isContinued, clause, index, beside }
      beside.push(time)
      const meant = token.time.kind === 'mesmo' ? previous && { ...previous, acts, isContinued } : time
      if (meant) bound.push(meant)
      if (meant?.role === 'prazo') previous = meant
    }
    topic = parsed.groups.at(-1)?.acts ?? topic
  }
  return bound
}

function parse(folded: string, clause: Clause): Parsed {
  const roles = clause.times.map((_, index) => roleOf(folded, clause, index))
  const deadlinesBefore = [0]
  for (const role of roles)
    deadlinesBefore.push((deadlinesBefore.at(-1) as number) + Number(role === 'prazo'))
  return { clause, groups: groupsOf(folded, clause), roles, deadlinesBefore }
}

/** "5 dias úteis antes da entrega dos envelopes": an event, not another deadline. */
const BEFORE_EVENT =
  /\b(?:antes|anterior(?:es)?|antecede[a-z]*|antecedencia|preced[a-z]*|apos|depois)\b[a-z ]{0,40}$/

function groupsOf(
  folded: string,
  { start: clauseStart, acts: named, times, end: clauseEnd }: Clause,
): Group[] {
  const acts = named.filter(
    ({ act, start }) =>
      act !== 'outro' || !BEFORE_EVENT.test(folded.slice(Math.max(clauseStart, start - MAX_LINK), start)),
  )
  const groups: { acts: Set<Act>; start: number; end: number; timesBefore: number }[] = []
  let timesBefore = 0
  for (const { act, start, end } of acts) {
    while ((times[timesBefore]?.start ?? clauseEnd) < start) timesBefore += 1
    const last = groups.at(-1)
    const isBeside =
      last?.timesBefore === timesBefore &&
      !(act === 'resposta' && folded.slice(last.end, start).includes(','))
    if (isBeside) {
      last.acts.add(act)
      last.end = end
    } else groups.push({ acts: new Set([act]), start, end, timesBefore })
  }
  return groups.flatMap((group, at) => {
    const words = folded.slice(group.end, times[group.timesBefore]?.start ?? group.end)
    const meant: Group[] = meanings(group.acts, HANDED_IN.test(words)).map(acts => ({
      ...group,
      acts: new Set(acts),
    }))
    const later = handedInLater(folded, times.slice(group.timesBefore, groups[at + 1]?.timesBefore))
    if (later < 0 || !group.acts.has('resposta')) return meant
    const start = (times[group.timesBefore + later] as TimeToken).end
    return [
      ...meant,
      { acts: new Set(asked(group.acts)), start, end: start, timesBefore: group.timesBefore + later + 1 },
    ]
  })
}

/**
 * Returns the place of the time before "e deverão ser enviadas até", as in "As impugnações serão respondidas em 2 dias úteis e
 * deverão ser enviadas até 04/12".
 */
function handedInLater(folded: string, times: readonly TimeToken[]): number {
  return times.slice(1).findIndex(({ start }, before) => {
    const { end } = times[before] as TimeToken
    const words = start - end <= MAX_LINK ? folded.slice(end, start) : ''
    return HANDED_IN_LATER.test(words) && !words.includes('propost')
  })
}

const HANDED_IN_LATER =
  /\b(?:(?:dev|pod)[a-z]*\s[a-z ]{0,25}|(?:se|desde que|e)\s(?!envi|encaminha))(?:apresenta|protocol|recebid|interpo|envi|encaminha|formula)[a-z]*\s[^,;]{0,25}$/

/** "O pregoeiro decidirá a impugnação apresentada até 04/12", "a impugnação, que deverá ser apresentada até 04/12". */
const HANDED_IN =
  /^(?:\s?(?:que for |se )?|,\s(?:(?:que|a qual|as quais)\s[a-z ]{0,20})?)(?:apresentad|protocol|recebid|interpost|enviad|encaminhad|formulad|feit)[a-z]*\s(?!ser)[^,;]{0,25}$/

/**
 * Says what acts beside one another mean for the times before them, and then for those behind. What is answered is not contested,
 * unless its being handed in comes last. Another deadline beside an act is a part of it.
 */
function meanings(acts: ReadonlySet<Act>, isHandedIn: boolean): Act[][] {
  if (acts.size === 1) return [[...acts]]
  if (!acts.has('resposta')) return [asked(acts)]
  return isHandedIn && asked(acts).length > 0 ? [['resposta'], asked(acts)] : [['resposta']]
}

function asked(acts: ReadonlySet<Act>): Act[] {
  return [...acts].filter(act => act !== 'outro' && act !== 'resposta')
}

/** "3 dias úteis para impugnar", "04/12 (impugnações)"; but not "3 dias úteis da data para abertura e impugnação". */
const LINK =
  /^[^;,]{0,60}?(?:\b(?:para|p\/|a fim de|visando)\s(?!abertura|sessao|recebimento|realizacao|envio|inicio)(?:[a-z]+\s){0,3}|\(\s?|:\s?)$/
/** Surely so, whatever follows the act: not "prazo para impugnar", which begins the next deadline. */
const FOR = /^(?!.*\b(?:prazos?|limite|ate)\b)[^;,:]{0,80}?\b(?:para|p\/)\s(?:[a-z]+\s)?$/
/** "3 dias úteis antes da sessão, cabendo ao pregoeiro decidir", "até 04/12, com resposta no site": no term of the answer. */
const APART = /,|[a-z]\s?[(:]|[a-z]\s[/-]|\b(?:e|com|a ser)\s/
const MAX_LINK = 100

/**
 * Returns the group that a deadline belongs to: usually the one before it. But "3 dias úteis para impugnar e 2 para responder"
 * has the times first.
 */
function groupFor(folded: string, parsed: Parsed, index: number): Group | undefined {
  const { clause, groups } = parsed
  const at = groups.findLastIndex(({ timesBefore }) => timesBefore <= index)
  const { start, end, time } = clause.times[index] as TimeToken
  const before = isParenthesis(folded, groups, at, start) ? groups[at - 1] : groups[at]
  const after = groups[at + 1]
  if (after === undefined) return before
  if (time.kind === 'mesmo') return after
  if (before && hasDeadline(parsed, index + 1, after.timesBefore)) return before
  const words = folded.slice(end, Math.min(after.start, end + MAX_LINK))
  const hasOwn = hasDeadline(parsed, after.timesBefore, groups[at + 2]?.timesBefore ?? clause.times.length)
  if (!before && isOnly(after, 'resposta', 'recurso') && APART.test(words)) return undefined
  // "Até 04/12, para entrega no protocolo"
  if (!before && isOnly(after, 'outro') && words.includes(',')) return undefined
  if (!hasOwn && LINK.test(words)) return after
  if (before && FOR.test(words) && isApart(folded, parsed, before, index)) return after
  return before ?? (hasOwn && !after.acts.has('impugnacao') ? undefined : after)
}

/** Returns whether a group has another deadline before this one, or a mark is in between. */
function isApart(folded: string, parsed: Parsed, group: Group, index: number): boolean {
  const { start } = parsed.clause.times[index] as TimeToken
  return (
    hasDeadline(parsed, group.timesBefore, index) ||
    /[,/]|\s(?:-|e)\s/.test(folded.slice(Math.max(group.end, start - MAX_LINK), start))
  )
}

function isOnly({ acts }: Group, ...only: readonly Act[]): boolean {
  return [...acts].every(act => only.includes(act))
}

/** Returns whether the group is a parenthesis about the answer: "Impugnações, a serem decididas pelo pregoeiro, até 04/12". */
function isParenthesis(folded: string, groups: readonly Group[], at: number, end: number): boolean {
  const [before, group] = [groups[at - 1], groups[at]]
  if (!group?.acts.has('resposta') || before?.timesBefore !== group.timesBefore) return false
  return /,\s(?:ate|com antecedencia)\b[^,]{0,20}$/.test(
    folded.slice(Math.max(group.start, end - MAX_LINK), end),
  )
}

function hasDeadline({ deadlinesBefore }: Parsed, from: number, to: number): boolean {
  return (deadlinesBefore[to] as number) > (deadlinesBefore[from] as number)
}
