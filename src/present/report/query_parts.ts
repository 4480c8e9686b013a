import type { Row } from '#src/store/warehouse/database.ts'
import type { Bounded } from './figures.ts'

/** What the report's queries share. */

/** Maximum characters read of a text; the page cuts texts even shorter. */
export const TEXT = 600

/** `2026-11-21` in the time zone of the notices. */
export type Today = { readonly today: string }

/** Summed as decimals, so that the order of the rows does not matter. */
export function sumOfValues(those: string | undefined): string {
  const only = those ? ` FILTER (${those})` : ''
  return `coalesce(sum(valor_estimado_informado::DECIMAL(20, 4))${only}, 0)::DOUBLE`
}

export type Total = { readonly total: number }

export function bounded<T extends Row>(rows: readonly (T & Total)[]): Bounded<T> {
  return { rows, total: rows[0]?.total ?? 0 }
}
