import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  findPlausibleInstants,
  isDateTime,
  isPlausible,
  isSameTime,
  normalizeDateTime,
  parseLocalTime,
  readTime,
  shiftToLocalTime,
  timeKey,
  unifySpelling,
} from '#schema/times.ts'
import { literal } from '#src/core/warehouse/quoted.ts'
import { timeKeySql } from '#src/core/warehouse/sql.ts'
import { spelledTimes } from '#test/support/spellings.ts'
import { openScratch } from '#test/support/worker_database.ts'

const ZONE = 'America/Sao_Paulo'
/** fast-check names it with the case that fails. */
const SEED = 36

/** Runs `work` in a process whose time zone is this one. */
function inZone<T>(zone: string, work: () => T): T {
  const before = process.env.TZ
  process.env.TZ = zone
  try {
    return work()
  } finally {
    if (before === undefined) delete process.env.TZ
    else process.env.TZ = before
  }
}

describe('a text', () => {
  it.each([
    ['2027-03-10 09:00:00', '2027-03-10T12:00:00.000Z'],
    ['2027-03-10T09:00', '2027-03-10T12:00:00.000Z'],
    ['2027-03-10', '2027-03-10T03:00:00.000Z'],
    ['2027-03-10t12:00:00z', '2027-03-10T12:00:00.000Z'],
    ['2027-03-10T12:00:00,250 +0000', '2027-03-10T12:00:00.250Z'],
    ['\u200b2027-03-10\u00a009:00\u00ad:00 ', '2027-03-10T12:00:00.000Z'],
    [' 2027-03-10\t', '2027-03-10T03:00:00.000Z'],
    ['2027-03-10T17:30+05:30', '2027-03-10T12:00:00.000Z'],
    ['0001-01-01T00:00:00Z', '0001-01-01T00:00:00.000Z'],
    // As DuckDB: the later one of an hour that is there twice, and an hour that is not there counts from before it.
    ['2018-02-17T23:30:00', '2018-02-18T02:30:00.000Z'],
    ['2018-11-04T00:30:00', '2018-11-04T03:30:00.000Z'],
  ])('%s is read alike in every process', (text, expected) => {
    for (const zone of ['UTC', 'Asia/Tokyo', 'America/Los_Angeles'])
      inZone(zone, () => {
        const time = readTime(text, ZONE)
        expect(new Date(Number((time?.micros ?? 0n) / 1000n)).toISOString(), zone).toBe(expected)
      })
  })

  it.each(['', 'amanhã', '2027-02-29', '2027-03-10T24:00', '10/03/2027', '2027-03-10T09:00:00-16:00'])(
    '%j is no time',
    text => {
      expect(readTime(text, ZONE)).toBeNull()
      expect(parseLocalTime(text, ZONE)).toBeNull()
      expect(timeKey(text, ZONE)).toBe(text)
    },
  )

  it('keeps its digits beyond microseconds', () => {
    expect(readTime('1969-12-31T23:59:59.1234567890Z', ZONE)).toEqual({
      micros: -876_544n,
      beyond: '789',
      isDay: false,
    })
  })
})

describe('two texts', () => {
  it.each([
    ['2026-11-01T00:01:00Z', '2026-10-31T21:01', true],
    ['2026-11-01T00:01:00.0000001Z', '2026-11-01T00:01:00.00000010+00:00', true],
    ['2026-11-01T00:01:00.0000001Z', '2026-11-01T00:01:00.0000002Z', false],
    ['2026-11-01', '2026-11-01T00:00:00-03:00', false],
    ['2026-11-01', ' 2026-11-01\u200b', true],
    ['2026-11-01T00:01:00.123456Z', '2026-11-01T00:01:00.123Z', false],
  ])('%s and %s: the same time is %s', (one, other, expected) => {
    expect(isSameTime(one, other, ZONE)).toBe(expected)
  })

  it('of one point in time share a key, in TypeScript and in SQL, and the usual spelling', async () => {
    const db = await openScratch()
    const times = fc.sample(spelledTimes(), { numRuns: 250, seed: SEED })
    const texts = times.flatMap(spelled => spelled.texts)
    const rows = texts.map(text => `(${literal(normalizeDateTime(text))})`)
    const inSql = await db.rows<{ key: string }>(
      `SELECT ${timeKeySql('t.text', ZONE)} AS key FROM (VALUES ${rows.join(', ')}) t(text)`,
    )
    expect(texts.filter(text => !isDateTime(text))).toEqual([])
    expect(texts.filter((text, n) => inSql[n]?.key !== timeKey(text, ZONE))).toEqual([])
    const several = (all: readonly string[]) => new Set(all).size > 1
    const split = times.filter(({ texts: all }) => {
      const usual = Object.groupBy(all.map(unifySpelling), text => (text.endsWith('Z') ? 'utc' : 'local'))
      return several(all.map(text => timeKey(text, ZONE))) || Object.values(usual).some(several)
    })
    expect(split).toEqual([])
    const different = new Set(times.map(({ texts: [first = ''] }) => timeKey(first, ZONE)))
    // Some are drawn twice.
    expect(different.size).toBeGreaterThan(times.length / 2)
  })
})

describe('a local time', () => {
  it.each([
    // In summer time.
    ['2010-01-01T00:00:00-02:00', true],
    ['2009-12-31T23:59:59-02:00', false],
    ['2060-12-31T23:59:59-03:00', true],
    ['2061-01-01T00:00:00-03:00', false],
    ['0001-01-01T00:00:00Z', false],
    ['9999-12-31', false],
  ])('%s is plausible: %s', (text, expected) => {
    const { from, before } = findPlausibleInstants(ZONE)
    const { micros = 0n } = readTime(text, ZONE) ?? {}
    const at = new Date(Number(micros / 1000n))
    expect(parseLocalTime(text, ZONE) !== null).toBe(expected)
    expect(isPlausible(shiftToLocalTime(at, ZONE))).toBe(expected)
    expect(at >= new Date(from) && at < new Date(before)).toBe(expected)
  })
})
