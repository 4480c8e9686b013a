import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { DASHBOARDS } from '#config/metabase/dashboards.ts'
import { readCard } from '#src/present/questions.ts'
import { generateWorld } from '#src/sandbox/generate.ts'
import { readNoticesFile } from '#src/sandbox/notices_file.ts'
import type { Entry } from '#src/sandbox/world.ts'
import { misfitsOf } from '#test/support/card_fit.ts'
import { dayIn } from '#test/support/figures/calendar.ts'
import { openMarts } from '#test/support/marts.ts'

/** Real tenders; the project does not ship them. Without them, notices are generated, whose texts are as long. */
const NOTICES_FILE = join(import.meta.dirname, '../../../../shared/pncp/world.ndjson.gz')
const NOTICES = 400

async function entries(): Promise<Entry[]> {
  const world = generateWorld({ seed: 7, company: 'acme', notices: NOTICES, start: new Date() })
  const all = existsSync(NOTICES_FILE)
    ? await readNoticesFile(NOTICES_FILE)
    : world.ids().map(id => world.entry(id) as Entry)
  const some = all.filter((_, index) => index % Math.ceil(all.length / NOTICES) === 0)
  // Sessions in each of the next weeks, and some that are over.
  return some.map(({ edital, analysis }, index) => ({
    edital: { ...edital, data_sessao: `${dayIn((index % 45) - 5)}T09:30:00` },
    analysis,
  }))
}

test('every table and chart fits its card: nothing is cut, and what matters is seen without scrolling', async () => {
  const marts = await openMarts(await entries())
  for (const { cards } of DASHBOARDS)
    for (const card of cards) {
      const { sql, name } = await readCard(card.key)
      const result = await marts.table(sql.replaceAll(/\[\[.*?\]\]/gs, ''))
      expect.soft(misfitsOf(card, name, result), card.key).toEqual([])
    }
})
