import { realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Database } from '#src/core/warehouse/database.ts'

/**
 * A process that keeps reading snapshots, as BI does, until its parent ends or stops it. Each message to the parent is
 * the result of one query: the version in every row, or the inconsistency.
 * Usage: node reader.ts <lake> <patient|reopening|path>
 */
export type Read = { readonly version: number } | { readonly wrong: string }

const BETWEEN_MS = 250
const [lake = '', how = ''] = process.argv.slice(2)

/** In a consistent state all tables have the same number: 6 notices, 18 items and 6 alerts. */
const TORN = `SELECT any_value(valor_estimado)::INT AS version, count(DISTINCT valor_estimado) AS versions,
  count(*) AS joined, sum(quantidade) AS items, list(DISTINCT title) AS alerts
  FROM editais JOIN items USING (company, edital_id) JOIN alerts USING (company, edital_id)`

async function read(db: Database): Promise<Read> {
  const row = await db.row<{ version: number }>(TORN)
  const { version } = row
  const whole = { version, versions: 1, joined: 18, items: 18 * version, alerts: [String(version)] }
  return JSON.stringify(row) === JSON.stringify(whole) ? { version } : { wrong: JSON.stringify(row) }
}

async function open(): Promise<Database> {
  return await Database.open(join(await realpath(join(lake, 'latest')), 'catalog.duckdb'), {
    readOnly: true,
    threads: 1,
  })
}

async function once(kept: Database | null): Promise<Read> {
  const db = kept ?? (await open())
  try {
    return await read(db)
  } catch (error) {
    return { wrong: String(error) }
  } finally {
    if (!kept) db.close()
  }
}

process.on('disconnect', () => process.exit())
const kept = how === 'patient' ? await open() : null
for (;;) {
  process.send?.(await once(kept))
  await sleep(BETWEEN_MS)
}
