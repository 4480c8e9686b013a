import { findForms, findWordsFrom, type MonthText } from './month_search.ts'
import { removeNumber, type Term } from './words.ts'

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
const OTHER_FORM = 0.2
/** How much a word counts that only an item or a requirement has. */
const IN_PARTS = 0.25

/** A phrase is looked for in so many words at once: a millisecond or two. */
const PAUSE_AFTER_WORDS = 200_000

type Phrase = Extract<Term, { kind: 'phrase' }>

/** Notes a notice that has a term, how often it has it, and how much each time counts. */
type Note = (place: number, times: number, closeness: number) => void

/**
 * Returns how much each term counts in a score: rare ones more, by the number of notices of all months that have it (BM25).
 * @param months the texts of all months, because a word must count the same in each.
 * @param pause lets other work run; called after a few milliseconds at most.
 */
export async function weighTerms(
  terms: readonly Term[],
  months: readonly MonthText[],
  pause: () => Promise<void>,
): Promise<number[]> {
  const notices = months.reduce((sum, { lengths }) => sum + lengths.length, 0)
  const weights: number[] = []
  for (const term of terms) {
    const having = months.reduce((sum, text) => sum + noticesHaving(text, term), 0)
    const count = Math.min(having, notices)
    weights.push(Math.log(1 + (notices - count + 0.5) / (count + 0.5)))
    await pause()
  }
  return weights
}

/** Returns how many notices have a term, at most: counting them exactly takes as long as searching. */
function noticesHaving(text: MonthText, term: Term): number {
  const counts = findWords(text, term).map(words =>
    words.reduce((sum, word) => sum + (text.noticeCounts[word] as number), 0),
  )
  return Math.min(...counts)
}

/**
 * Returns null if no notice of the month has all terms.
 * @param weights of the terms; null if no scores are needed.
 * @param pause lets other work run; called after a few milliseconds at most.
 */
export async function matchText(
  text: MonthText,
  terms: readonly Term[],
  weights: readonly number[] | null,
  pause: () => Promise<void>,
): Promise<TextMatches | null> {
  if (terms.some(term => findWords(text, term).some(words => words.length === 0))) return null
  const notices = text.lengths.length
  const [found, scores] = [new Uint8Array(notices), weights && new Float64Array(notices)]
  for (const [number, term] of terms.entries()) {
    const words = findWords(text, term)
    const note: Note = (place, times, closeness) => {
      if ((found[place] as number) < number) return
      found[place] = number + 1
      if (!scores) return
      const length = (text.lengths[place] as number) / text.averageLength
      const share = times / (times + SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * length))
      scores[place] = (scores[place] as number) + (weights?.[number] as number) * share * closeness
    }
    const [one] = words
    const closeness = measureCloseness(text, term)
    if (one && words.length === 1)
      for (const word of one) {
        const counts = closeness(word)
        noteWord(text, word, (place, times) => note(place, times, counts))
      }
    else await notePhrase(text, term as Phrase, note, pause)
    await pause()
  }
  return { found, scores }
}

/** Finds, for each word of a phrase, or for the only one, the numbers of the words that are accepted. */
function findWords(text: MonthText, term: Term): readonly Uint32Array[] {
  if (term.kind === 'prefix') return [findWordsFrom(text, term.prefix)]
  const stems = term.kind === 'word' ? [term.stem] : term.stems
  return stems.map(stem => findForms(text, stem))
}

/** Returns how much an occurrence of a word counts. */
function measureCloseness({ words }: MonthText, term: Term): (word: number) => number {
  if (term.kind !== 'word') return () => 1
  return word => (removeNumber(words[word] as string) === term.singular ? 1 : OTHER_FORM)
}

function noteWord(
  { places, positions, lengths, ends }: MonthText,
  word: number,
  note: (place: number, times: number) => void,
): void {
  const end = ends[word] as number
  let at = findBegin(ends, word)
  while (at < end) {
    const place = places[at] as number
    let times = 0
    for (; at < end && places[at] === place; at += 1)
      times += (positions[at] as number) < (lengths[place] as number) ? 1 : IN_PARTS
    note(place, times)
  }
}

/**
 * Notes each notice in which the stems follow one another. Neither memory nor time grows with the length of the phrase:
 * each position of a notice has a bit for each place in the phrase that its word fits, and one pass over them finds where the
 * phrase ends (the bitap algorithm).
 */
async function notePhrase(
  text: MonthText,
  { stems }: Phrase,
  note: Note,
  pause: () => Promise<void>,
): Promise<void> {
  const words = wordsOfPhrase(text, stems)
  const inNotice = new Int32Array(text.lengths.length)
  for (const { at, end, bits } of words)
    for (let next = at; next < end; next += 1) {
      if ((next - at) % PAUSE_AFTER_WORDS === 0) await pause()
      const place = text.places[next] as number
      // Of its items and requirements, each word is there once.
      if ((text.positions[next] as number) < (text.lengths[place] as number)) mark(inNotice, place, bits)
    }
  const [all, last] = [(-1 >>> (32 - stems.length)) | 0, 1 << (stems.length - 1)]
  const bitsAt = new Int32Array(text.lengths.reduce((most, length) => Math.max(most, length)))
  let sincePause = 0
  for (const [place, bits] of inNotice.entries()) {
    if (bits !== all) continue
    const length = text.lengths[place] as number
    sincePause += length
    if (sincePause > PAUSE_AFTER_WORDS) {
      await pause()
      sincePause = 0
    }
    for (const word of words) {
      while (word.at < word.end && (text.places[word.at] as number) < place) word.at += 1
      for (; word.at < word.end && text.places[word.at] === place; word.at += 1) {
        const position = text.positions[word.at] as number
        if (position < length) mark(bitsAt, position, word.bits)
      }
    }
    let [state, times] = [0, 0]
    for (let position = 0; position < length; position += 1) {
      state = ((state << 1) | 1) & (bitsAt[position] as number)
      if ((state & last) !== 0) times += 1
      bitsAt[position] = 0
    }
    if (times > 0) note(place, times, 1)
  }
}

function mark(places: Int32Array, place: number, bits: number): void {
  places[place] = (places[place] as number) | bits
}

/** Returns the occurrences of each word that fits somewhere in a phrase, with a bit for each place that it fits. */
function wordsOfPhrase(
  text: MonthText,
  stems: readonly string[],
): { at: number; end: number; bits: number }[] {
  const words = new Map<number, number>()
  for (const [number, stem] of stems.entries())
    for (const word of findForms(text, stem)) words.set(word, (words.get(word) ?? 0) | (1 << number))
  return [...words].map(([word, bits]) => ({
    at: findBegin(text.ends, word),
    end: text.ends[word] as number,
    bits,
  }))
}

function findBegin(ends: Uint32Array, number: number): number {
  return number === 0 ? 0 : (ends[number - 1] as number)
}
