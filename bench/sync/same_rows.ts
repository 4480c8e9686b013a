import { join } from 'node:path'
import { latestLink } from '#src/store/lake/manifest.ts'
import { Database } from '#src/store/warehouse/database.ts'
import { literal } from '#src/store/warehouse/quoted.ts'
import { type Place, pathsOf } from '../company/place.ts'

/** Sums that are the same only if the same values arrived. Doubles are summed as whole cents: their order differs. */
const SUMS = {
  editais: 'sum(length(objeto)), sum(round(valor_estimado * 100)::HUGEINT), max(updated_at)',
  analyses: 'sum(length(verdict_summary)), count(verdict_recommendation)',
  requirements: 'count(DISTINCT edital_id), sum(length(required)), sum(length("current")), sum(ordinal)',
  items: 'count(DISTINCT edital_id), sum(round(valor_total * 100)::HUGEINT), sum(length(descricao))',
  alerts: 'count(DISTINCT edital_id), sum(length(description)), sum(ordinal)',
} as const

/** @throws Error with both results unless the Parquet files of the sync and of the script hold the same rows. */
export async function expectSameRows(sync: Place, script: Pick<Place, 'directory'>): Promise<void> {
  const latest = latestLink(pathsOf(sync).lake)
  const db = await Database.open(':memory:', { threads: 1 })
  const ask = async (sums: string, files: string) =>
    JSON.stringify(
      await db.row(`SELECT count(*) AS rows, ${sums} FROM read_parquet(${literal(files)})`),
      (_, value) => (typeof value === 'bigint' ? String(value) : value),
    )
  try {
    for (const [table, sums] of Object.entries(SUMS)) {
      const ours = await ask(sums, join(latest, table, '*.parquet'))
      const theirs = await ask(sums, join(script.directory, `${table}.parquet`))
      if (ours !== theirs) throw new Error(`${table}: the sync made ${ours}, the script ${theirs}`)
    }
  } finally {
    db.close()
  }
}
