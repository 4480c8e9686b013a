import { dayAndTime, line, moment, money, NONE } from '#src/present/text/format.ts'

/** Values of documents, which come from strangers, in the form in which readers see them. */

type Document = Readonly<Record<string, unknown>>

export function text(document: Document, name: string, maxCharacters: number): string | null {
  const value = document[name]
  return typeof value === 'string' ? line(value, maxCharacters) : null
}

export function amount(value: unknown): string {
  return typeof value === 'number' && Number.isFinite(value) ? money(value) : NONE
}

export function quantity(value: unknown): string {
  return typeof value === 'number' ? new Intl.NumberFormat('pt-BR').format(value) : NONE
}

export function yesOrNo(value: unknown): string {
  return typeof value === 'boolean' ? (value ? 'Sim' : 'Não') : NONE
}

/**
 * A session: in Brazilian time if it is an instant, as it was sent otherwise (then it is local already).
 * @param timeZone of instants.
 */
export function session(value: unknown, timeZone: string): string {
  if (typeof value !== 'string') return NONE
  const parts = /^(\d{4})-(\d\d)-(\d\d)(?:T(\d\d):(\d\d))?/.exec(value)
  if (!parts) return line(value, 40) ?? NONE
  const hasOffset = /(Z|[+-]\d\d:\d\d)$/.test(value)
  if (hasOffset) return moment(value, timeZone)
  const local = new Date(`${parts[0].length === 10 ? `${parts[0]}T00:00` : parts[0]}:00Z`)
  return Number.isNaN(local.getTime()) ? (line(value, 40) ?? NONE) : dayAndTime(local)
}
