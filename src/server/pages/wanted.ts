import type { Context } from 'hono'
import { cleanText } from '#schema/text_key.ts'

/** The names of the form's fields. */
export const FIELDS = [
  'q',
  'uf',
  'fase',
  'parecer',
  'modalidade',
  'de',
  'ate',
  'minimo',
  'maximo',
  'ordem',
] as const

/** The values of the search form; absent fields were left empty. */
export type Wanted = Readonly<Partial<Record<(typeof FIELDS)[number], string>>>

/** Returns what the form, or an address made from it, asks for. */
export function wantedOf(context: Context): Wanted {
  const given = FIELDS.map(field => [field, cleanText(context.req.query(field) ?? '')] as const)
  return Object.fromEntries(given.filter(([, value]) => value !== ''))
}

/** Returns the address of a page of a search. */
export function searchAddress(wanted: Wanted, cursor?: string): string {
  return `/editais${queryOf(wanted, cursor)}`
}

/** Returns the search in an address. Notices have it as well, for the way back. */
export function queryOf(wanted: Wanted, cursor?: string): string {
  const all = new URLSearchParams({ ...wanted, ...(cursor !== undefined && { cursor }) })
  return all.size === 0 ? '' : `?${all}`
}
