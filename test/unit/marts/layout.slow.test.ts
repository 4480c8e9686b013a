import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { DASHBOARDS } from '#config/metabase/dashboards.ts'
import { listFilters } from '#src/extras/metabase/dashboards.ts'
import { countDaysFrom } from '#src/marts/open.ts'
import { readCard } from '#src/present/questions.ts'
import { generateWorld } from '#src/sandbox/generate.ts'
import { type Entry, readNoticesFile } from '#src/sandbox/world.ts'
import { misfitsOf } from '#test/support/card_fit.ts'
import { openMarts } from '#test/support/marts.ts'

/** Real tenders; the project does not ship them. */
const NOTICES_FILE = join(import.meta.dirname, '../../../../shared/pncp/world.ndjson.gz')
const NOTICES = 200
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

/** Sessions in each of the next weeks, and some that are over, of which some were discarded although recommended. */
function dated({ edital, analysis }: Entry, index: number, from = NOW): Entry {
  const day = new Date(from.getTime() + ((index % 45) - 5) * DAY_MS).toISOString().slice(0, 10)
  const alerts = [...((analysis?.alerts ?? []) as object[]), ALERT]
  const against = index % 45 === 0
  const verdict = { recommendation: 'participar', reason: 'Objeto da empresa.' }
  return {
    edital: { ...edital, data_sessao: `${day}T09:30:00`, ...(against && { status: 'discarded' }) },
    analysis: analysis && { ...analysis, alerts, ...(against && { verdict }) },
  }
}

/** The next day: everything that can change has. */
function changed(entry: Entry, index: number): Entry {
  const { edital, analysis } = dated(entry, index, new Date(NOW.getTime() + (index % 2 ? DAY_MS : -DAY_MS)))
  const news = { valor_estimado: 1_250_000.5 + index, updated_at: NOW.toISOString() }
  const verdict = { recommendation: index % 2 ? 'nao_recomendado' : 'cautela', reason: 'Razão. '.repeat(40) }
  const alerts = ((analysis?.alerts ?? []) as object[]).map(alert => ({ ...alert, severity: 'critical' }))
  return { edital: { ...edital, ...news }, analysis: analysis && { ...analysis, verdict, alerts } }
}

test.for([
  ['generated', generated],
  ['real', () => readNoticesFile(NOTICES_FILE)],
] as const)(
  'with %s notices, each card has rows and the columns that it shows, is filtered, and fits: what matters is seen without scrolling',
  async ([kind, read], { skip }) => {
    skip(
      kind === 'real' && !existsSync(NOTICES_FILE),
      `The file of real notices is not here: ${NOTICES_FILE}.`,
    )
    const all = await read()
    const some = all.filter((_, index) => index % Math.ceil(all.length / NOTICES) === 0)
    const marts = await openMarts()
    await marts.run(new Date(NOW.getTime() - DAY_MS), {
      shown: some.map((entry, index) => dated(entry, index)),
    })
    await marts.run(NOW, { shown: some.slice(0, 40).map(changed) })
    await countDaysFrom(marts.db, NOW)
    // The database is the worker's.
    // As the driver connects: with its details and the report time zone.
    await marts.db.run(`SET old_implicit_casting = true; SET TimeZone = 'America/Sao_Paulo'`)
    onTestFinished(() =>
      marts.db.run(`RESET VARIABLE editais_agora; RESET old_implicit_casting; SET TimeZone = 'UTC'`),
    )
    for (const { cards, filters } of DASHBOARDS)
      for (const card of cards) {
        const { key, display, settings } = card
        const { sql, name } = await readCard(key)
        const result = await marts.table(withoutValue(sql))
        const { columns, rows } = result
        expect.soft(rows.length, key).toBeGreaterThan(0)
        if (display === 'scalar') expect.soft(rows, key).toHaveLength(1)
        expect.soft(misfitsOf(card, name, result), key).toEqual([])
        const named = namedIn(settings)
        expect.soft(named.length, key).toBeGreaterThan(0)
        expect
          .soft(
            named.filter(one => !columns.includes(one)),
            key,
          )
          .toEqual([])
        // A dashboard's filter applies to all of its cards, but not to how old the data are.
        if (key !== 'atualizacao') expect.soft(listFilters(sql, filters), key).toEqual(filters)
        for (const { key: filter } of listFilters(sql, filters)) {
          const { rows: some } = await marts.table(withValue(sql, filter), { [filter]: 'SP' })
          expect.soft(some.length, `${key} with ${filter}`).toBeLessThanOrEqual(rows.length)
        }
      }
  },
)

/** The query as Metabase runs it with an empty filter. */
function withoutValue(sql: string): string {
  return sql.replaceAll(/\[\[.*?\]\]/gs, '')
}

/** The query as Metabase runs it with a value: as a parameter of the statement. */
function withValue(sql: string, key: string): string {
  return sql.replaceAll(/\[\[(.*?)\]\]/gs, '$1').replaceAll(`{{${key}}}`, `$${key}`)
}

/** The columns that the visualization settings name. */
function namedIn(settings: Readonly<Record<string, unknown>>): string[] {
  const texts = [
    ...['graph.dimensions', 'graph.metrics'].flatMap(name => (settings[name] ?? []) as string[]),
    ...['scalar.field', 'funnel.dimension', 'funnel.metric'].map(
      name => settings[name] as string | undefined,
    ),
    ...((settings['table.columns'] ?? []) as { name: string }[]).map(({ name }) => name),
    ...Object.keys((settings.column_settings ?? {}) as object).map(name => JSON.parse(name)[1] as string),
    ...((settings['table.column_formatting'] ?? []) as { columns: string[] }[]).flatMap(
      ({ columns }) => columns,
    ),
    // A second dimension makes a series of each of its values.
    ...((settings['graph.dimensions'] as string[] | undefined)?.length === 2
      ? []
      : Object.keys((settings.series_settings ?? {}) as object)),
  ]
  return texts.filter(name => name !== undefined)
}
