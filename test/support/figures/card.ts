import { inUtc } from './calendar.ts'
import type { Picture } from './picture.ts'

/** What a card shows. */

export type Cell = string | number | Date | null
export type Row = Readonly<Record<string, Cell>>

/** The rows that a card must show for a picture. */
export type Card = (picture: Picture) => Row[]

export const WEEKDAYS = ['segunda', 'terça', 'quarta', 'quinta', 'sexta', 'sábado', 'domingo']

type Local = Temporal.PlainDate | Temporal.PlainDateTime

export const date = (local: Local | null): Date | null => local && inUtc(local)
