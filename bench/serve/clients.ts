import { Pool } from 'undici'
import { percentile, sum } from '../frame/figures.ts'

/**
 * Clients that send one request after another, each as soon as the previous one is answered.
 * Its argument is an order in JSON; prints one JSON object (Loaded).
 */
export type Load = {
  readonly url: string
  readonly key: string
  /** The requested paths, in turn. */
  readonly paths: readonly string[]
  readonly clients: number
  readonly seconds: number
  /** Whether they accept compressed answers, as most clients do. */
  readonly gzip: boolean
}

export type Loaded = {
  /** Requests without an answer, or with one other than 200. */
  readonly errors: number
  readonly perSecond: number
  readonly bodyBytes: number
  readonly ms: { readonly p50: number; readonly p99: number }
}

const WARM_SECONDS = 2

const load = JSON.parse(process.argv[2] ?? '') as Load
await ask({ ...load, seconds: WARM_SECONDS })
process.stdout.write(JSON.stringify(await ask(load)))

async function ask({ url, key, paths, clients, seconds, gzip }: Load): Promise<Loaded> {
  const pool = new Pool(url, { connections: clients })
  const headers = { 'x-api-key': key, 'accept-encoding': gzip ? 'gzip' : 'identity' }
  const answers: Answered[] = []
  const startedMs = performance.now()
  let next = 0
  async function client(): Promise<void> {
    while (performance.now() < startedMs + seconds * 1000) {
      const path = paths[next++ % paths.length] as string
      answers.push(await get(pool, path, headers))
    }
  }
  await Promise.all(Array.from({ length: clients }, client))
  const perSecond = (answers.length / (performance.now() - startedMs)) * 1000
  await pool.close()
  const took = answers.map(({ ms }) => ms)
  return {
    errors: answers.filter(({ status }) => status !== 200).length,
    perSecond,
    bodyBytes: Math.round(sum(answers.map(({ bytes }) => bytes)) / answers.length),
    ms: { p50: percentile(took, 0.5), p99: percentile(took, 0.99) },
  }
}

/** An answer without its body; status 0 if there was none. */
type Answered = { readonly status: number; readonly bytes: number; readonly ms: number }

/** Sends a GET, and does as little as possible: CPU time of the clients is taken from the server. */
function get(pool: Pool, path: string, headers: Readonly<Record<string, string>>): Promise<Answered> {
  const startedMs = performance.now()
  return new Promise(resolve => {
    let [status, bytes] = [0, 0]
    const end = () => resolve({ status, bytes, ms: performance.now() - startedMs })
    pool.dispatch(
      { method: 'GET', path, headers },
      {
        onRequestStart() {},
        onResponseStart(_, code) {
          status = code
        },
        onResponseData(_, chunk) {
          bytes += chunk.length
        },
        onResponseEnd: end,
        onResponseError() {
          status = 0
          end()
        },
      },
    )
  })
}
