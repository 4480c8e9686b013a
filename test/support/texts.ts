import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { parse } from 'yaml'

type Lists = readonly (readonly string[])[]

/** `test/corpus/texts/keys.yaml`: which texts are the same. */
export const KEYS = parse(readFileSync(join(import.meta.dirname, '../corpus/texts/keys.yaml'), 'utf8')) as {
  readonly clean: readonly (readonly [text: string, clean: string | null])[]
  readonly same: Lists
  readonly different: Lists
  readonly modalities: { readonly same: Lists; readonly different: Lists }
  readonly units: { readonly same: Lists; readonly different: Lists }
}

const INVISIBLE = ['\u00ad', '\u200b', '\u200d', '\u200e', '\u2060', '\u2066', '\u202a', '\u061c', '\ufeff']
const SPACES = [' ', '  ', '\t', '\r\n', '\u00a0', '\u2007', '\u2009', '\u202f', '\u3000', ' \u200b ']

/** Random ways to write a text: normal forms, case, spaces and invisible characters. What a person reads stays the same. */
export function spellingsOf(text: string): fc.Arbitrary<string> {
  const letters = [...text]
  return fc
    .record({
      form: fc.constantFrom('NFC', 'NFD'),
      recase: fc.constantFrom(
        (one: string) => one,
        (one: string) => one.toUpperCase(),
        (one: string) => one.toLowerCase(),
      ),
      spaces: fc.array(fc.constantFrom(...SPACES), { minLength: letters.length, maxLength: letters.length }),
      marks: fc.array(fc.constantFrom('', '', '', ...INVISIBLE), {
        minLength: letters.length,
        maxLength: letters.length,
      }),
      ends: fc.tuple(fc.constantFrom('', ...SPACES), fc.constantFrom('', ...SPACES)),
    })
    .map(({ form, recase, spaces, marks, ends: [before, after] }) => {
      const written = letters.map((letter, n) =>
        letter === ' ' ? spaces[n] : recase(letter).normalize(form),
      )
      return `${before}${written.map((one, n) => `${one}${marks[n]}`).join('')}${after}`
    })
}
