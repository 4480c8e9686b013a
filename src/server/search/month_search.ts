import { makeModalityKey, makeTextKey } from '#schema/text_key.ts'
import { isStopWord, splitWords, stemWord } from './words.ts'

/** Longer texts are indexed up to here, so that positions fit into 16 bits. */
const MAX_WORDS = 20_000
/** Different words of a notice's items and requirements that count; real ones have some hundred. */
const MAX_PART_WORDS = 1000
/** Between two texts of a notice, so that no phrase spans both. */
const GAP = 1

/** The places of the words of a month's notices. A place is a notice's number in the month. */
export type MonthText = {
  /** Folded and sorted. */
  readonly words: readonly string[]
  /** Occurrences of word `n` end here; they begin where those of the previous one end. */
  readonly ends: Uint32Array
  /** In how many notices each word is. */
  readonly noticeCounts: Uint32Array
  /** The notice of each occurrence; ascending within a word. */
  readonly places: Uint32Array
  /** The position of each occurrence in its notice, in words; ascending within a word and notice. */
  readonly positions: Uint16Array
  /** Sorted. */
  readonly stems: readonly string[]
  /** The forms of stem `n` end here in `forms`. */
  readonly formEnds: Uint32Array
  /** Numbers of words, by stem. */
  readonly forms: Uint32Array
  /** Positions of each notice's own texts; behind them are the words of its items and requirements. */
  readonly lengths: Uint16Array
  readonly averageLength: number
}

/** Occurrences of a word: place and position in turn. */
type Occurrences = number[]

/** A notice's own texts, and the different words of its items and requirements. */
type Texts = { readonly own: readonly string[]; readonly parts: readonly string[] }

/** Returns the words of a notice's items and requirements, each once: without those that are in nearly every text. */
export function listDifferentWords(text: string): readonly string[] {
  const words = new Set(splitWords(text).filter(word => !isStopWord(word)))
  return [...words.values().take(MAX_PART_WORDS)]
}

/** Builds the index of a month's texts. */
export function indexTexts(notices: readonly Texts[]): MonthText {
  const words = new Map<string, Occurrences>()
  const lengths = new Uint16Array(notices.length)
  for (const [place, { own, parts }] of notices.entries()) {
    let position = 0
    const add = (all: Iterable<string>) => {
      for (const word of all) {
        const occurrences = words.get(word) ?? []
        words.set(word, occurrences)
        occurrences.push(place, position)
        position += 1
      }
      position += GAP
    }
    for (const text of own) add(splitWords(text).slice(0, MAX_WORDS))
    lengths[place] = position
    add(parts)
  }
  const sorted = [...words].sort(([a], [b]) => (a < b ? -1 : 1))
  const all = sorted.map(([word]) => word)
  const averageLength = lengths.reduce((sum, length) => sum + length, 0) / notices.length
  const occurrences = packed(sorted.map(([, places]) => places))
  return { words: all, ...occurrences, ...groupByStem(all), lengths, averageLength }
}

function groupByStem(words: readonly string[]): Pick<MonthText, 'stems' | 'formEnds' | 'forms'> {
  const byStem = Map.groupBy(words.keys(), number => stemWord(words[number] as string))
  const sorted = [...byStem].sort(([a], [b]) => (a < b ? -1 : 1))
  let end = 0
  const formEnds = Uint32Array.from(sorted, ([, forms]) => {
    end += forms.length
    return end
  })
  return {
    stems: sorted.map(([stem]) => stem),
    formEnds,
    forms: Uint32Array.from(sorted.flatMap(([, forms]) => forms)),
  }
}

function packed(
  words: readonly Occurrences[],
): Pick<MonthText, 'ends' | 'noticeCounts' | 'places' | 'positions'> {
  const count = words.reduce((sum, { length }) => sum + length / 2, 0)
  const [places, positions] = [new Uint32Array(count), new Uint16Array(count)]
  const [ends, noticeCounts] = [new Uint32Array(words.length), new Uint32Array(words.length)]
  let at = 0
  for (const [number, occurrences] of words.entries()) {
    for (let next = 0; next < occurrences.length; next += 2) {
      places[at] = occurrences[next] as number
      positions[at] = occurrences[next + 1] as number
      if (next === 0 || places[at] !== places[at - 1]) noticeCounts[number] = (noticeCounts[number] ?? 0) + 1
      at += 1
    }
    ends[number] = at
  }
  return { ends, noticeCounts, places, positions }
}

/** Numbers of the words with this stem. */
export function findForms({ stems, formEnds, forms }: MonthText, stem: string): Uint32Array {
  const number = firstFrom(stems, stem)
  if (stems[number] !== stem) return new Uint32Array()
  return forms.subarray(number === 0 ? 0 : formEnds[number - 1], formEnds[number])
}

/** Numbers of the words that begin with this. They may be all words, of which a month may have a million. */
export function findWordsFrom({ words }: MonthText, prefix: string): Uint32Array {
  const first = firstFrom(words, prefix)
  // Behind all words with this prefix: they have only letters and digits.
  const numbers = new Uint32Array(firstFrom(words, `${prefix}\uffff`) - first)
  for (let index = 0; index < numbers.length; index += 1) numbers[index] = first + index
  return numbers
}

/** Returns the number of the first text in a sorted list that is not before this one. */
function firstFrom(sorted: readonly string[], text: string): number {
  let [low, high] = [0, sorted.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((sorted[middle] as string) < text) low = middle + 1
    else high = middle
  }
  return low
}

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
  uf: text => [[makeTextKey(text)]],
  modalidade: text => {
    const beginning = text.slice(0, MAX_MODALITY)
    return [splitWords(beginning), splitWords(makeModalityKey(beginning))]
  },
  status: byItself,
  verdict: byItself,
}

const NUMBERS = ['session', 'value', 'updated', 'reds', 'graves'] as const

/** The index that a month's notices are searched by, newest notice first. */
export type MonthSearch = {
  readonly choices: Readonly<Record<(typeof CHOICES)[number], Choices>>
  /**
   * `session` and `updated` in microseconds since 1970, `value` in BRL, and how many red requirements and grave alerts there are;
   * NaN for none.
   */
  readonly numbers: Readonly<Record<(typeof NUMBERS)[number], Float64Array>>
  readonly text: MonthText
}

/** The texts that a notice is searched by. */
export type SearchRow = Readonly<
  Record<(typeof CHOICES)[number] | 'objeto' | 'orgao' | 'identifiers', string | null>
> &
  Readonly<Record<(typeof NUMBERS)[number], number | null>> & {
    /** The different words of its items and requirements. */
    readonly parts: readonly string[]
  }

export function indexMonth(rows: readonly SearchRow[]): MonthSearch {
  const choices = CHOICES.map(name => [
    name,
    indexChoices(
      rows.map(row => row[name]),
      CHOSEN_BY[name],
    ),
  ])
  const numbers = NUMBERS.map(name => [name, Float64Array.from(rows, row => row[name] ?? Number.NaN)])
  return {
    choices: Object.fromEntries(choices),
    numbers: Object.fromEntries(numbers),
    text: indexTexts(
      rows.map(({ objeto, orgao, identifiers, parts }) => ({
        own: [objeto ?? '', orgao ?? '', identifiers ?? ''],
        parts,
      })),
    ),
  }
}

function indexChoices(chosen: readonly (string | null)[], chosenBy: (text: string) => string[][]): Choices {
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
