import { stemOf, wordsOf } from './words.ts'

/** Longer texts are indexed up to here, so that positions fit into 16 bits. */
const MAX_WORDS = 20_000
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
  /** Words of each notice. */
  readonly lengths: Uint16Array
}

/** Occurrences of a word: place and position in turn. */
type Occurrences = number[]

/** Builds the index of a month's texts. @param notices the texts of each notice. */
export function indexTexts(notices: readonly (readonly string[])[]): MonthText {
  const words = new Map<string, Occurrences>()
  const lengths = new Uint16Array(notices.length)
  for (const [place, texts] of notices.entries()) {
    let position = 0
    for (const text of texts) {
      for (const word of wordsOf(text).slice(0, MAX_WORDS)) {
        const occurrences = words.get(word) ?? []
        words.set(word, occurrences)
        occurrences.push(place, position)
        position += 1
      }
      position += GAP
    }
    lengths[place] = position
  }
  const sorted = [...words].sort(([a], [b]) => (a < b ? -1 : 1))
  const own = sorted.map(([word]) => word)
  return { words: own, ...packed(sorted.map(([, occurrences]) => occurrences)), ...stemsOf(own), lengths }
}

function stemsOf(words: readonly string[]): Pick<MonthText, 'stems' | 'formEnds' | 'forms'> {
  const byStem = Map.groupBy(words.keys(), number => stemOf(words[number] as string))
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
export function formsOf({ stems, formEnds, forms }: MonthText, stem: string): Uint32Array {
  const number = firstFrom(stems, stem)
  if (stems[number] !== stem) return new Uint32Array()
  return forms.subarray(number === 0 ? 0 : formEnds[number - 1], formEnds[number])
}

/** Numbers of the words that begin with this. They may be all words, of which a month may have a million. */
export function wordsFrom({ words }: MonthText, prefix: string): Uint32Array {
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
