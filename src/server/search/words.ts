import { stemmer } from '@orama/stemmers/portuguese'
import { stopwords } from '@orama/stopwords/portuguese'
import { cleanText, fold, makeTextKey } from '#schema/text_key.ts'

/**
 * A CNPJ with its punctuation, a number with points between its thousands, the `-1-` of the portal's identifiers, or letters and
 * digits. In a folded text.
 */
const WORD =
  /[0-9a-z]{2}\.[0-9a-z]{3}\.[0-9a-z]{3}\/[0-9a-z]{4}-\d{2}|\d{1,3}(?:\.\d{3})+(?!\d)|(?<=\d)-1-(?=\d)|[\p{L}\p{N}]+/gu
const PUNCTUATION = /[./-]/g
const NUMBER = /^\d+$/
const LEADING_ZEROS = /^0+(?!$)/
/** Longer words are cut: they are codes or noise, and a stemmer reads each letter several times. */
const MAX_LETTERS = 40

/**
 * Regular plurals, because the stemmer leaves many apart from their singular: it makes `aquisiçõ` of "aquisições", but `aquisiçã`
 * of "aquisição", and neither `obra` of "obras" nor `kit` of "kits". The first that fits counts. Other words that end like a
 * plural lose nothing: they have no form without its end.
 */
const SINGULAR: readonly (readonly [plural: RegExp, singular: string])[] = [
  [/(?:oes|aes|aos)$/, 'ao'],
  // "úteis", "portáteis", "estéreis"; other words in eis are of el or vel.
  [/(ut|fac|fic|text|[rst]at|lat|ter|fert|ept|jet|hab|ontab|rag|deb|doc|foss|miss)eis$/, '$1il'],
  [/^([gs])([aeo])is$/, '$1$2l'],
  [/(?<=..)([aeou])is$/, '$1l'],
  // "civis", "infantis", "perfis"; not "bisturis".
  [/(?<=..)(?<!tu)([bdfhlnrtvz])is$/, '$1il'],
  [/(?<=..)ns$/, 'm'],
  // "escolares" as "escolar", and "softwares" as "software", without its last letter.
  [/(?<=..[aeo])res?$/, 'r'],
  // "franceses" as "francês"; not "próteses".
  [/(?<=..(?:[lu]|anc|in|on|and))eses$/, 'e'],
  [/(?<=..[^is])s$/, ''],
]

/** The ending of other plurals: "bisturis". */
const REGULAR_PLURAL = /(?<=...)is$/
/** "escolares", "luzes", "meses"; no rule distinguishes them from "base". */
const LINKING_E = /(?<=..[rzs])e$/

/** Endings that the stemmer knows only with their accent, which people leave out when they search. */
const ACCENTED: readonly (readonly [plain: RegExp, accented: string])[] = [
  [/cao$/, 'ção'],
  [/ao$/, 'ão'],
  [/([ai])vel$/, '$1́vel'],
  [/([ae])ncia$/, '$1̂ncia'],
]

/** Returns the words of a text in their order, folded. */
export function splitWords(text: string): string[] {
  // Every identifier has it.
  const words = (makeTextKey(text).match(WORD) ?? []).filter(word => word !== '-1-')
  return words.map(word => {
    const bare = word.replaceAll(PUNCTUATION, '').slice(0, MAX_LETTERS)
    // `0147/2026` is `147/2026`.
    return NUMBER.test(bare) ? bare.replace(LEADING_ZEROS, '') : bare
  })
}

/**
 * Returns what the forms of a word have in common.
 * @param word folded: a search without accents must find the same as one with them.
 */
export function stemWord(word: string): string {
  return fold(stemmer(replaceFirst(makeSingular(word), ACCENTED).normalize('NFC')))
}

/**
 * Returns the singular of a word, or what it has in common with its plural: `escolar` for "escolares", `bas` for "base" and
 * "bases".
 * @param word folded.
 */
export function removeNumber(word: string): string {
  return makeSingular(word).replace(REGULAR_PLURAL, 'i').replace(LINKING_E, '')
}

function makeSingular(word: string): string {
  return replaceFirst(word, SINGULAR)
}

function replaceFirst(word: string, endings: readonly (readonly [RegExp, string])[]): string {
  const ending = endings.find(([form]) => form.test(word))
  return ending ? word.replace(...ending) : word
}

const STOP_WORDS = new Set(stopwords.map(fold))

/** Returns whether a word, such as "de", is in nearly every text. */
export function isStopWord(word: string): boolean {
  return STOP_WORDS.has(word)
}

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
    const words = splitWords(phrase ?? part)
    if (phrase !== undefined && words.length > 1) {
      add({ kind: 'phrase', stems: words.map(stemWord) })
      continue
    }
    const prefix = phrase === undefined && part.endsWith('*') ? words.pop() : undefined
    for (const word of words) {
      const term = { kind: 'word', stem: stemWord(word), singular: removeNumber(word) } as const
      add(term, isStopWord(word) ? stopWords : terms)
    }
    if (prefix === undefined) continue
    // `01*`: without the zero, which no word has in front, a number.
    if (/^\d$/.test(prefix)) {
      add({ kind: 'word', stem: stemWord(prefix), singular: removeNumber(prefix) })
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
