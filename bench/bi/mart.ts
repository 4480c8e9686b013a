import { DuckDBInstance } from '@duckdb/node-api'
import { identifier } from '#src/store/warehouse/database.ts'
import { median } from '../figures.ts'

/*
 * Asks a catalog for all of one mart, as a reader with DuckDB's own settings does: once when nothing of it was
 * read in this process, then again and again. Prints one JSON object (MartTimes).
 */

export type MartTimes = {
  readonly rows: number
  /** Opening the catalog and connecting; no part of the others. */
  readonly openMs: number
  readonly firstMs: number
  /** Median of the answers after the first. */
  readonly warmMs: number
  readonly peakRssBytes: number
}

const WARM_ANSWERS = 5

const [catalog = '', mart = ''] = process.argv.slice(2)

const startedMs = performance.now()
const instance = await DuckDBInstance.create(catalog, {
  access_mode: 'READ_ONLY',
  // What is missing is to be an error, and not to be fetched while time is taken.
  autoinstall_known_extensions: 'false',
})
const connection = await instance.connect()
const openMs = performance.now() - startedMs

/** The hash of a row needs all of its columns, and DuckDB keeps none of them: only its work is measured. */
const everything = `SELECT count(*), max(hash(m)) FROM ${identifier(mart)} m`

async function ask(): Promise<{ ms: number; rows: number }> {
  const fromMs = performance.now()
  const [row] = (await connection.runAndReadAll(everything)).getRows()
  return { ms: performance.now() - fromMs, rows: Number(row?.[0]) }
}

const first = await ask()
const warm: number[] = []
for (let answer = 0; answer < WARM_ANSWERS; answer += 1) warm.push((await ask()).ms)
const times: MartTimes = {
  ...{ rows: first.rows, openMs, firstMs: first.ms, warmMs: median(warm) },
  peakRssBytes: process.resourceUsage().maxRSS * 1024,
}
connection.closeSync()
instance.closeSync()
process.stdout.write(JSON.stringify(times))
