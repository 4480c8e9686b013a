import { DuckDBInstance } from '@duckdb/node-api'
import { identifier } from '#src/core/warehouse/quoted.ts'
import { median } from '../frame/figures.ts'

/*
 * Reads all of one mart from a catalog, as a reader with DuckDB's default settings does: a first time in a fresh
 * process, then several times more. Its argument is an order in JSON; prints one JSON object (MartTimes).
 */

export type MartOrder = { readonly catalog: string; readonly mart: string }

export type MartTimes = {
  readonly rows: number
  /** Opening the catalog and connecting; not included in the other times. */
  readonly openMs: number
  readonly firstMs: number
  /** Median of the reads after the first. */
  readonly warmMs: number
  readonly peakRssBytes: number
}

const WARM_ANSWERS = 5

const { catalog, mart } = JSON.parse(process.argv[2] as string) as MartOrder

const startedMs = performance.now()
const instance = await DuckDBInstance.create(catalog, {
  access_mode: 'READ_ONLY',
  // A missing extension must be an error: a download would be measured as well.
  autoinstall_known_extensions: 'false',
})
const connection = await instance.connect()
const openMs = performance.now() - startedMs

/** Hashing a row needs all of its columns, and none is kept: this measures only DuckDB's work. */
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
  rows: first.rows,
  openMs,
  firstMs: first.ms,
  warmMs: median(warm),
  peakRssBytes: process.resourceUsage().maxRSS * 1024,
}
connection.closeSync()
instance.closeSync()
process.stdout.write(JSON.stringify(times))
