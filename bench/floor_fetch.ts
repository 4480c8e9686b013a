import { Pool } from 'undici'
import { LIST_LIMIT, noticePage } from '#schema/notice.ts'
import { type Spent, startWatch } from './stopwatch.ts'

/*
 * The floor of fetching: only the requests of a full sync. Their bodies are counted and dropped.
 * Prints one JSON object (FetchFloor).
 */

export type FetchFloor = Spent & {
  readonly requests: number
  readonly bytes: number
  readonly peakRssBytes: number
}

/** As many as the sync reads at once (see `src/pipeline/scan.ts`). */
const PAGES_AT_ONCE = 4
const PATH = '/api/v1/editais'

const [url = '', apiKey = '', concurrency = ''] = process.argv.slice(2)
const pool = new Pool(url, { connections: Number(concurrency), allowH2: false, pipelining: 1 })
const headers = {
  accept: 'application/json',
  'accept-encoding': 'identity',
  'user-agent': 'editais-sync',
  authorization: `Bearer ${apiKey}`,
}

function get(path: string, onChunk: (chunk: Buffer) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    pool.dispatch(
      { method: 'GET', path, headers },
      {
        onRequestStart() {},
        onResponseStart(controller, status) {
          if (status !== 200) controller.abort(new Error(`${path}: ${status}`))
        },
        onResponseData: (_, chunk) => onChunk(chunk),
        onResponseEnd: () => resolve(),
        onResponseError: (_, error) => reject(error),
      },
    )
  })
}

async function bodyOf(path: string): Promise<string> {
  const chunks: Buffer[] = []
  await get(path, chunk => chunks.push(chunk))
  return String(Buffer.concat(chunks))
}

/** Sends a GET for each path, `atOnce` at a time; returns the total size of the bodies. */
async function fetchAll(paths: readonly string[], atOnce: number): Promise<number> {
  const left = paths.values()
  let bytes = 0
  async function work(): Promise<void> {
    for (const path of left) await get(path, chunk => (bytes += chunk.length))
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
    const { total, offset, editais } = noticePage.parse(JSON.parse(await bodyOf(path)))
    for (const { id } of editais as { id: string }[]) ids.add(id)
    const next = offset + LIST_LIMIT.max - 1
    if (next + 1 < total) pages.push(pagePath(next))
  }
  return { pages, analyses: [...ids].map(id => `${PATH}/${id}/analysis`) }
}

const { pages, analyses } = await plan()
const read = startWatch()
const bytes = (await fetchAll(pages, PAGES_AT_ONCE)) + (await fetchAll(analyses, Number(concurrency)))
const floor: FetchFloor = {
  ...read(),
  requests: pages.length + analyses.length,
  bytes,
  peakRssBytes: process.resourceUsage().maxRSS * 1024,
}
await pool.close()
process.stdout.write(JSON.stringify(floor))
