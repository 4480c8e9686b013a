import { NOTICE } from '#schema/notice.ts'
import { isSameTime } from '#schema/times.ts'

const TIME_ZONE = 'America/Sao_Paulo'

/** Whether two values of a field mean the same: another spelling of the same time is no change, and makes no event. */
export function isSameValue(field: string, one: unknown, other: unknown): boolean {
  if (JSON.stringify(one) === JSON.stringify(other)) return true
  const isTime = Object.hasOwn(NOTICE, field) && NOTICE[field as keyof typeof NOTICE].type === 'date-time'
  return isTime && isSameTime(String(one), String(other), TIME_ZONE)
}

/** Whether two documents have the same fields, of the same meaning. */
export function isSameDocument(one: string | null | undefined, other: string | null | undefined): boolean {
  if (one === other) return true
  if (!one || !other) return false
  const [left, right] = [fieldsOf(one), fieldsOf(other)]
  const fields = new Set([...Object.keys(left), ...Object.keys(right)])
  return [...fields].every(field => isSameValue(field, left[field] ?? null, right[field] ?? null))
}

function fieldsOf(json: string): Record<string, unknown> {
  return JSON.parse(json) as Record<string, unknown>
}
