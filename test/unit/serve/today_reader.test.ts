import { expect, test } from 'vitest'
import { createLogger } from '#src/lib/log.ts'
import { TodayReader } from '#src/server/pages/today.ts'

test('what cannot be read is not read at each visit; once read, it is shown while a later reading fails', async () => {
  const [lines, fails, counts]: [string[], boolean[], number[]] = [[], [true, false, true, false], []]
  const log = createLogger('info', {}, { write: line => void lines.push(line) })
  const getSnapshot = () => ({ name: 'a', timeZone: 'America/Sao_Paulo' }) as never
  const read = async () => {
    if (fails[counts.push(counts.length) - 1]) throw new Error('no memory')
    const found = { columns: ['n'], rows: [[counts.length]], isCut: false }
    return { company: '', snapshot: '', publishedAt: '', results: [found] }
  }
  const reader = new TodayReader({ companies: ['a'], findLake: String, getSnapshot }, log, { read })
  const at = async (time: string) =>
    (await reader.read('a', new Date(`2026-11-27T${time}Z`))).decisions.today.rows[0]?.n
  for (const time of ['12:10:00', '12:10:30']) await expect(at(time)).rejects.toMatchObject({ status: 503 })
  expect([counts.length, lines.join('')]).toEqual([1, expect.stringContaining('no memory')])
  const shown: unknown[] = []
  for (const time of ['12:12', '12:59', '13:01', '13:02', '14:01', '14:02'])
    shown.push(await at(`${time}:00`))
  // The hour is over at 13:00, which fails, and at 14:00, for which nobody waits.
  expect([shown, counts.length]).toEqual([[2, 2, 2, 2, 2, 4], 4])
})
