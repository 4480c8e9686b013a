const MOMENT =
  /^(\d{4})-(\d\d)-(\d\d)(?:[Tt ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,18}))?)?\s?([Zz]|[+-]\d\d(?::?\d\d)?)?)?$/
const LOCAL = 'America/Sao_Paulo'
const known = new Map<string, readonly bigint[] | null>()

/**
 * Microseconds since 1970. Two values if the clocks showed the local time twice, or skipped it: both are valid.
 * Null if the text is not a moment.
 */
export function microsOf(written: string): readonly bigint[] | null {
  let micros = known.get(written)
  if (micros === undefined) {
    if (known.size > 10_000) known.clear()
    micros = readMoment(written)
    known.set(written, micros)
  }
  return micros
}

/** A text without what nobody sees in it. */
export function seen(written: string): string {
  return written
    .replace(/[\p{Cf}\p{DI}]/gu, '')
    .replace(/[\p{Z}\p{Cc}]+/gu, ' ')
    .trim()
}

function readMoment(written: string): readonly bigint[] | null {
  const [matched, year, month, day, hour = 0, minute = 0, second = 0, fraction = '', offset] =
    MOMENT.exec(seen(written)) ?? []
  if (matched === undefined || Number(year) === 0) return null
  const parts = { year, month, day, hour, minute, second }
  const numbers = Object.fromEntries(Object.entries(parts).map(([name, part]) => [name, Number(part)]))
  let local: Temporal.PlainDateTime
  try {
    local = Temporal.PlainDateTime.from(numbers as unknown as Temporal.PlainDateTimeLike, {
      overflow: 'reject',
    })
  } catch {
    return null
  }
  const beyond = BigInt(fraction.slice(0, 6).padEnd(6, '0'))
  const inZone = (zone: string, disambiguation: 'earlier' | 'later') =>
    local.toZonedDateTime(zone, { disambiguation }).epochNanoseconds / 1000n + beyond
  if (offset === undefined) return [inZone(LOCAL, 'later'), inZone(LOCAL, 'earlier')]
  if (/z/i.test(offset)) return [inZone('UTC', 'later')]
  const [hours, minutes] = [Number(offset.slice(1, 3)), Number(offset.slice(3).replace(':', '') || 0)]
  if (hours > 15 || minutes > 59) return null
  const minutesAhead = BigInt((hours * 60 + minutes) * (offset.startsWith('-') ? -1 : 1))
  return [inZone('UTC', 'later') - minutesAhead * 60_000_000n]
}
