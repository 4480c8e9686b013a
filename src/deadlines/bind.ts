import { type Act, type ActToken, findActs, type Time, type TimeToken } from './tokens.ts'

/** A statement of its own: a sentence, a line, an item, a cell of a table. */
type Clause = {
  readonly start: number
  readonly end: number
  /** The place where the words about its first time begin: in the clause before, if that one is only a label. */
  readonly labelStart: number
  readonly times: readonly TimeToken[]
  readonly acts: readonly ActToken[]
}

/** A line that begins with "a 4 de dezembro" continues the one before. */
const SEPARATOR = /\n(?!\s?ao?\s(?:dia\s)?\d)|[;|•·▪●◦✅]|\.(?=\s(?!p\/)|$)|\?|!/g
/** Behind these, a full stop is part of the word. */
const ABBREVIATION =
  /\b(?:arts?|n|no|nr|num|inc|par|fls?|p|pag|obs|ex|dr|sr|d|u|h|hs|hrs|min|dec|res|lic|cf|c|incs?)$/
const LONGEST_ABBREVIATION = 6

/** Splits a text into clauses. @param folded see `PlainText`. @param times of it. */
function splitClauses(folded: string, times: readonly TimeToken[]): Clause[] {
  const acts = findActs(folded)
  const clauses: Clause[] = []
  let [start, firstTime, firstAct] = [0, 0, 0]
  for (const end of [...findEnds(folded, times), folded.length]) {
    const [lastTime, lastAct] = [countBefore(times, end, firstTime), countBefore(acts, end, firstAct)]
    const own = times.slice(firstTime, lastTime)
    const label = clauses.at(-1)
    const isLabelled = label?.times.length === 0 && !/[a-z]/.test(folded.slice(start, own[0]?.start ?? start))
    clauses.push({
      ...{ start, end, times: own, acts: acts.slice(firstAct, lastAct) },
      labelStart: isLabelled ? label.labelStart : start,
    })
    start = end + 1
    firstTime = lastTime
    firstAct = lastAct
  }
  return clauses
}

function countBefore(tokens: readonly { readonly start: number }[], end: number, from: number): number {
  let count = from
  while (count < tokens.length && (tokens[count] as { start: number }).start < end) count += 1
  return count
}

function findEnds(folded: string, times: readonly TimeToken[]): number[] {
  const ends: number[] = []
  let at = 0
  for (const { index, 0: mark } of folded.matchAll(SEPARATOR)) {
    while (at < times.length && (times[at] as TimeToken).end < index) at += 1
    const time = times[at]
    const isInTime = time !== undefined && time.start < index && index < time.end - 1
    const endsTime = time !== undefined && (time.end === index || time.end === index + 1)
    const word = folded.slice(Math.max(0, index - LONGEST_ABBREVIATION), index)
    if (!isInTime && (mark !== '.' || endsTime || !ABBREVIATION.test(word))) ends.push(index)
  }
  return ends
}

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
  for (const clause of splitClauses(folded, times)) {
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
  const roles = clause.times.map((_, index) => determineRole(folded, clause, index))
  const deadlinesBefore = [0]
  for (const role of roles)
    deadlinesBefore.push((deadlinesBefore.at(-1) as number) + Number(role === 'prazo'))
  return { clause, groups: groupTimes(folded, clause), roles, deadlinesBefore }
}

/** "5 dias úteis antes da entrega dos envelopes": an event, not another deadline. */
const BEFORE_EVENT =
  /\b(?:antes|anterior(?:es)?|antecede[a-z]*|antecedencia|preced[a-z]*|apos|depois)\b[a-z ]{0,40}$/

function groupTimes(
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

/** The meaning of a time: a deadline, or another event's day. `referencia`: of a law, a street, a day that no longer counts. */
export type Role = 'prazo' | 'publicacao' | 'sessao' | 'inicio' | 'referencia'

/** So many characters around a time say what it is. */
export const CONTEXT = 100

/** Words that say what a day is; the nearest one before it counts. */
const CUES: readonly (readonly [Role, string])[] = [
  [
    'inicio',
    'a partir|desde|inicio (?:d[oe] )?(?:recebimento|envio|acolhimento|apresentacao|entrega) (?:d[aeo]s? )?propostas|(?:abertura|reabertura|inicio) d[oe] (?:prazo|periodo)|inicio|inicia[a-z]*',
  ],
  [
    'prazo',
    'ate|prazos?|periodo|limite|termino|fim|final|finda[a-z]*|encerra[a-z]*|vence[a-z]*|expira[a-z]*|ou seja|isto e|quais sejam|qual seja|portanto|assim',
  ],
  ['referencia', '(?:nao havera|sem) expediente|feriados?|facultativo|recesso'],
  [
    'publicacao',
    'publicac[a-z]*|publicad[a-z]*|divulg[a-z]*|disponibiliz[a-z]*|veicul[a-z]*|lancad[a-z]*|dou|doe|dom|diario|imprensa|pncp|a contar|contad[oa]s?',
  ],
  [
    'sessao',
    'antes|anterior(?:es)?|antecedencia|antecede[a-z]*|preced[a-z]*|previ[oa]s?|sessao|abertura|certame|disputa|lances|propostas',
  ],
]
const CUE = new RegExp(CUES.map(([role, words]) => `(?<${role}>\\b(?:${words})\\b)`).join('|'), 'g')
const MAX_CUE_DISTANCE = 60

const BEFORE_RANGE = /\b(?:de|do dia|entre(?: os dias)?|periodo(?: de)?:?)\s+$/
const TIME_OF_DAY =
  /\(?\b(?:as? )?\d{1,2}\s?(?:h(?:oras?|rs?|s)?\b|:|h(?=\d))\s?(?:\d{2})?(?::\d{2})?\s?(?:min\b|h(?:oras?|rs?|s)?\b)?\)?/g
/** Between the days of a range. "E" and a comma can be a list. */
const TO = /^[^a-z0-9]*(?:(?:as?|ate|ao)(?:\s+d[eo])?(?: ao?)?(?: o)?(?: dia)?|-)\s*$/
/** "24/11 às 17h do dia 04/12": the hours behind the first day would be "24/11 às 17h". */
const TO_TIME = /^\s?(?:ate )?as? \d{1,2}\s?(?:h|:)[0-9a-z: ]{0,15}\bd[eo](?: dia)?\s*$/
/** "24/11 até 3 dias úteis antes da sessão" */
const TO_PERIOD = /^\s(?:a|ate|ao)(?: o)?\s$/
const PARENTHESIS = /\([^()]{0,30}\)/g
const AND = /^\s*e(?: o)?(?: dia)?\s*$/

const BEFORE_REFERENCE =
  /\b(?:leis?|decretos?|portarias?|instruc[a-z]*|resoluc[a-z]*|itens|item|subitem|artigos?|arts?\.?|n[o°]?\.?|numero|(?:edital|processo|pregao|concorrencia|dispensa|oficio|ata|memorando)(?=\s[0-9]))\s?(?:(?:n[o°]?\.?|numero|federal|complementar|estadual|municipal|normativa)\s?)*(?:[0-9][0-9./-]*\s?,?\s?(?:de|do dia|datad[oa] de)\s)?$/
/** Behind these, "05/12" is a number with its year, but "05/12/2026" is a day: "Impugnação ao edital 05/12/2026". */
const BEFORE_NUMBER = /\b(?:edital|processo|pregao|concorrencia|dispensa|oficio|ata|memorando)\s$/
const BEFORE_STREET_NAME = /\b(?:rua|r\.|avenida|av\.?|praca|travessa|alameda|rodovia|largo|vila|bairro)\s$/
const BEFORE_CORRECTION =
  /\b(?:errata|retificac[a-z]*|adendo|republicac[a-z]*|comunicado|aviso)\b[^;]{0,12}?(?:\bde |do dia |em |\()$/
const MOVED =
  /\b(?:prorrog|alter|adia|transfer|remarc|reagend|modific|antecip|mudou|passou)[a-z]*\b[^0-9;]{0,40}\bd[eo](?: dia)? $/
const TO_ANOTHER = /^[^0-9]{0,30}\bpara\b[^0-9]{0,20}$/
const TO_BE_REPLACED = /\bonde (?:se le|consta)\b(?!.*\b(?:leia|passa))/s

const BEFORE_ZERO_HOUR =
  /\b(?:as?|ate)\s(?:0{1,2}\s?(?:h|:)\s?(?:00)?|zero hora|(?:a )?meia-?\s?noite)\s?(?:min|horas?|hs?)?\s?(?:\(?[a-z ]{0,25}\)?\s?)?d[eo](?: dia)?\s?$/
const BEFORE_EXCLUDED_DAY = /\b(?:antes d[eo]|anterior(?:mente)? ao?)(?: dia)? $/
const NOT_FROM = /\bnao\b[^;]{0,80}\ba partir d[eo](?: dia)? $/

/**
 * Says what a time stands for, by the words around it.
 * @param index of the time in its clause.
 */
function determineRole(folded: string, clause: Clause, index: number): Role {
  const { start, end, time } = clause.times[index] as TimeToken
  const before = wordsBefore(folded, clause, index)
  if (time.kind === 'mesmo') return 'prazo'
  if (time.kind === 'periodo')
    return isTimeOfDay(time, before, folded.slice(end, end + CONTEXT)) ? 'referencia' : 'prazo'
  if (time.kind === 'dia_mes' && BEFORE_NUMBER.test(before)) return 'referencia'
  if (
    isReference(before) ||
    TO_BE_REPLACED.test(folded.slice(Math.max(clause.start, start - 3 * CONTEXT), start))
  )
    return 'referencia'
  if (BEFORE_CORRECTION.test(before)) return 'publicacao'
  const between = wordsToNextDay(folded, clause, index)
  if (between !== null && MOVED.test(before) && TO_ANOTHER.test(between)) return 'referencia'
  if (between !== null && isRange(before, between)) return 'inicio'
  const next = clause.times[index + 1]
  if (next?.time.kind === 'periodo' && TO_PERIOD.test(folded.slice(end, next.start))) return 'inicio'
  if (isOverBeforeDay(folded, clause, index)) return 'prazo'
  const isFirst = !/[a-z]/.test(folded.slice(clause.start, start))
  return (
    (isFirst ? labelBehind(folded.slice(end, Math.min(end + CONTEXT, clause.end))) : null) ??
    nearestCue(before) ??
    'prazo'
  )
}

/** The day does not count: "até 04/12, exclusive". */
const EXCLUSIVE = /^\s?[,(]?\s?exclusive\b/

/** Returns whether a deadline ends when this day begins: "até as 00h de 04/12", "antes de 04/12", "até 04/12, exclusive". */
export function isOverBeforeDay(folded: string, clause: Clause, index: number): boolean {
  const before = wordsBefore(folded, clause, index)
  const { end } = clause.times[index] as TimeToken
  if (
    BEFORE_ZERO_HOUR.test(before) ||
    NOT_FROM.test(before) ||
    EXCLUSIVE.test(folded.slice(end, end + CONTEXT))
  )
    return true
  if (!BEFORE_EXCLUDED_DAY.test(before)) return false
  return !clause.times.some(({ time }, at) => at < index && time.kind === 'periodo' && time.unit !== 'horas')
}

/** Words of a deadline, and places: "no Protocolo", "pelo e-mail". */
const OF_DEADLINE =
  /\d+[a-z]*(?: de [a-z]+ de \d+)?|\b(?:ate|dias?|datas?|prazos?|periodo|limite|final|fim|termino|encerra[a-z]*|vence[a-z]*|expira[a-z]*|ultimo|quando|hora|horas|horario|antes|antecedencia|minim[ao]|maxim[ao]|edital|impreterivelmente|somente|apenas|exclusivamente|nov[ao]|d[ao]s|ou|seja|isto|e|portanto|sendo|tendo|que|sera|seg(?:unda)?|ter(?:ca)?|qua(?:rta)?|qui(?:nta)?|sex(?:ta)?|feira|meio|partir|desde|inicio|expediente|[a-z]{1,2})\b|\b(?:n[oa]s?|pel[oa]s?|via|por|conforme|mediante|com|em|item)\s.*/gs

/** Returns whether a clause has words before a time that say what it is for, but not by an act, such as "envelopes até". */
export function hasLabel(folded: string, clause: Clause, index: number): boolean {
  const words = wordsBefore(folded, clause, index)
  return findActs(words).length === 0 && /[a-z]{3}/.test(words.replace(OF_DEADLINE, ''))
}

function wordsToNextDay(folded: string, { times }: Clause, index: number): string | null {
  const { end } = times[index] as TimeToken
  for (let at = index + 1; at < times.length; at += 1) {
    const { start, time } = times[at] as TimeToken
    if (start > end + CONTEXT) return null
    if (time.kind !== 'periodo') return folded.slice(end, start)
  }
  return null
}

function wordsBefore(folded: string, clause: Clause, index: number): string {
  const { start } = clause.times[index] as TimeToken
  return folded.slice(Math.max(index === 0 ? clause.labelStart : clause.start, start - CONTEXT), start)
}

/** Returns whether a day behind these words is that of a law, a number or a street. */
export function isReference(before: string): boolean {
  return BEFORE_REFERENCE.test(before) || BEFORE_STREET_NAME.test(before)
}

/** Returns whether the day between these words begins a range. */
function isRange(before: string, between: string): boolean {
  const words = between.replace(TIME_OF_DAY, '').replace(PARENTHESIS, '')
  return TO.test(words) || TO_TIME.test(between) || (BEFORE_RANGE.test(before) && AND.test(words))
}

function nearestCue(before: string): Role | null {
  const words = before.replace(/^.*[0-9;]/s, '').slice(-MAX_CUE_DISTANCE)
  const cue = Array.from(words.matchAll(CUE)).at(-1)
  const role = CUES.find(([name]) => cue?.groups?.[name] !== undefined)?.[0] ?? null
  // "Antes da sessão, homologação em 18/12", "aberto o certame, impugnações em 04/12": the act is nearer.
  return cue && role === 'sessao' && findActs(words.slice(cue.index)).length > 0 ? 'prazo' : role
}

/** Reads the role from a label behind its day, as in "05/11/2026 14h: início do prazo de impugnação". */
function labelBehind(after: string): Role | null {
  const words = after.replace(TIME_OF_DAY, '').replace(/^[^a-z]*/, '')
  if (/^inicio\b/.test(words)) return 'inicio'
  if (/^(?:publicacao|divulgacao)\b/.test(words)) return 'publicacao'
  return /^(?:abertura|sessao|disputa)\b/.test(words) ? 'sessao' : null
}

const HOURS_BEFORE =
  /^\s?\)?,?\s?(?:\(?uteis\)?\s?)?(?:antes|anterior|de antecedencia|que antece|previas|da abertura|da sessao|antecedentes)/

/** Returns whether hours are a time of day, as in "até as 18 horas", and not a period, as in "48 horas antes". */
function isTimeOfDay(time: Time, before: string, after: string): boolean {
  if (time.kind !== 'periodo' || time.unit !== 'horas') return false
  if (HOURS_BEFORE.test(after)) return false
  return (time.numbers[0] as number) < 24 || /\b(?:as|a|das)\s?$/.test(before) || /^\s?d[eo]\b/.test(after)
}
