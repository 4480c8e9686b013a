import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { DASHBOARDS } from '#config/metabase/dashboards.ts'
import { countDaysFrom } from '#src/marts/open.ts'
import { readCard } from '#src/present/questions.ts'
import { generateWorld } from '#src/sandbox/generate.ts'
import { type Entry, readNoticesFile } from '#src/sandbox/world.ts'
import { misfitsOf } from '#test/support/card_fit.ts'
import { openMarts } from '#test/support/marts.ts'

/** Real tenders; the project does not ship them. */
const NOTICES_FILE = join(import.meta.dirname, '../../../../shared/pncp/world.ndjson.gz')
const NOTICES = 400
/** A week with a holiday of the longest name. */
const NOW = new Date('2026-11-17T12:00:00Z')
const DAY_MS = 86_400_000
/** For each notice: some of its days to contest are over, some are near. */
const ALERT = {
  type: 'risk',
  severity: 'high',
  title: 'Marca indicada sem justificativa',
  action_type: 'impugnacao',
}

function generated(): Entry[] {
  const world = generateWorld({ seed: 7, company: 'acme', notices: NOTICES, start: NOW })
  return world.ids().map(id => world.entry(id) as Entry)
}

/** Sessions in each of the next weeks, and some that are over. */
function dated({ edital, analysis }: Entry, index: number, from = NOW): Entry {
  const day = new Date(from.getTime() + ((index % 45) - 5) * DAY_MS).toISOString().slice(0, 10)
  const alerts = [...((analysis?.alerts ?? []) as object[]), ALERT]
  return {
    edital: { ...edital, data_sessao: `${day}T09:30:00` },
    analysis: analysis && { ...analysis, alerts },
  }
}

/** The next day: everything that can change has. */
function changed(entry: Entry, index: number): Entry {
  const { edital, analysis } = dated(entry, index, new Date(NOW.getTime() + DAY_MS))
  const news = { valor_estimado: 1_250_000.5 + index, updated_at: NOW.toISOString() }
  const verdict = { recommendation: index % 2 ? 'nao_recomendado' : 'cautela', reason: 'Razão. '.repeat(40) }
  const alerts = ((analysis?.alerts ?? []) as object[]).map(alert => ({ ...alert, severity: 'critical' }))
  return { edital: { ...edital, ...news }, analysis: analysis && { ...analysis, verdict, alerts } }
}

test.for([
  ['generated', generated],
  ['real', () => readNoticesFile(NOTICES_FILE)],
] as const)(
  'every table and chart fits its card with %s notices: nothing is cut, and what matters is seen without scrolling',
  async ([kind, read], { skip }) => {
    skip(
      kind === 'real' && !existsSync(NOTICES_FILE),
      `The file of real notices is not here: ${NOTICES_FILE}.`,
    )
    const all = await read()
    const some = all.filter((_, index) => index % Math.ceil(all.length / NOTICES) === 0)
    const marts = await openMarts()
    await marts.run(new Date(NOW.getTime() - DAY_MS), {
      shown: some.map(entry => dated(entry, all.indexOf(entry))),
    })
    await marts.run(NOW, { shown: some.slice(0, 40).map(changed) })
    await countDaysFrom(marts.db, NOW)
    // The database is the worker's.
    onTestFinished(() => marts.db.run('RESET VARIABLE editais_agora'))
    for (const { cards } of DASHBOARDS)
      for (const card of cards) {
        const { sql, name } = await readCard(card.key)
        const result = await marts.table(sql.replaceAll(/\[\[.*?\]\]/gs, ''))
        expect.soft(result.rows.length, card.key).toBeGreaterThan(0)
        expect.soft(misfitsOf(card, name, result), card.key).toEqual([])
      }
  },
)
