import fc from 'fast-check'

/** Local times of the zone, `America/Sao_Paulo`, are three hours earlier since 2019. */
const LOCAL_MINUTES = -180

/** A point in time, and any number of its spellings. */
export type Spelled = { readonly texts: readonly string[] }

/** Points in time from 2020 to 2059, each with some of all the ways in which the API may write it. */
export function spelledTimes(count = 4): fc.Arbitrary<Spelled> {
  const instant = fc.record({
    seconds: fc.integer({ min: Date.UTC(2020, 0, 2) / 1000, max: Date.UTC(2059, 11, 30) / 1000 }),
    // Few digits, and often none: then seconds may be left out.
    fraction: fc.oneof(fc.constant(''), fc.stringMatching(/^\d{0,8}[1-9]$/)),
    isWholeMinute: fc.boolean(),
  })
  return instant.chain(({ seconds, fraction, isWholeMinute }) => {
    const whole = isWholeMinute && fraction === '' ? seconds - (seconds % 60) : seconds
    return fc
      .array(spelling(whole, fraction), { minLength: count, maxLength: count })
      .map(texts => ({ texts }))
  })
}

function spelling(seconds: number, fraction: string): fc.Arbitrary<string> {
  return fc
    .record({
      separator: fc.constantFrom('T', 't', ' '),
      zeros: fc.nat({ max: 9 }),
      point: fc.constantFrom('.', ','),
      space: fc.constantFrom('', ' ', '\u00a0'),
      unseen: fc.array(fc.constantFrom('', '', '', '\u200b', '\u00ad', '\ufeff'), {
        minLength: 3,
        maxLength: 3,
      }),
      ends: fc.constantFrom('', '', ' ', '\t\u00a0'),
      minutes: fc.integer({ min: -12 * 60, max: 14 * 60 }),
      zone: fc.constantFrom('Z', 'z', 'offset', 'without colon', 'whole hour', 'local'),
    })
    .map(({ separator, zeros, point, space, unseen: [one, two, three], ends, minutes: drawn, zone }) => {
      const minutes = zone === 'whole hour' ? Math.trunc(drawn / 60) * 60 : drawn
      const shift = /^z$/i.test(zone) ? 0 : zone === 'local' ? LOCAL_MINUTES : minutes
      const iso = new Date((seconds + shift * 60) * 1000).toISOString()
      const digits = fraction + '0'.repeat(zeros)
      const isShort = digits === '' && seconds % 60 === 0
      const time = `${iso.slice(11, isShort ? 16 : 19)}${digits === '' ? '' : point + digits}`
      const day = iso.slice(0, 10)
      return `${ends}${one}${day}${separator}${two}${time}${zone === 'local' ? '' : space}${offset(zone, minutes)}${three}${ends}`
    })
}

function offset(zone: string, minutes: number): string {
  if (zone === 'local') return ''
  if (zone === 'Z' || zone === 'z') return zone
  const [hour, rest] = [Math.trunc(Math.abs(minutes) / 60), Math.abs(minutes) % 60].map(part =>
    String(part).padStart(2, '0'),
  )
  const sign = minutes < 0 ? '-' : '+'
  if (zone === 'whole hour') return `${sign}${hour}`
  return `${sign}${hour}${zone === 'offset' ? ':' : ''}${rest}`
}
