import { once } from 'node:events'
import { Pool } from 'undici'
import { LIST_LIMIT } from '#schema/notice.ts'
import { noticePage } from '#schema/zod.ts'
import { type Spent, startWatch } from './stopwatch.ts'

/*
 * The floor of fetching: only the requests of a full sync. Their bodies are read and discarded.
 * Prints one JSON object (FetchFloor).
 */

export type FetchFloor = Spent & { readonly requests: number; readonly bytes: number }

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

/** Sends a GET for each path, `atOnce` at a time; returns the total size of the bodies. */
async function fetchAll(paths: readonly string[], atOnce: number, onBody?: (body: string) => void) {
  const left = paths.values()
  let bytes = 0
  async function work(): Promise<void> {
    for (const path of left) {
      const { body, statusCode } = await pool.request({ method: 'GET', path, headers })
      if (statusCode !== 200) throw new Error(`${path}: ${statusCode}`)
      if (onBody) {
        onBody(await body.text())
      } else {
        body.on('data', (chunk: Buffer) => {
          bytes += chunk.length
        })
        await once(body, 'end')
      }
    }
  }
  await Promise.all(Array.from({ length: atOnce }, work))
  return bytes
}

const pagePath = (offset: number) => `${PATH}?limit=${LIST_LIMIT.max}&offset=${offset}`

/** Reads the ids before the watch starts: parsing pages is not part of fetching them. */
async function plan(): Promise<{ pages: string[]; analyses: string[] }> {
  let total = 0
  const ids = new Set<string>()
  const read = (text: string) => {
    const page = noticePage.parse(JSON.parse(text))
    total = page.total
    for (const shown of page.editais as { id: string }[]) ids.add(shown.id)
  }
  await fetchAll([pagePath(0)], 1, read)
  const pages = [pagePath(0)]
  const step = LIST_LIMIT.max - 1
  for (let offset = step; offset + 1 < total; offset += step) pages.push(pagePath(offset))
  await fetchAll(pages.slice(1), PAGES_AT_ONCE, read)
  return { pages, analyses: [...ids].map(id => `${PATH}/${id}/analysis`) }
}

const { pages, analyses } = await plan()
const read = startWatch()
const bytes = (await fetchAll(pages, PAGES_AT_ONCE)) + (await fetchAll(analyses, Number(concurrency)))
const floor: FetchFloor = { ...read(), requests: pages.length + analyses.length, bytes }
await pool.close()
process.stdout.write(JSON.stringify(floor))
