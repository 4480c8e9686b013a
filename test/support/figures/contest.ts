import { businessDaysBefore, daysBetween } from './calendar.ts'

/** Until when a notice may be contested: read word by word from what it states, else by the law that it names. */

type Day = Temporal.PlainDate
export type Contest = { readonly day: Day; readonly rule: string }

const NUMBERS = ['', 'um', 'dois', 'tres', 'quatro', 'cinco', 'seis', 'sete', 'oito', 'nove', 'dez']
const ORDINALS = ['', 'primeiro', 'segundo', 'terceiro', 'quarto', 'quinto']
const MONTHS = [
  ...['janeiro', 'fevereiro', 'marco', 'abril', 'maio', 'junho', 'julho'],
  ...['agosto', 'setembro', 'outubro', 'novembro', 'dezembro'],
]
const LAWS: readonly (readonly [digits: string, name: string, days: number])[] = [
  ['13303', 'Lei 13.303/2016, art. 87', 5],
  ['14133', 'Lei 14.133/2021, art. 164', 3],
  ['10520', 'Decreto 10.024/2019, art. 24', 3],
  ['8666', 'Lei 8.666/1993, art. 41', 2],
]
const PRESUMED = ['', 'Lei 14.133/2021, art. 164 (presumida)', 3] as const
const SHORTLY_BEFORE = 30

export function contestOf(
  session: Temporal.PlainDateTime | null,
  text: string | null,
  law: string | null,
): Contest | null {
  const words = wordsOf(text ?? '')
  const sessionDay = session?.toPlainDate() ?? null
  const stated = datesIn(words).filter(day => {
    if (sessionDay === null) return true
    const ahead = daysBetween(day, sessionDay)
    return ahead >= 1 && ahead <= SHORTLY_BEFORE
  })
  const last = stated.toSorted((a, b) => Temporal.PlainDate.compare(a, b)).at(-1)
  if (last) return { day: last, rule: `Edital: ${brazilian(last)}` }
  if (session === null || sessionDay === null) return null
  return periodIn(words, session) ?? byLaw(sessionDay, law, words)
}

function wordsOf(text: string): string[] {
  const plain = text.normalize('NFD').replaceAll(/\p{M}/gu, '').toLowerCase()
  // What is in brackets repeats the number before it.
  return plain.replaceAll(/\((?!\d+\/)(?!uteis)[^)]*\)/g, ' ').match(/[a-z]+|\d[\d/.:-]*/g) ?? []
}

function datesIn(words: readonly string[]): Day[] {
  return words.flatMap((word, at) => {
    const parts = word.split(/[/.-]/).map(Number)
    if (parts.length === 3) {
      const [year = 0, month = 0, day = 0] = (parts[0] ?? 0) > 31 ? parts : parts.toReversed()
      return validDay(year < 100 ? 2000 + year : year, month, day)
    }
    const [of, month = '', ofYear, year] = words.slice(at + 1)
    return of === 'de' && ofYear === 'de' && MONTHS.includes(month)
      ? validDay(Number(year), MONTHS.indexOf(month) + 1, Number(word))
      : []
  })
}

function validDay(year: number, month: number, day: number): Day[] {
  try {
    return [Temporal.PlainDate.from({ year, month, day }, { overflow: 'reject' })]
  } catch {
    return []
  }
}

/** Days or hours before the session. */
function periodIn(words: readonly string[], session: Temporal.PlainDateTime): Contest | null {
  if (words.includes('apos') && !words.includes('antes')) return null
  for (const [at, word] of words.entries()) {
    const number = Number(word) || Math.max(NUMBERS.indexOf(word), ORDINALS.indexOf(word))
    const [unit = '', kind = ''] = words.slice(at + 1).filter(next => next !== 'o')
    if (number < 1) continue
    if (unit === 'horas' && kind === 'antes') {
      return { day: session.subtract({ hours: number }).toPlainDate(), rule: `Edital: ${number} horas` }
    }
    const abbreviated = unit === 'du' || (unit === 'd' && kind === 'u')
    if (!(abbreviated || unit.startsWith('dia')) || number > SHORTLY_BEFORE) continue
    if (kind.startsWith('corrido')) {
      return {
        day: session.toPlainDate().subtract({ days: number }),
        rule: `Edital: ${number} dias corridos`,
      }
    }
    const [one, many] =
      abbreviated || kind.startsWith('ut') ? ['dia útil', 'dias úteis'] : ['dia', 'dias, contados como úteis']
    return {
      day: businessDaysBefore(session.toPlainDate(), number),
      rule: `Edital: ${number} ${number === 1 ? one : many}`,
    }
  }
  return null
}

function byLaw(sessionDay: Day, law: string | null, words: readonly string[]): Contest {
  const digits = law?.replaceAll(/\D/g, '') ?? ''
  const numbers = words.map(word => word.split('/')[0]?.replaceAll('.', ''))
  const [, name, days] =
    LAWS.find(([number]) => digits.includes(number)) ??
    LAWS.find(([number]) => numbers.includes(number)) ??
    PRESUMED
  return { day: businessDaysBefore(sessionDay, days), rule: `${name}: ${days} dias úteis` }
}

function brazilian({ year, month, day }: Day): string {
  return [String(day).padStart(2, '0'), String(month).padStart(2, '0'), year].join('/')
}
