import { expect, test } from 'vitest'
import { readSchedule } from '#config/daemon.ts'
import { readSettings } from '#config/settings.ts'
import { nextAfter } from '#jobs/queues/cron.ts'
import { Database } from '#src/core/warehouse/database.ts'

const NAMES = [
  ...['UTC', 'Etc/UTC', 'Etc/GMT+3', 'Brazil/East', 'America/Sao_Paulo', 'America/Argentina/Buenos_Aires'],
  ...['Asia/Calcutta', 'Asia/Kolkata', 'Europe/Kiev', 'Europe/Kyiv', 'US/Eastern', 'Portugal'],
]

test('a time zone is accepted under any of its names, in every setting', async () => {
  const db = await Database.open(':memory:', { threads: 1 })
  try {
    for (const name of NAMES) {
      expect(readSettings({ SOURCE_TIMEZONE: name }).sourceTimezone).toBe(name)
      const { syncCron, timezone } = readSchedule({ SOURCE_TIMEZONE: name, SYNC_CRON: '0 8 * * *' })
      // The schedule and the local times agree on the zone.
      const [row] = await db.rows<{ at: Date }>(
        `SELECT TIMESTAMP '2026-11-22 08:00:00' AT TIME ZONE $name AS at`,
        { name },
      )
      const at = nextAfter(Date.parse('2026-11-21T20:00:00Z'), syncCron, timezone)
      expect(new Date(at).toISOString(), name).toBe(new Date(Number(row?.at)).toISOString())
    }
  } finally {
    db.close()
  }
})

test.each(['Brasilia', '+03:00', 'GMT+3', '', 'America/Sao Paulo'])('%j is not a time zone', name => {
  if (name === '') expect(readSchedule({ SOURCE_TIMEZONE: name }).timezone).toBe('America/Sao_Paulo')
  else {
    expect(() => readSchedule({ SOURCE_TIMEZONE: name })).toThrow(/is not a time zone such as/)
    expect(() => readSettings({ SOURCE_TIMEZONE: name })).toThrow(/is not a time zone such as/)
  }
})

test.each(['0 0 31 2 *', '0 0 30 2 *', '0 0 31 4,6 *', '0 0 31 9,11 *'])(
  '%s is reported as never firing',
  cron => {
    expect(() => readSchedule({ SYNC_CRON: cron })).toThrow(`SYNC_CRON=${cron}: never fires`)
  },
)

test.each(['often', '* * * *', '61 * * * *', 'H * * * *'])('%s is not a cron expression', cron => {
  expect(() => readSchedule({ SYNC_CRON: cron })).toThrow(`SYNC_CRON=${cron}: must be a cron expression`)
})

test.each(['0 0 29 2 *', '0 0 31 * *', '@daily', '*/2 * * * * *'])('%s is a cron expression', cron => {
  expect(readSchedule({ SYNC_CRON: cron }).syncCron).toBe(cron)
})
