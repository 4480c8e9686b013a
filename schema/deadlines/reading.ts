import { readLaws } from './laws.ts'
import { readDeadlines } from './read.ts'

/** Raise it if the same texts give another reading: warehouses are then rebuilt from their logs. */
export const READER_VERSION = 2

/** Many notices have the same texts. */
const MAX_KEPT = 10_000
/** Longer texts are read each time. */
const MAX_KEPT_CHARACTERS = 1_000

const kept = new Map<string, string | null>()

/**
 * Reads what a notice states of its deadlines, as JSON text: the readings of each act (`read.ts`), and the laws (`laws.ts`).
 * @returns null if both texts are empty.
 */
export function deadlineReading(text: string, law: string): string | null {
  if (text === '' && law === '') return null
  if (text.length + law.length > MAX_KEPT_CHARACTERS) return read(text, law)
  const key = `${text}\0${law}`
  const known = kept.get(key)
  if (known !== undefined) return known
  const reading = read(text, law)
  if (kept.size >= MAX_KEPT) kept.clear()
  kept.set(key, reading)
  return reading
}

function read(text: string, law: string): string {
  return JSON.stringify({ ...readDeadlines(text), ...readLaws(law, text) })
}
