import type { Portuguese } from './columns.ts'

type Described = { readonly description: string; readonly portuguese: Portuguese; readonly unit?: string }

/**
 * Returns the comment on a table, a mart or a column in the catalog and in Metabase: in Portuguese, then in English, with the
 * unit.
 */
export function comment({ description, portuguese: [label, inPortuguese], unit }: Described): string {
  return `${label}: ${inPortuguese} (${description}${unit ? ` [${unit}]` : ''})`
}
