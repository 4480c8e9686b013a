/*
 * What a capable engineer writes in an afternoon instead of this project: the same API into the same tables, as
 * fast as that allows, without validation, history, log, quarantine or atomic publishing. `npm run bench` measures
 * both. Reads API_BASE_URL, API_KEY and CONCURRENCY; writes to the present directory. A second run fetches only the
 * analyses of notices whose `updated_at` differs; if no page differs, it does not even load DuckDB.
 */
import { closeSync, existsSync, openSync, readFileSync, rmSync, writeFileSync, writevSync } from 'node:fs'
import { Pool } from 'undici'

const { API_BASE_URL, API_KEY, CONCURRENCY } = process.env
const PATH = '/api/v1/editais'
const LIMIT = 200
const TRIES = 5
const RETRY_MS = 500
/** Bodies are written together once they have this size. */
const BLOCK_BYTES = 4 * 1024 * 1024
const PAGES = 'pages.ndjson'
const LINE_FEED = Buffer.from('\n')

const pool = new Pool(API_BASE_URL, { connections: Number(CONCURRENCY) })
const headers = { authorization: `Bearer ${API_KEY}` }

/** The body of a GET, as it arrived. Without a stream it takes half the CPU. */
function request(path) {
  return new Promise((resolve, reject) => {
    const chunks = []
    pool.dispatch(
      { method: 'GET', path, headers },
      {
        onRequestStart() {},
        onResponseStart(controller, status) {
          if (status !== 200) controller.abort(new Error(`${path}: ${status}`))
        },
        onResponseData(_, chunk) {
          chunks.push(chunk)
        },
        onResponseEnd: () => resolve(chunks),
        onResponseError: (_, error) => reject(error),
      },
    )
  })
}

async function get(path) {
  for (let left = TRIES - 1; ; left -= 1) {
    try {
      return await request(path)
    } catch (error) {
      if (left === 0) throw error
      await new Promise(resolve => setTimeout(resolve, RETRY_MS))
    }
  }
}

/** The whole list, one page a line. */
async function fetchPages() {
  const page = async offset => Buffer.concat(await get(`${PATH}?limit=${LIMIT}&offset=${offset}`))
  const first = await page(0)
  const offsets = []
  for (let offset = LIMIT; offset < JSON.parse(first).total; offset += LIMIT) offsets.push(offset)
  const others = await Promise.all(offsets.map(page))
  return Buffer.concat([first, ...others].flatMap(body => [body, LINE_FEED]))
}

async function fetchAnalyses(ids, file) {
  const out = openSync(file, 'w')
  const left = ids.values()
  let block = []
  let bytes = 0
  function flush() {
    if (block.length > 0) writevSync(out, block)
    block = []
    bytes = 0
  }
  async function work() {
    for (const id of left) {
      const chunks = await get(`${PATH}/${id}/analysis`)
      block.push(...chunks, LINE_FEED)
      for (const { length } of chunks) bytes += length
      if (bytes >= BLOCK_BYTES) flush()
    }
  }
  await Promise.all(Array.from({ length: Number(CONCURRENCY) }, work))
  flush()
  closeSync(out)
}

/** `updated_at` by id. */
const versions = pages =>
  new Map(
    String(pages)
      .trimEnd()
      .split('\n')
      .flatMap(page => JSON.parse(page).editais.map(({ id, updated_at }) => [id, updated_at])),
  )

async function load(changed, gone, file) {
  const [{ DuckDBInstance }, { copy, FROM_ANALYSES, selectNotices, stageAnalyses, TABLES }] =
    await Promise.all([import('@duckdb/node-api'), import('./tables.mjs')])
  const instance = await DuckDBInstance.create('warehouse.duckdb', { preserve_insertion_order: 'false' })
  const connection = await instance.connect()
  await connection.run(stageAnalyses(file))
  await connection.run('BEGIN')
  await connection.run(`CREATE OR REPLACE TABLE editais AS ${selectNotices('next.ndjson')}`)
  const replaced = [...changed, ...gone].map(id => `'${id}'`).join()
  await connection.run(`CREATE TEMP TABLE replaced AS SELECT unnest([${replaced}]::VARCHAR[]) AS id`)
  for (const [table, select] of Object.entries(FROM_ANALYSES)) {
    await connection.run(`CREATE TABLE IF NOT EXISTS ${table} AS ${select} LIMIT 0`)
    await connection.run(`DELETE FROM ${table} WHERE edital_id IN (SELECT id FROM replaced)`)
    await connection.run(`INSERT INTO ${table} ${select}`)
  }
  await connection.run('COMMIT')
  await connection.run('CHECKPOINT')
  for (const table of TABLES) await connection.run(copy(table))
  connection.closeSync()
}

const before = existsSync(PAGES) ? readFileSync(PAGES) : null
const pages = await fetchPages()
if (!before?.equals(pages)) {
  const known = before ? versions(before) : new Map()
  const listed = versions(pages)
  const changed = [...listed.keys()].filter(id => known.get(id) !== listed.get(id))
  const gone = [...known.keys()].filter(id => !listed.has(id))
  writeFileSync('next.ndjson', pages)
  await fetchAnalyses(changed, 'analyses.ndjson')
  await load(changed, gone, 'analyses.ndjson')
  writeFileSync(PAGES, pages)
  rmSync('next.ndjson')
}
await pool.close()
