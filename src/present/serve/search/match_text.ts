import { formsOf, type MonthText, wordsFrom } from './month_text.ts'
import type { Term } from './text_query.ts'
import { withoutNumber } from './words.ts'

/** Notices of a month whose text has all terms. */
export type TextMatches = {
  /** For each notice, how many terms it has, of those that were looked for in turn; all if it matches. */
  readonly found: Uint8Array
  /** How well each notice matches; null if that was not asked for. */
  readonly scores: Float64Array | null
}

/** BM25's usual constants: how soon more occurrences count no more, and how much a long text counts less. */
const [SATURATION, LENGTH_SHARE] = [1.2, 0.75]
/** How much a word counts that shares only the stem: to the stemmer, "médico" is a form of "medicamento". */
const OTHER_FORM = 0.25

/** What is done with each notice that has a term, how often it has it, and how much each time counts. */
type Note = (place: number, times: number, closeness: number) => void

/**
 * How much each term counts in a score: rare ones more, by the number of notices of all months that have it (BM25).
 * @param months the texts of all months, because a word must count the same in each.
 */
export function weightsOf(terms: readonly Term[], months: readonly MonthText[]): number[] {
  const notices = months.reduce((sum, { lengths }) => sum + lengths.length, 0)
  return terms.map(term => {
    const having = months.reduce((sum, text) => sum + noticesHaving(text, term), 0)
    const count = Math.min(having, notices)
    return Math.log(1 + (notices - count + 0.5) / (count + 0.5))
  })
}

/** An upper bound: counting them exactly takes as long as searching. */
function noticesHaving(text: MonthText, term: Term): number {
  const counts = partsOf(text, term).map(words =>
    words.reduce((sum, word) => sum + (text.noticeCounts[word] as number), 0),
  )
  return Math.min(...counts)
}

/**
 * Null if no notice of the month has all terms.
 * @param weights of the terms; null if no scores are needed.
 */
export function matchText(
  text: MonthText,
  terms: readonly Term[],
  weights: readonly number[] | null,
): TextMatches | null {
  const parts = terms.map(term => partsOf(text, term))
  if (parts.flat().some(words => words.length === 0)) return null
  const notices = text.lengths.length
  const [found, scores] = [new Uint8Array(notices), weights && new Float64Array(notices)]
  const averageLength = text.places.length / notices
  for (const [number, words] of parts.entries()) {
    const note: Note = (place, times, closeness) => {
      if ((found[place] as number) < number) return
      found[place] = number + 1
      if (!scores) return
      const length = (text.lengths[place] as number) / averageLength
      const share = times / (times + SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * length))
      scores[place] = (scores[place] as number) + (weights?.[number] as number) * share * closeness
    }
    const [one] = words
    const closeness = closenessOf(text, terms[number] as Term)
    if (one && words.length === 1)
      for (const word of one) {
        const counts = closeness(word)
        noteWord(text, word, (place, times) => note(place, times, counts))
      }
    else notePhrase(text, words, note)
  }
  return { found, scores }
}

/** For each word of a phrase, or for the only one, the numbers of the words that are accepted. */
function partsOf(text: MonthText, term: Term): readonly Uint32Array[] {
  if (term.kind === 'prefix') return [wordsFrom(text, term.prefix)]
  const stems = term.kind === 'word' ? [term.stem] : term.stems
  return stems.map(stem => formsOf(text, stem))
}

/** How much an occurrence of a word counts. */
function closenessOf({ words }: MonthText, term: Term): (word: number) => number {
  if (term.kind !== 'word') return () => 1
  return word => (withoutNumber(words[word] as string) === term.singular ? 1 : OTHER_FORM)
}

function noteWord(
  { places, ends }: MonthText,
  word: number,
  note: (place: number, times: number) => void,
): void {
  const end = ends[word] as number
  let at = beginOf(ends, word)
  while (at < end) {
    const place = places[at] as number
    const first = at
    while (at < end && places[at] === place) at += 1
    note(place, at - first)
  }
}

/** Notes each notice in which an accepted word follows one of the part before. */
function notePhrase(text: MonthText, parts: readonly Uint32Array[], note: Note): void {
  const spots = parts.map(words => spotsOf(text, words))
  const next = spots.map(() => 0)
  /** Whether a part is at this spot; each is asked for ascending spots only. */
  const isAt = (part: number, spot: number) => {
    const own = spots[part] as Float64Array
    let at = next[part] as number
    while (at < own.length && (own[at] as number) < spot) at += 1
    next[part] = at
    return own[at] === spot
  }
  for (const spot of spots[0] as Float64Array) {
    let length = 1
    while (length < parts.length && isAt(length, spot + length)) length += 1
    if (length === parts.length) note(Math.floor(spot / POSITIONS), 1, 1)
  }
}

const POSITIONS = 0x10000

/** Place and position of all occurrences of these words as one number each, ascending. */
function spotsOf({ places, positions, ends }: MonthText, words: Uint32Array): Float64Array {
  const count = words.reduce((sum, word) => sum + (ends[word] as number) - beginOf(ends, word), 0)
  const spots = new Float64Array(count)
  let next = 0
  for (const word of words) {
    for (let at = beginOf(ends, word); at < (ends[word] as number); at += 1) {
      spots[next] = (places[at] as number) * POSITIONS + (positions[at] as number)
      next += 1
    }
  }
  return words.length > 1 ? spots.sort() : spots
}

function beginOf(ends: Uint32Array, number: number): number {
  return number === 0 ? 0 : (ends[number - 1] as number)
}
