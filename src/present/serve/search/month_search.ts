import { indexTexts, type MonthText } from './month_text.ts'

/** One of a few values for each notice. */
export type Choices = {
  readonly values: readonly string[]
  /** For each notice, one more than its value's number; 0 for none. */
  readonly of: Uint32Array
}

export const CHOICES = ['uf', 'modalidade', 'status', 'verdict'] as const
export const NUMBERS = ['session', 'value', 'updated'] as const

/** What a month's notices are searched by, newest notice first. */
export type MonthSearch = {
  readonly choices: Readonly<Record<(typeof CHOICES)[number], Choices>>
  /** `session` and `updated` in microseconds since 1970, `value` in BRL; NaN for none. */
  readonly numbers: Readonly<Record<(typeof NUMBERS)[number], Float64Array>>
  readonly text: MonthText
}

/** What a notice is searched by. */
export type SearchRow = Readonly<Record<(typeof CHOICES)[number] | 'objeto' | 'orgao', string | null>> &
  Readonly<Record<(typeof NUMBERS)[number], number | null>>

export function indexMonth(rows: readonly SearchRow[]): MonthSearch {
  const choices = CHOICES.map(name => [name, choicesOf(rows.map(row => row[name]))])
  const numbers = NUMBERS.map(name => [name, Float64Array.from(rows, row => row[name] ?? Number.NaN)])
  return {
    choices: Object.fromEntries(choices),
    numbers: Object.fromEntries(numbers),
    text: indexTexts(rows.map(({ objeto, orgao }) => [objeto ?? '', orgao ?? ''])),
  }
}

function choicesOf(chosen: readonly (string | null)[]): Choices {
  const numbers = new Map<string, number>()
  const of = Uint32Array.from(chosen, value => {
    if (value === null) return 0
    const number = numbers.get(value) ?? numbers.size + 1
    numbers.set(value, number)
    return number
  })
  return { values: [...numbers.keys()], of }
}
