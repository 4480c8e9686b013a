import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { Database } from '#src/core/warehouse/database.ts'
import { CALENDAR_YEARS } from '#src/marts/basics.ts'
import { checkCalendar } from '#src/operate/doctor/doctor.ts'

const MARTS = join(import.meta.dirname, '../../src/marts')
const martSql = (name: string) => readFileSync(join(MARTS, `${name}.sql`), 'utf8')

it('warns a year before the calendar ends', () => {
  const { last } = CALENDAR_YEARS
  expect(checkCalendar(new Date(`${last - 1}-12-31T12:00:00Z`))).toMatchObject({ status: 'ok' })
  expect(checkCalendar(new Date(`${last}-01-01T12:00:00Z`))).toMatchObject({
    status: 'warning',
    what: expect.stringContaining(`holidays up to ${last}`),
  })
})

it('marks days of other years than those of the calendar', () => {
  const { first, last } = CALENDAR_YEARS
  expect(martSql('prazos_calculados')).toContain(`NOT BETWEEN ${first} AND ${last}`)
})

it('has the holidays of a state, moved where its law moves them, with a source for each', async () => {
  const db = await Database.open(':memory:', { threads: 1 })
  await db.run(`CREATE VIEW feriados AS ${martSql('feriados')}`)
  const days = async (where: string) =>
    (
      await db.rows<{ day: string }>(
        `SELECT dia::VARCHAR || ' ' || tipo AS day FROM feriados WHERE ${where} ORDER BY ALL`,
      )
    ).map(({ day }) => day)
  // In 2026, the 23rd of January is a Friday, the 8th of March a Sunday, the 17th of November a Tuesday.
  expect(await days(`uf = 'AC' AND year(dia) = 2026`)).toEqual([
    '2026-01-23 estadual',
    '2026-03-08 estadual',
    '2026-06-15 estadual',
    '2026-09-05 estadual',
    '2026-11-17 facultativo',
    '2026-11-20 estadual',
  ])
  expect(await days(`uf = 'RJ' AND year(dia) = 2027`)).toEqual(['2027-02-09 estadual', '2027-04-23 estadual'])
  expect(await days(`uf IS NULL AND tipo = 'facultativo' AND year(dia) = 2026`)).toEqual(
    ['02-16', '02-17', '02-18', '06-04', '10-28', '12-24', '12-31'].map(day => `2026-${day} facultativo`),
  )
  expect(await days(`coalesce(fonte, '') = ''`)).toEqual([])
  db.close()
})
