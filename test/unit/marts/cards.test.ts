import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { validate } from 'dockerfile-utils'
import { expect, test } from 'vitest'
import { DASHBOARDS } from '#config/metabase/dashboards.ts'
import { readCard } from '#src/present/questions.ts'

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

const LISTS = CARDS.filter(({ settings }) => /"(Objeto|Edital|PNCP)"/.test(JSON.stringify(settings)))

test.for(LISTS)(
  '$key, a list of notices, names each, links to it and says if it was republished',
  async ({ key, settings }) => {
    const shown = (settings['table.columns'] as { name: string; enabled: boolean }[])
      .filter(({ enabled }) => enabled)
      .map(({ name }) => name)
    expect(shown).toContain('PNCP')
    const { sql } = await readCard(key)
    // A purchase is once in the list of the largest.
    const mark = sql.includes('contado_no_edital IS NULL')
      ? /AS "(Objeto)"/g
      : /contado_no_numero\) AS "(\w+)"/g
    const marked = [...sql.matchAll(mark)].map(([, name]) => name ?? '')
    expect(marked.some(name => shown.includes(name))).toBe(true)
  },
)

test('only bars with their number have no axis of values: the parts of a stacked row have none', () => {
  for (const { key, display, settings } of CARDS)
    if (display === 'row' && !settings.column_settings)
      expect('graph.y_axis.axis_enabled' in settings, key).toBe(!settings['stackable.stack_type'])
})
