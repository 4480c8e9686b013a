import { known, sorted } from './arithmetic.ts'
import { textOf } from './contract.ts'
import type { Followed } from './history.ts'

/** What readers see of a text, and when two texts are the same: by its own rules, not those of `schema/text_key.ts`. */

/** Without what cannot be seen, with single spaces; null if nothing is left. */
export function seen(text: string | null): string | null {
  const visible = (text ?? '').replaceAll(/[\p{Cf}\p{DI}]/gu, '').normalize('NFC')
  return (
    visible
      .split(/[\s\p{Cc}]+/u)
      .filter(Boolean)
      .join(' ') || null
  )
}

/** Without case and accents. */
export function plain(text: string): string {
  return text.normalize('NFD').replaceAll(/\p{M}/gu, '').toLowerCase()
}

/** The most frequent of these; of equally frequent ones the first. */
export function mostFrequent(texts: readonly string[]): string {
  const counted = [...Map.groupBy(texts, text => text)].map(([text, all]) => ({ text, count: all.length }))
  return sorted(
    counted,
    ({ count }) => -count,
    ({ text }) => text,
  )[0]?.text as string
}

const COLUMNS = ['orgao', 'modalidade', 'uf', 'discard_reason'] as const

function keyOf(column: (typeof COLUMNS)[number], text: string): string {
  if (column !== 'modalidade') return plain(text)
  const words = plain(text)
    .split(/[^a-z0-9]+/)
    .filter(Boolean)
    .join(' ')
  return words.replace(/^(dispensa|inexigibilidade) de licitacao$/, '$1').replace(' na forma ', ' ')
}

/** Notices with each text in the spelling that most live ones with the same text have. */
export function respelled(followed: readonly Followed[]): Followed[] {
  const read = (edital: Followed['edital'], column: (typeof COLUMNS)[number]) => {
    const text = seen(textOf(edital[column]))
    return column === 'uf' ? (text?.toUpperCase() ?? null) : text
  }
  const spellings = COLUMNS.map(column => {
    const live = followed.filter(({ goneAt }) => goneAt === null)
    const texts = known(live.map(({ edital }) => read(edital, column)))
    const groups = Map.groupBy(texts, text => keyOf(column, text))
    return [column, new Map([...groups].map(([key, all]) => [key, mostFrequent(all)]))] as const
  })
  return followed.map(one => {
    const shown = spellings.map(([column, chosen]) => {
      const text = read(one.edital, column)
      return [column, text === null ? null : (chosen.get(keyOf(column, text)) ?? text)]
    })
    return { ...one, edital: { ...one.edital, ...Object.fromEntries(shown) } }
  })
}
