/** Numbers as tenders write them: digits, words, ordinals. */

const UNITS: readonly (readonly string[])[] = [
  ['zero'],
  ['um', 'uma', 'primeiro', 'primeira'],
  ['dois', 'duas', 'segundo'],
  ['tres', 'terceiro'],
  ['quatro', 'quarto'],
  ['cinco', 'quinto'],
  ['seis', 'sexto'],
  ['sete', 'setimo'],
  ['oito', 'oitavo'],
  ['nove', 'nono'],
  ['dez'],
  ['onze'],
  ['doze'],
  ['treze'],
  ['quatorze', 'catorze'],
  ['quinze'],
  ['dezesseis'],
  ['dezessete'],
  ['dezoito'],
  ['dezenove'],
]
/** A smaller number can follow: "vinte e cinco", "décimo quinto". */
const TENS: readonly (readonly [string, number])[] = [
  ['decimo', 10],
  ['vinte', 20],
  ['vigesimo', 20],
  ['trinta', 30],
  ['trigesimo', 30],
  ['quarenta', 40],
  ['cinquenta', 50],
  ['cincoenta', 50],
  ['sessenta', 60],
  ['setenta', 70],
  ['oitenta', 80],
  ['noventa', 90],
]
const HUNDREDS: readonly (readonly [string, number])[] = [
  ['cento', 100],
  ['cem', 100],
]

const VALUES = new Map<string, number>([
  ...UNITS.flatMap((words, value) => words.map(word => [word, value] as const)),
  ...TENS,
  ...HUNDREDS,
])

const SMALL = UNITS.flat().join('|')
const BELOW_HUNDRED = `(?:${TENS.map(([word]) => word).join('|')})(?:\\s+(?:e\\s+)?(?:${SMALL}))?|${SMALL}`

/** The source of a regular expression for a number, in folded text; with a word's end behind a word. */
export const numberPattern = `(?:\\d{1,3}|(?:(?:cento\\s+e\\s+)?(?:${BELOW_HUNDRED})|cem)\\b)`

/** Reads a number in digits or words. @param text that matches `numberPattern`. */
export function numberOf(text: string): number {
  if (/^\d/.test(text)) return Number(text)
  return text.split(/\s+(?:e\s+)?/).reduce((sum, word) => sum + (VALUES.get(word) ?? 0), 0)
}
