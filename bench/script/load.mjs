import { mkdirSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import { copy, FROM_ANALYSES, selectNotices, stageAnalyses, TABLES } from './tables.mjs'

/*
 * The floor of loading: plain DuckDB with its default settings makes the script's tables and Parquet files from the
 * NDJSON that the script left in a directory, the only argument. Prints the wall seconds of each step as JSON.
 */

const source = resolve(process.argv[2])
const directory = join(process.cwd(), 'plain')
mkdirSync(directory)
const instance = await DuckDBInstance.create(join(directory, 'plain.duckdb'))
const connection = await instance.connect()
const seconds = { read: 0, insert: 0, checkpoint: 0, parquet: 0 }

async function timed(step, sql) {
  const startedMs = performance.now()
  await connection.run(sql)
  seconds[step] += (performance.now() - startedMs) / 1000
}

await timed('read', stageAnalyses([join(source, 'analyses.ndjson')]))
await timed('insert', `CREATE TABLE editais AS ${selectNotices(join(source, 'pages.ndjson'))}`)
for (const [table, select] of Object.entries(FROM_ANALYSES)) {
  await timed('insert', `CREATE TABLE ${table} AS ${select}`)
}
await timed('checkpoint', 'CHECKPOINT')
for (const table of TABLES) await timed('parquet', copy(table, directory))
connection.closeSync()
instance.closeSync()
rmSync(directory, { recursive: true })
process.stdout.write(JSON.stringify(seconds))
