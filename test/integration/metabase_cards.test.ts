import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { validate } from 'dockerfile-utils'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { DASHBOARDS } from '#config/metabase/dashboards.ts'
import { filtersOf, readCard } from '#src/present/metabase/cards.ts'
import { Database } from '#src/store/warehouse/database.ts'
import { CARDS, type Published, publishCompany } from '#test/support/metabase/session.ts'

let company: Published
/** Opened as the driver connects: with its details and the report time zone. */
let catalog: Database

beforeAll(async () => {
  company = await publishCompany()
  catalog = await Database.open(company.catalogPath, { readOnly: true, threads: 1 })
  await catalog.run(`SET old_implicit_casting = true; SET TimeZone = 'America/Sao_Paulo'`)
})

afterAll(async () => {
  catalog.close()
  await company.remove()
})

test('the image has the driver for the DuckDB version that writes the catalogs', async () => {
  const text = await readFile(join(import.meta.dirname, '../../config/metabase/Dockerfile'), 'utf8')
  expect(validate(text)).toEqual([])
  const pinned = Object.fromEntries(
    [...text.matchAll(/^ARG (\w+)="?([^"\n]*)/gm)].map(([, name, value]) => [name, value]),
  )
  const { dependencies } = JSON.parse(await readFile(join(import.meta.dirname, '../../package.json'), 'utf8'))
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
  const files = await readdir(join(import.meta.dirname, '../../config/metabase/cards'))
  expect(files.sort()).toEqual(CARDS.map(({ key }) => `${key}.sql`).sort())
})

test.each(CARDS)('the card $key returns rows on a real snapshot, with the columns it shows', async card => {
  const { sql } = await readCard(card.key)
  const { columns, rows } = await catalog.table(withoutValue(sql))
  expect(rows.length).toBeGreaterThan(0)
  expect(namedIn(card.settings).filter(name => !columns.includes(name))).toEqual([])
  // A dashboard's filter applies to all of its cards.
  expect(filtersOf(sql, card.filters)).toEqual(card.filters)
  for (const { key } of card.filters) {
    const { rows: some } = await catalog.table(withValue(sql, key), { [key]: 'SP' })
    expect(some.length).toBeLessThanOrEqual(rows.length)
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
    ...Object.keys((settings.column_settings ?? {}) as object).map(name => JSON.parse(name)[1] as string),
    ...((settings['table.column_formatting'] ?? []) as { columns: string[] }[]).flatMap(
      ({ columns }) => columns,
    ),
    ...Object.keys((settings.series_settings ?? {}) as object),
  ]
  return texts.filter(name => name !== undefined)
}
