import type { VisibleValue } from './order.ts'

/**
 * Characters that a person does not see, but a program reads: controls, directions, joiners, tags, variation selectors,
 * fillers, private and unassigned ones, halves of surrogates. Line feeds and tabs stay. They are named, not removed as in
 * `cleanText`: a model must know that a text has something to hide.
 */
const INVISIBLE = /(?:(?![\n\t])[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Cs}\p{Zl}\p{Zp}\p{DI}\u2800])+/gu

/** Returns the text with each run of invisible characters as ⟦U+200B⟧, or ⟦U+E0041 and 11 more⟧. */
export function visible(text: string): string {
  return text.replaceAll('\r\n', '\n').replaceAll(INVISIBLE, run => {
    const [first = ''] = run
    const code = (first.codePointAt(0) as number).toString(16).toUpperCase().padStart(4, '0')
    const more = [...run].length - 1
    return more === 0 ? `⟦U+${code}⟧` : `⟦U+${code} and ${more} more⟧`
  })
}

/** Makes every text and name in a value visible; cuts longer texts, and states how much is missing. */
export function visibleValue(value: string, maxText: number): string
export function visibleValue(value: unknown, maxText: number): VisibleValue
export function visibleValue(value: unknown, maxText: number): VisibleValue {
  if (typeof value === 'string') return cut(visible(value), maxText)
  if (value === null || typeof value !== 'object') return value as null | boolean | number
  if (Array.isArray(value)) return value.map(one => visibleValue(one, maxText))
  return Object.fromEntries(
    Object.entries(value).map(([name, one]) => [cut(visible(name), maxText), visibleValue(one, maxText)]),
  )
}

/** Cuts a text after so many characters, and states how many are missing. */
export function cut(text: string, maxText: number): string {
  if (text.length <= maxText) return text
  // Not between the halves of a character.
  const kept = text.slice(0, maxText).replace(/[\uD800-\uDBFF]$/, '')
  return `${kept}… (cut: ${text.length - kept.length} more characters)`
}

/** Returns a value that was written as JSON; integers beyond those of a double are texts with all their digits. */
export function parseValue(json: string): unknown {
  return JSON.parse(json, (_, value, context?: { source?: string }) =>
    typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value)
      ? (context?.source ?? String(value))
      : value,
  )
}
