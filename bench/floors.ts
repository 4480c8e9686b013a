import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import zlib from 'node:zlib'
import { type Costed, runCosted } from './cost.ts'
import { cpuSeconds } from './daemon/proc.ts'
import type { FetchFloor } from './floor_fetch.ts'
import { run } from './processes.ts'
import { type Spent, startWatch } from './stopwatch.ts'
import type { FullRun, Place } from './sync_run.ts'

const here = (name: string) => fileURLToPath(new URL(name, import.meta.url))

/** One run of `script/mirror.mjs` and the requests that the API received. */
export type ScriptRun = Costed & { readonly analysisRequests: number }

export type Requests = FetchFloor & { readonly serverCpuSeconds: number }

/** Wall seconds of each step. */
export type LoadFloor = Costed & {
  readonly steps: Readonly<Record<'read' | 'insert' | 'checkpoint' | 'parquet', number>>
}

/** The script in its own directory, `place.directory`. */
export async function runMirrorScript(place: Place, expected: { loaded: number }): Promise<ScriptRun> {
  const { server, apiKey, concurrency, directory } = place
  await server.counters()
  const costed = await runCosted({
    file: here('script/mirror.mjs'),
    args: [],
    env: { API_BASE_URL: server.url, API_KEY: apiKey, CONCURRENCY: String(concurrency) },
    cwd: directory,
  })
  const { requests } = (await server.counters()).analysis
  if (requests !== expected.loaded)
    throw new Error(`The script requested ${requests} analyses instead of ${expected.loaded}.`)
  return { ...costed, analysisRequests: requests }
}

/** The requests of a full sync alone: also shows whether the API's process limits what is measured. */
export async function measureRequests(place: Place, full: FullRun): Promise<Requests> {
  const { server, apiKey, concurrency, directory } = place
  const before = cpuSeconds(server.pid)
  const args = [server.url, apiKey, String(concurrency)]
  const { stdout } = await run(here('floor_fetch.ts'), args, { cwd: directory })
  const floor = JSON.parse(stdout) as FetchFloor
  if (floor.requests !== full.report.requests || floor.bytes !== full.report.bytes_fetched)
    throw new Error(`The fetch floor made other requests than the sync: ${stdout}`)
  return { ...floor, serverCpuSeconds: cpuSeconds(server.pid) - before }
}

/** Plain DuckDB on what the script fetched. */
export async function measureLoad(script: Place): Promise<LoadFloor> {
  const costed = await runCosted({
    file: here('script/load.mjs'),
    args: [script.directory],
    cwd: script.directory,
  })
  return { ...costed, steps: JSON.parse(costed.stdout) }
}

/** As `src/store/rawlog/writer.ts` compresses the raw log. */
const BLOCK_BYTES = 4 * 1024 * 1024
const ZSTD = {
  params: { [zlib.constants.ZSTD_c_compressionLevel]: 1, [zlib.constants.ZSTD_c_checksumFlag]: 1 },
}

/**
 * Compressing what the script fetched as the raw log does, in this process. The sync does that in libuv's pool, where
 * DuckDB's statements run too: this tells how much of the pool's CPU time is compression.
 */
export async function measureCompression(script: Place): Promise<Spent> {
  const file = await open(join(script.directory, 'analyses.ndjson'))
  const block = Buffer.alloc(BLOCK_BYTES)
  const spent = { wallSeconds: 0, cpuSeconds: 0 }
  for (;;) {
    const { bytesRead } = await file.read(block, 0, BLOCK_BYTES)
    if (bytesRead === 0) break
    const read = startWatch()
    zlib.zstdCompressSync(block.subarray(0, bytesRead), ZSTD)
    const { wallSeconds, cpuSeconds } = read()
    spent.wallSeconds += wallSeconds
    spent.cpuSeconds += cpuSeconds
  }
  await file.close()
  return spent
}
