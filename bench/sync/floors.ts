import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import zlib from 'node:zlib'
import { cpuSeconds } from '#tools/proc.ts'
import type { Api } from '../company/api.ts'
import type { SyncRun } from '../company/runs.ts'
import { type Costed, runCosted, type Spent, startWatch } from '../processes/costs.ts'
import { answerOf } from '../processes/processes.ts'
import type { Requested, RequestOrder } from './requests_alone.ts'

const here = (name: string) => fileURLToPath(new URL(name, import.meta.url))

/** Runs `bench/script/mirror.mjs` in a directory of its own. @throws Error unless it requested `loaded` analyses. */
export async function runMirrorScript(
  api: Api,
  { apiKey, concurrency }: RequestOrder,
  { directory, loaded }: { readonly directory: string; readonly loaded: number },
): Promise<Costed> {
  await api.counters()
  const env = { API_BASE_URL: api.url, API_KEY: apiKey, CONCURRENCY: String(concurrency) }
  const costed = await runCosted([here('../script/mirror.mjs')], { directory, env })
  const { requests } = (await api.counters()).analysis
  if (requests === loaded) return costed
  throw new Error(`The script requested ${requests} analyses instead of ${loaded}.`)
}

export type RequestsAlone = Requested & { readonly apiCpuSeconds: number }

/** The requests of a full sync alone: also shows whether the API's process limits what is measured. */
export async function measureRequests(
  api: Api,
  order: RequestOrder,
  { full, directory }: { readonly full: SyncRun; readonly directory: string },
): Promise<RequestsAlone> {
  const before = cpuSeconds(api.pid)
  const alone = await answerOf<Requested>(here('requests_alone.ts'), order, directory)
  if (alone.requests !== full.report.requests || alone.bytes !== full.report.bytes_fetched)
    throw new Error(`These are other requests than those of the sync: ${JSON.stringify(alone)}`)
  return { ...alone, apiCpuSeconds: cpuSeconds(api.pid) - before }
}

/** Wall seconds of each step. */
export type Load = Costed & {
  readonly steps: Readonly<Record<'read' | 'insert' | 'checkpoint' | 'parquet', number>>
}

/** Plain DuckDB on what the script fetched into this directory. */
export async function measureLoad(directory: string): Promise<Load> {
  const costed = await runCosted([here('../script/load.mjs'), directory], { directory })
  return { ...costed, steps: JSON.parse(costed.stdout) }
}

/** As `src/core/rawlog/writer.ts` compresses the raw log. */
const BLOCK_BYTES = 4 * 1024 * 1024
const ZSTD = {
  params: { [zlib.constants.ZSTD_c_compressionLevel]: 1, [zlib.constants.ZSTD_c_checksumFlag]: 1 },
}

/**
 * Compressing what the script fetched as the raw log does, in this process. The sync does that in libuv's pool, where
 * DuckDB's statements run too: this shows how much of the pool's CPU time is compression.
 */
export async function measureCompression(directory: string): Promise<Spent> {
  const file = await open(join(directory, 'analyses.ndjson'))
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
