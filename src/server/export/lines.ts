import { computeTag } from '#src/lib/hash.ts'
import type { PreparedMonth } from '#src/server/prepared_month.ts'

export const WHAT = ['notices', 'analyses', 'both'] as const
/** `notices` and `analyses` have one document a line; `both` has one notice a line, with its analysis or null. */
export type What = (typeof WHAT)[number]

/** The text around the documents of a line of both. */
export const BOTH = { before: '{"edital":', between: ',"analysis":', none: 'null', after: '}' } as const
const BOTH_BYTES = BOTH.before.length + BOTH.between.length + BOTH.after.length
const NEWLINE_BYTES = 1

/** Read and unpacked at once: large enough that handing it over costs nothing, small enough to hold many of them. */
const SPAN_BYTES = 512 * 1024

/** Written at once: the system takes megabytes at once, and all clients wait for the copy. */
export const PIECE_BYTES = 256 * 1024

/** Lines of neighbouring notices of a month, of which the first `skip` bytes are not wanted. */
export type LineSpan = {
  readonly month: PreparedMonth
  readonly from: number
  readonly to: number
  readonly bytes: number
  readonly skip: number
  /** Whether it is one line that alone is larger than other spans. */
  readonly isLarge: boolean
}

/** Returns the number of bytes of a notice's line, with its newline; 0 if it has none. */
function lineBytes(month: PreparedMonth, place: number, what: What): number {
  const notice = month.noticeBytes(place)
  if (what === 'notices') return notice + NEWLINE_BYTES
  const analysis = month.index.analyses[place]?.size ?? null
  if (what === 'both') return BOTH_BYTES + notice + (analysis ?? BOTH.none.length) + NEWLINE_BYTES
  return analysis === null ? 0 : analysis + NEWLINE_BYTES
}

type Sums = Record<What, number | null>
const monthSums = new WeakMap<PreparedMonth, Sums>()

function monthBytes(month: PreparedMonth, what: What): number {
  const sums: Sums = monthSums.get(month) ?? { notices: null, analyses: null, both: null }
  monthSums.set(month, sums)
  const bytes = sums[what] ?? readSum(month, what)
  sums[what] = bytes
  return bytes
}

function readSum(month: PreparedMonth, what: What): number {
  let bytes = 0
  for (let place = 0; place < month.size; place += 1) bytes += lineBytes(month, place, what)
  return bytes
}

/** Returns the number of bytes of all lines. */
export function exportBytes(months: readonly PreparedMonth[], what: What): number {
  return months.reduce((sum, month) => sum + monthBytes(month, what), 0)
}

/** Identifies the bytes of all lines: another snapshot with the same documents has the same tag. */
export function exportTag(months: readonly PreparedMonth[], what: What): string {
  const tags = months.map(month => [
    what === 'analyses' || month.tag,
    what === 'notices' || month.analysesTag,
  ])
  return computeTag(JSON.stringify([what, tags]))
}

/** Yields everything from this byte on, month by month, newest notice first. */
export function* listSpansFrom(
  months: readonly PreparedMonth[],
  what: What,
  firstByte: number,
): Generator<LineSpan> {
  let skip = firstByte
  for (const month of months) {
    if (skip >= monthBytes(month, what)) {
      skip -= monthBytes(month, what)
      continue
    }
    let [from, bytes] = [0, 0]
    for (let place = 0; place < month.size; place += 1) {
      const line = lineBytes(month, place, what)
      if (skip >= bytes + line && bytes === 0) {
        skip -= line
        from = place + 1
        continue
      }
      const isLarge = line >= SPAN_BYTES
      if (isLarge && bytes > 0) {
        yield { month, from, to: place, bytes, skip, isLarge: false }
        from = place
        bytes = 0
        skip = 0
      }
      bytes += line
      if (bytes < SPAN_BYTES && place < month.size - 1) continue
      if (bytes > 0) yield { month, from, to: place + 1, bytes, skip, isLarge }
      from = place + 1
      bytes = 0
      skip = 0
    }
  }
}
