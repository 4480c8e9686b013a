import { readFileSync } from 'node:fs'
import { textKey } from '#schema/text_key.ts'
import { line } from './format.ts'

/** What readers see instead of a code, from the same lists as in the marts (`fases`, `rotulos`); in the order of the list. */

export type Labels = ReadonlyMap<string, string>

const read = (mart: string) =>
  readFileSync(new URL(`../../../schema/marts/${mart}.sql`, import.meta.url), 'utf8')

/** The names of the phases. */
export const PHASES: Labels = new Map(
  [...read('fases').matchAll(/\('([^']+)', '([^']+)', \d+, (?:true|false)\)/g)].map(
    ([, code, name]) => [code, name] as [string, string],
  ),
)

/** The phases of notices that are not over, separated by commas, as the API takes them. */
export const OPEN_PHASES = [...read('fases').matchAll(/\('([^']+)', '[^']+', \d+, true\)/g)]
  .map(([, code]) => code)
  .join(',')

const OF_COLUMNS = Map.groupBy(
  read('rotulos').matchAll(/\('([^']+)', '([^']+)', '([^']+)', \d+\)/g),
  ([, column]) => column as string,
)

/**
 * The labels of a column's codes.
 * @param column as in `rotulos`: `alerts.severity`.
 * @throws Error if it has none.
 */
export function labelsOf(column: string): Labels {
  const rows = OF_COLUMNS.get(column)
  if (!rows) throw new Error(`rotulos has no column ${column}`)
  return new Map(rows.map(([, , code, label]) => [code as string, label as string]))
}

/** The label of a code, however it is spelled; another text in one line, null for what is no text. */
export function nameIn(labels: Labels, value: unknown, maxCharacters: number): string | null {
  if (typeof value !== 'string') return null
  return labels.get(value) ?? labels.get(textKey(value)) ?? line(value, maxCharacters)
}
