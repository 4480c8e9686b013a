import { Pool } from 'undici'

/**
 * Clients that send one request after another, each as soon as the previous one is answered.
 * Usage: node clients.ts '{"url": ...}'; prints one JSON object.
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
  readonly requests: number
  /** Requests without an answer, or with one other than 200. */
  readonly errors: number
  readonly perSecond: number
  readonly bytes: number
  readonly ms: { readonly p50: number; readonly p99: number; readonly max: number }
}

const WARM_SECONDS = 2

if (import.meta.main) {
  const load = JSON.parse(process.argv[2] ?? '') as Load
  await ask({ ...load, seconds: WARM_SECONDS })
  process.stdout.write(JSON.stringify(await ask(load)))
}

async function ask({ url, key, paths, clients, seconds, gzip }: Load): Promise<Loaded> {
  const pool = new Pool(url, { connections: clients })
  const headers = { 'x-api-key': key, 'accept-encoding': gzip ? 'gzip' : 'identity' }
  const took: number[] = []
  const until = performance.now() + seconds * 1000
  let [errors, bytes, next] = [0, 0, 0]

  async function client(): Promise<void> {
    while (performance.now() < until) {
      const path = paths[next++ % paths.length] as string
      const startedMs = performance.now()
      const answer = await askOnce(pool, path, headers)
      took.push(performance.now() - startedMs)
      bytes += answer.bytes
      if (answer.status !== 200) errors += 1
    }
  }

  const startedMs = performance.now()
  await Promise.all(Array.from({ length: clients }, client))
  const perSecond = (took.length / (performance.now() - startedMs)) * 1000
  await pool.close()
  took.sort((a, b) => a - b)
  const at = (share: number) => took[Math.min(took.length - 1, Math.floor(took.length * share))] ?? 0
  return {
    requests: took.length,
    errors,
    perSecond,
    bytes,
    ms: { p50: at(0.5), p99: at(0.99), max: at(1) },
  }
}

/** Does as little as possible: CPU time of the clients is taken from the server. */
function askOnce(
  pool: Pool,
  path: string,
  headers: Readonly<Record<string, string>>,
): Promise<{ status: number; bytes: number }> {
  return new Promise(resolve => {
    const answer = { status: 0, bytes: 0 }
    pool.dispatch(
      { method: 'GET', path, headers },
      {
        onRequestStart() {},
        onResponseStart(_, status) {
          answer.status = status
        },
        onResponseData(_, chunk) {
          answer.bytes += chunk.length
        },
        onResponseEnd: () => resolve(answer),
        onResponseError: () => resolve({ status: 0, bytes: 0 }),
      },
    )
  })
}
