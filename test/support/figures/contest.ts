import { businessDaysBefore, daysBetween } from './calendar.ts'

/** Until when a notice may be contested: what a person makes of the few texts that these documents have, and the laws. */

type Day = Temporal.PlainDate
/** Without a day, nobody can contest it. */
export type Contest = { readonly day: Day | null; readonly rule: string; readonly certainty: string | null }
/** `business` is the number of business days before the session, if it is that. */
type Candidate = {
  readonly day: Day
  readonly other?: Day
  readonly rule: string
  readonly business?: number
}

/** The meaning of each text, by hand. `#` stands for a date; `date` says which of them is the deadline, from 0. */
type Meaning = {
  readonly business?: number
  /** "Dias", without a word about which ones count. */
  readonly plain?: number
  readonly running?: number
  readonly hours?: number
  readonly date?: number
  readonly dayOfMonth?: number
  /** It states a term that nobody can compute. */
  readonly unknown?: true
}
const MEANINGS: Readonly<Record<string, Meaning>> = {
  '3 dias úteis antes da sessão': { business: 3 },
  'até 5 dias úteis': { business: 5 },
  '03 (três) dias úteis antes da abertura': { business: 3 },
  'Até o 2º (segundo) dia útil anterior': { business: 2 },
  'quinto dia útil': { business: 5 },
  'Um dia útil': { business: 1 },
  '3 dias (úteis)': { business: 3 },
  '3 dias úteis': { business: 3 },
  '4 dias': { plain: 4 },
  'dois dias corridos': { running: 2 },
  '48 horas antes': { hours: 48 },
  '24 (vinte e quatro) horas antes': { hours: 24 },
  'até as 18h do dia #': { date: 0 },
  'de # a #': { date: 1 },
  '3 dias úteis antes de #': { business: 3 },
  '#': { date: 0 },
  'Até #': { date: 0 },
  'até # (3 dias úteis antes da sessão)': { date: 0, business: 3 },
  '#, 3 dias úteis': { date: 0, business: 3 },
  '5 dias úteis após a publicação': { unknown: true },
  '99 dias úteis': { unknown: true },
  '24h do dia 30': { dayOfMonth: 30 },
  '5 d.u.': { business: 5 },
  '2 DU antes da abertura': { business: 2 },
}

const LAWS: readonly (readonly [digits: string, name: string, days: number])[] = [
  ['13303', 'Lei 13.303/2016, art. 87', 5],
  ['14133', 'Lei 14.133/2021, art. 164', 3],
  ['10520', 'Decreto 10.024/2019, art. 24', 3],
  ['8666', 'Lei 8.666/1993, art. 41', 2],
]
const PRESUMED = ['', 'Lei 14.133/2021, art. 164 (presumida)', 3] as const
const SHORTLY_BEFORE = 30

/** @param modality in which a direct contracting has no term by law. */
export function contestOf(
  session: Temporal.PlainDateTime | null,
  { text, law, modality, uf }: Record<'text' | 'law' | 'modality' | 'uf', string | null>,
): Contest | null {
  const dates = datesIn(text ?? '')
  const meaning = dates.includes(null) ? undefined : MEANINGS[(text ?? '').replaceAll(DATE, '#')]
  const stated = meaning ? statedDays(meaning, { dates, session, uf }) : []
  const isUnusable = dates.includes(null) || (meaning !== undefined && stated.length === 0)
  const named = namedLaw(law) ?? namedLaw(text)
  const isDirect = /dispensa|inexigibilidade/i.test(modality ?? '')
  const lawful = session === null || isDirect ? [] : [byLaw(session.toPlainDate(), named ?? PRESUMED, uf)]
  const candidates = stated.length > 0 ? [...stated, ...(named ? lawful : [])] : lawful
  const [first, ...others] = candidates.toSorted((a, b) => Temporal.PlainDate.compare(a.day, b.day))
  if (!first) {
    return session === null
      ? null
      : { day: null, rule: 'Sem prazo em lei: contratação direta', certainty: null }
  }
  const later = alternativeTo(first, others)
  const isOpen =
    later !== undefined || first.other !== undefined || isUnusable || meaning?.dayOfMonth !== undefined
  const certainty = stated.length > 0 ? 'do edital' : named ? 'da lei' : 'presumido'
  return {
    day: first.day,
    rule: [first.rule, ...(later ? [later.rule] : [])].join('; '),
    certainty: isOpen ? 'a confirmar' : certainty,
  }
}

/** The rule that is shown beside the first: another term in business days, else the one with the latest day. */
function alternativeTo(first: Candidate, others: readonly Candidate[]): Candidate | undefined {
  const inBusiness = others.filter(({ business }) => business !== undefined)
  if (first.business !== undefined) {
    const shortest = inBusiness.toSorted((a, b) => Number(a.business) - Number(b.business))[0]
    if (shortest && shortest.business !== first.business) return shortest
  }
  // Of terms in business days, the longest stands for all.
  const [longest] = inBusiness.toSorted((a, b) => Number(b.business) - Number(a.business))
  const rest = others.filter(other => other.business === undefined || other === longest)
  return rest.findLast(({ day }) => daysBetween(first.day, day) > 0)
}

type Around = {
  readonly dates: readonly (Day | null)[]
  readonly session: Temporal.PlainDateTime | null
  readonly uf: string | null
}

function statedDays(meaning: Meaning, { dates, session, uf }: Around): Candidate[] {
  const sessionDay = session?.toPlainDate() ?? null
  const date = meaning.date === undefined ? undefined : dates[meaning.date]
  const found: Candidate[] = []
  if (date && isShortlyBefore(date, sessionDay)) found.push({ day: date, rule: `Edital: ${brazilian(date)}` })
  if (session === null || sessionDay === null) return found
  const { business, plain, running, hours, dayOfMonth } = meaning
  if (business !== undefined)
    found.push(inBusinessDays(sessionDay, business, uf, business === 1 ? 'dia útil' : 'dias úteis'))
  if (plain !== undefined) {
    found.push(inBusinessDays(sessionDay, plain, uf, 'dias, contados como úteis'))
    found.push({ day: sessionDay.subtract({ days: plain }), rule: `Edital: ${plain} dias corridos` })
  }
  if (running !== undefined)
    found.push({ day: sessionDay.subtract({ days: running }), rule: `Edital: ${running} dias corridos` })
  if (hours !== undefined)
    found.push({ day: session.subtract({ hours }).toPlainDate(), rule: `Edital: ${hours} horas` })
  if (dayOfMonth !== undefined) {
    const day = [0, 1]
      .map(months => sessionDay.subtract({ months }).with({ day: dayOfMonth }))
      .find(day => day.day === dayOfMonth && isShortlyBefore(day, sessionDay))
    if (day) found.push({ day, rule: `Edital: ${brazilian(day)}` })
  }
  return found
}

function inBusinessDays(
  session: Day,
  days: number,
  uf: string | null,
  words: string,
  by = 'Edital',
): Candidate {
  const [sure, possible] = [true, false].map(withOptional =>
    businessDaysBefore(session, days, { uf, withOptional }),
  ) as [Day, Day]
  return {
    day: sure,
    business: days,
    rule: `${by}: ${days} ${words}`,
    ...(sure.equals(possible) ? {} : { other: possible }),
  }
}

function byLaw(
  session: Day,
  [, name, days]: readonly [string, string, number],
  uf: string | null,
): Candidate {
  return inBusinessDays(session, days, uf, 'dias úteis', name)
}

function namedLaw(text: string | null): readonly [string, string, number] | undefined {
  const numbers = (text ?? '').replaceAll(/[.\s]/g, '')
  return LAWS.find(([digits]) => numbers.includes(digits))
}

const DATE = /\b\d{4}-\d{2}-\d{2}\b|\b\d{2}\/\d{2}\/\d{4}\b/g

/** Null for a day that does not exist: the text states a term, but nobody knows which. */
function datesIn(text: string): (Day | null)[] {
  return [...text.matchAll(DATE)].map(([date]) => {
    try {
      return Temporal.PlainDate.from(date.includes('/') ? date.split('/').reverse().join('-') : date)
    } catch {
      return null
    }
  })
}

function isShortlyBefore(day: Day, session: Day | null): boolean {
  if (session === null) return true
  const ahead = daysBetween(day, session)
  return ahead >= 1 && ahead <= SHORTLY_BEFORE
}

function brazilian({ year, month, day }: Day): string {
  return [String(day).padStart(2, '0'), String(month).padStart(2, '0'), year].join('/')
}
