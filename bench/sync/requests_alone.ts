import { Pool } from 'undici'
import { LIST_LIMIT } from '#schema/notice.ts'
import { noticePage } from '#schema/zod.ts'
import { type Spent, startWatch } from '../processes/costs.ts'
import { get } from '../processes/requests.ts'

/**
 * The floor of fetching: only the requests of a full sync. Their bodies are counted and dropped.
 * Its argument is an order in JSON; prints one JSON object (Requested).
 */

export type RequestOrder = { readonly url: string; readonly apiKey: string; readonly concurrency: number }

export type Requested = Spent & {
  readonly requests: number
  readonly bytes: number
  readonly peakRssBytes: number
}

/** As many as the sync reads at once (see `src/core/pipeline/scan.ts`). */
const PAGES_AT_ONCE = 4
const PATH = '/api/v1/editais'

const { url, apiKey, concurrency } = JSON.parse(process.argv[2] as string) as RequestOrder
const pool = new Pool(url, { connections: concurrency, allowH2: false, pipelining: 1 })
const headers = {
  accept: 'application/json',
  'accept-encoding': 'identity',
  'user-agent': 'editais-sync',
  authorization: `Bearer ${apiKey}`,
}

/** @returns the size of the body. */
async function fetchOne(path: string, onChunk?: (chunk: Buffer) => void): Promise<number> {
  const { status, bytes } = await get(pool, path, headers, onChunk)
  if (status !== 200) throw new Error(`${path}: ${status}`)
  return bytes
}

/** Sends a GET for each path, `atOnce` at a time; returns the total size of the bodies. */
async function fetchAll(paths: readonly string[], atOnce: number): Promise<number> {
  const left = paths.values()
  let bytes = 0
  async function work(): Promise<void> {
    for (const path of left) {
      const size = await fetchOne(path)
      bytes += size
    }
  }
  await Promise.all(Array.from({ length: atOnce }, work))
  return bytes
}

const pagePath = (offset: number) => `${PATH}?limit=${LIST_LIMIT.max}&offset=${offset}`

/** Reads the ids before the watch starts: parsing pages is not part of fetching them. */
async function plan(): Promise<{ pages: string[]; analyses: string[] }> {
  const pages = [pagePath(0)]
  const ids = new Set<string>()
  for (const path of pages) {
    const chunks: Buffer[] = []
    await fetchOne(path, chunk => chunks.push(chunk))
    const { total, offset, editais } = noticePage.parse(JSON.parse(String(Buffer.concat(chunks))))
    for (const { id } of editais as { id: string }[]) ids.add(id)
    const next = offset + LIST_LIMIT.max - 1
    if (next + 1 < total) pages.push(pagePath(next))
  }
  return { pages, analyses: [...ids].map(id => `${PATH}/${id}/analysis`) }
}

const { pages, analyses } = await plan()
const read = startWatch()
const bytes = (await fetchAll(pages, PAGES_AT_ONCE)) + (await fetchAll(analyses, concurrency))
const requested: Requested = {
  ...read(),
  requests: pages.length + analyses.length,
  bytes,
  peakRssBytes: process.resourceUsage().maxRSS * 1024,
}
await pool.close()
process.stdout.write(JSON.stringify(requested))
