import { modalityKey, textKey } from '#schema/text_key.ts'
import { indexTexts, type MonthText } from './month_text.ts'
import { wordsOf } from './words.ts'

/** One of a few values for each notice. */
type Choices = {
  readonly values: readonly string[]
  /** For each value, the parts by which it is chosen (`CHOSEN_BY`). */
  readonly parts: readonly ReadonlySet<string>[]
  /** For each notice, one more than its value's number; 0 for none. */
  readonly of: Uint32Array
}

export const CHOICES = ['uf', 'modalidade', 'status', 'verdict'] as const

/** Only the beginning of a longer modality counts. */
const MAX_MODALITY = 1000

const byItself = (text: string) => [[text]]

/**
 * Returns the spellings of a text, each in parts. A value is accepted if it has all parts of one spelling of a wanted text.
 * Modalities are free text, so a few of their words are enough: as they are written, or as they are usually called.
 */
export const CHOSEN_BY: Readonly<Record<(typeof CHOICES)[number], (text: string) => string[][]>> = {
  uf: text => [[textKey(text)]],
  modalidade: text => {
    const beginning = text.slice(0, MAX_MODALITY)
    return [wordsOf(beginning), wordsOf(modalityKey(beginning))]
  },
  status: byItself,
  verdict: byItself,
}

const NUMBERS = ['session', 'value', 'updated'] as const

/** The index that a month's notices are searched by, newest notice first. */
export type MonthSearch = {
  readonly choices: Readonly<Record<(typeof CHOICES)[number], Choices>>
  /** `session` and `updated` in microseconds since 1970, `value` in BRL; NaN for none. */
  readonly numbers: Readonly<Record<(typeof NUMBERS)[number], Float64Array>>
  readonly text: MonthText
}

/** The texts that a notice is searched by. */
export type SearchRow = Readonly<Record<(typeof CHOICES)[number] | 'objeto' | 'orgao', string | null>> &
  Readonly<Record<(typeof NUMBERS)[number], number | null>>

export function indexMonth(rows: readonly SearchRow[]): MonthSearch {
  const choices = CHOICES.map(name => [
    name,
    choicesOf(
      rows.map(row => row[name]),
      CHOSEN_BY[name],
    ),
  ])
  const numbers = NUMBERS.map(name => [name, Float64Array.from(rows, row => row[name] ?? Number.NaN)])
  return {
    choices: Object.fromEntries(choices),
    numbers: Object.fromEntries(numbers),
    text: indexTexts(rows.map(({ objeto, orgao }) => [objeto ?? '', orgao ?? ''])),
  }
}

function choicesOf(chosen: readonly (string | null)[], chosenBy: (text: string) => string[][]): Choices {
  const numbers = new Map<string, number>()
  const of = Uint32Array.from(chosen, value => {
    if (value === null) return 0
    const number = numbers.get(value) ?? numbers.size + 1
    numbers.set(value, number)
    return number
  })
  const values = [...numbers.keys()]
  return { values, parts: values.map(value => new Set(chosenBy(value).flat())), of }
}
