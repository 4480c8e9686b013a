import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { validate } from 'dockerfile-utils'
import { expect, onTestFinished, test } from 'vitest'
import { DASHBOARDS } from '#config/metabase/dashboards.ts'
import { filtersOf } from '#src/extras/metabase/dashboards.ts'
import { readCard } from '#src/present/questions.ts'
import { generateWorld } from '#src/sandbox/generate.ts'
import type { Entry } from '#src/sandbox/world.ts'
import { dayIn } from '#test/support/figures/calendar.ts'
import { openMarts } from '#test/support/marts.ts'

test('the image has the driver for the DuckDB version that writes the catalogs', async () => {
  const text = await readFile(join(import.meta.dirname, '../../../config/metabase/Dockerfile'), 'utf8')
  expect(validate(text)).toEqual([])
  const pinned = Object.fromEntries(
    [...text.matchAll(/^ARG (\w+)="?([^"\n]*)/gm)].map(([, name, value]) => [name, value]),
  )
  const { dependencies } = JSON.parse(
    await readFile(join(import.meta.dirname, '../../../package.json'), 'utf8'),
  )
  expect(dependencies['@duckdb/node-api']).toMatch(new RegExp(`^${pinned.DUCKDB_VERSION}-r`))
  expect(pinned.DRIVER_VERSION).toMatch(new RegExp(`^${pinned.DUCKDB_VERSION}\\.`))
  expect(pinned.METABASE_IMAGE).toMatch(/:v0\.63\./)
})

test('no card overlaps another, and each has its file', async () => {
  for (const { cards } of DASHBOARDS) {
    const cells = cards.flatMap(({ at }) =>
      Array.from({ length: at.width * at.height }, (_, cell) =>
        [at.row + Math.floor(cell / at.width), at.col + (cell % at.width)].join(),
      ),
    )
    expect(new Set(cells).size).toBe(cells.length)
    expect(cards.every(({ at }) => at.col + at.width <= 24)).toBe(true)
  }
  const files = await readdir(join(import.meta.dirname, '../../../config/metabase/cards'))
  expect(files.sort()).toEqual(DASHBOARDS.flatMap(({ cards }) => cards.map(({ key }) => `${key}.sql`)).sort())
})

const CARDS = DASHBOARDS.flatMap(({ cards }) => cards)

test.for(CARDS.filter(({ display }) => display !== 'scalar'))(
  '$key shows at most 200 rows, however many there are',
  async ({ key }) => {
    const [, limit] =
      /\nLIMIT (\d+)$|\n {2}LIMIT (\d+)\n\)$/.exec((await readCard(key)).sql)?.filter(Boolean) ?? []
    expect(Number(limit)).toBeGreaterThan(0)
    expect(Number(limit)).toBeLessThanOrEqual(200)
  },
)

test('a tile is one row', async () => {
  const world = generateWorld({ seed: 7, company: 'acme', notices: 30, start: new Date() })
  const marts = await openMarts(world.ids().map(id => world.entry(id) as Entry))
  for (const { key } of CARDS.filter(({ display }) => display === 'scalar'))
    expect((await marts.table(withoutValue((await readCard(key)).sql))).rows, key).toHaveLength(1)
})

/** Its day to contest is over if the session is tomorrow. */
const TOO_LATE = { type: 'risk', severity: 'high', title: 'Tarde', action_type: 'impugnacao' }

const sizeOf = (list: unknown) => (Array.isArray(list) ? list.length : 0)

test('each card returns rows, with the columns it shows', async () => {
  const world = generateWorld({ seed: 7, company: 'acme', notices: 120, start: new Date() })
  // Sessions of the next days, for the cards of what is due.
  for (const [index, id] of world.ids().entries())
    world.update(id, { edital: { data_sessao: `${dayIn((index % 45) - 5)}T09:00:00` } })
  const marts = await openMarts(world.ids().map(id => world.entry(id) as Entry))
  // A verdict, a value and requirements that change: cards show only those.
  const judged = world.ids().find(id => sizeOf(world.entry(id)?.analysis?.requirements) > 0) ?? ''
  world.update(judged, {
    updatedAt: new Date(),
    edital: { valor_estimado: 12_345, data_sessao: `${dayIn(1)}T09:00:00`, status: 'analysis' },
    analysis: { verdict: { recommendation: 'nova' }, requirements: [], alerts: [TOO_LATE] },
  })
  await marts.run(new Date(Date.now() + 1000), { shown: [world.entry(judged) as Entry] })
  // As the driver connects: with its details and the report time zone.
  await marts.db.run(`SET old_implicit_casting = true; SET TimeZone = 'America/Sao_Paulo'`)
  onTestFinished(() => marts.db.run(`RESET old_implicit_casting; SET TimeZone = 'UTC'`))
  for (const { cards, filters } of DASHBOARDS)
    for (const { key, settings } of cards) {
      const { sql } = await readCard(key)
      const { columns, rows } = await marts.table(withoutValue(sql))
      expect(rows.length, key).toBeGreaterThan(0)
      const named = namedIn(settings)
      expect(named.length, key).toBeGreaterThan(0)
      expect(
        named.filter(name => !columns.includes(name)),
        key,
      ).toEqual([])
      // A dashboard's filter applies to all of its cards, but not to how old the data are.
      if (key !== 'atualizacao') expect(filtersOf(sql, filters), key).toEqual(filters)
      for (const { key: filter } of filtersOf(sql, filters)) {
        const { rows: some } = await marts.table(withValue(sql, filter), { [filter]: 'SP' })
        expect(some.length, `${key} with ${filter}`).toBeLessThanOrEqual(rows.length)
      }
    }
})

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
