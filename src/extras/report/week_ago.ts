import {
  alerts,
  alertVersions,
  editais,
  editalVersions,
  listPublishedColumns,
  requirements,
  requirementVersions,
  type Table,
} from '#schema/tables.ts'
import { type CatalogSource, createRelations, createTableRelations } from '#src/core/lake/catalog.ts'
import { Database } from '#src/core/warehouse/database.ts'
import { identifier, literal } from '#src/core/warehouse/quoted.ts'
import { closing } from '#src/lib/closing.ts'
import { countDaysFrom, loadMarts } from '#src/marts/open.ts'
import { isStale, LISTINGS } from '#src/present/readings.ts'
import type { WeekAgo } from './figures.ts'
import { readTiles } from './queries.ts'

const WEEK_MS = 7 * 24 * 3_600_000

/** Of these lists in analyses, the history is published. */
const KEPT = [
  [requirements, requirementVersions],
  [alerts, alertVersions],
] as const

/**
 * Reads what tiles showed a week earlier: the same marts, over notices, requirements and alerts as they were known then. Deadlines
 * that a notice states have no history: they are those of its latest analysis.
 * @returns null if the list had not been read in the 24 hours before that.
 */
export async function readWeekAgo(sources: readonly CatalogSource[], now: Date): Promise<WeekAgo | null> {
  const then = new Date(now.getTime() - WEEK_MS)
  using db = closing(await Database.open(':memory:'))
  await db.run(`ATTACH ':memory:' AS latest`)
  await db.run('USE latest')
  await createTableRelations(db, sources)
  const { read } = await db.row<{ read: Date | null }>(
    `SELECT max(finished_at) AS read ${LISTINGS} AND finished_at <= ${instant(then)}`,
  )
  if (read === null || isStale(read, then)) return null
  await db.run('USE memory')
  const marts = await loadMarts()
  await db.transaction(() =>
    createRelations(db, sources, marts, {
      rowsSource: ({ name }) => {
        if (name === editais.name) return noticesAt(then)
        const kept = KEPT.find(([table]) => table.name === name)
        return kept ? elementsAt(then, ...kept) : `latest.${identifier(name)}`
      },
    }),
  )
  await countDaysFrom(db, then)
  return await readTiles(db)
}

/** Returns SQL for the rows of `editais` as they were known at a moment; what has no history is NULL. */
function noticesAt(moment: Date): string {
  // A notice was gone if it returned later, or has not returned.
  return `(SELECT ${columnsAt(editais, editalVersions)}
    FROM (
      SELECT *, lead(gone_since) OVER (PARTITION BY company, edital_id ORDER BY observed_at, updated_at) AS next_gone,
        lead(observed_at) OVER (PARTITION BY company, edital_id ORDER BY observed_at, updated_at) AS next_at
      FROM latest.edital_versions
    ) v
    JOIN (SELECT company, edital_id, deleted_at FROM latest.editais) USING (company, edital_id)
    WHERE v.observed_at <= ${instant(moment)} AND (v.next_at IS NULL OR v.next_at > ${instant(moment)})
      AND coalesce(v.next_gone, if(v.next_at IS NULL, deleted_at, NULL), 'infinity') > ${instant(moment)})`
}

/** Returns SQL for the rows of a table of requirements or alerts, of the analyses that were known at a moment. */
function elementsAt(moment: Date, table: Table, history: Table): string {
  return `(SELECT ${columnsAt(table, history)}
    FROM latest.${identifier(history.name)} v
    JOIN (
      SELECT company, edital_id, observed_at, run_id FROM latest.analysis_versions WHERE observed_at <= ${instant(moment)}
      QUALIFY row_number() OVER (PARTITION BY company, edital_id ORDER BY observed_at DESC, run_id DESC) = 1
    ) USING (company, edital_id, observed_at, run_id))`
}

/** Returns a table's columns, in their order: those of its history `v`, and NULL for what that does not keep. */
function columnsAt(table: Table, history: Table): string {
  const kept = new Set(listPublishedColumns(history).map(({ name }) => name))
  return listPublishedColumns(table)
    .map(({ name, type }) =>
      kept.has(name) ? `v.${identifier(name)}` : `NULL::${type} AS ${identifier(name)}`,
    )
    .join(', ')
}

function instant(moment: Date): string {
  return `TIMESTAMPTZ ${literal(moment.toISOString())}`
}
