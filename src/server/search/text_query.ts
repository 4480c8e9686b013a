import { cleanText } from '#schema/text_key.ts'
import { isStopWord, stemOf, withoutNumber, wordsOf } from './words.ts'

/** Each adds a pass over its occurrences; people type fewer. */
const MAX_TERMS = 32
/** A shorter prefix finds nearly everything. */
const MIN_PREFIX = 2

/** One thing that a notice's text must have. */
export type Term =
  | { readonly kind: 'word'; readonly stem: string; readonly singular: string }
  /** Stems that follow one another. */
  | { readonly kind: 'phrase'; readonly stems: readonly string[] }
  /** The beginning of a word. */
  | { readonly kind: 'prefix'; readonly prefix: string }

/** Either what a search is for, or a sentence that says why that is not clear. */
export type TextQuery = { readonly terms: readonly Term[] } | { readonly problem: string }

const PART = /"([^"]*)"?|[^\s"]+/gu

/**
 * Reads `aquisição "merenda escolar" medic*`: words, phrases and prefixes, all of which must be there. Stop words count
 * only in phrases, or if there is nothing else.
 */
export function parseText(text: string): TextQuery {
  const terms = new Map<string, Term>()
  const stopWords = new Map<string, Term>()
  const add = (term: Term, into = terms) => void into.set(JSON.stringify(term), term)
  for (const [part, phrase] of cleanText(text).matchAll(PART)) {
    const words = wordsOf(phrase ?? part)
    if (phrase !== undefined && words.length > 1) {
      add({ kind: 'phrase', stems: words.map(stemOf) })
      continue
    }
    const prefix = phrase === undefined && part.endsWith('*') ? words.pop() : undefined
    for (const word of words) {
      const term = { kind: 'word', stem: stemOf(word), singular: withoutNumber(word) } as const
      add(term, isStopWord(word) ? stopWords : terms)
    }
    if (prefix === undefined) continue
    // `01*`: without the zero, which no word has in front, a number.
    if (/^\d$/.test(prefix)) {
      add({ kind: 'word', stem: stemOf(prefix), singular: withoutNumber(prefix) })
      continue
    }
    if (prefix.length < MIN_PREFIX)
      return { problem: `${prefix}* is too short: a prefix has ${MIN_PREFIX} letters or more` }
    add({ kind: 'prefix', prefix })
  }
  const all = [...(terms.size > 0 ? terms : stopWords).values()]
  if (all.length === 0) return { problem: 'it has no word to search for' }
  const wordCount = all.reduce((sum, term) => sum + (term.kind === 'phrase' ? term.stems.length : 1), 0)
  if (wordCount > MAX_TERMS) return { problem: `it has ${wordCount} words; at most ${MAX_TERMS} are allowed` }
  return { terms: all }
}
