import type { Pool } from 'undici'

/** An answer without its body; status 0 if there was none. */
export type Answered = { readonly status: number; readonly bytes: number; readonly ms: number }

/** Sends a GET, and does as little as possible: CPU time of the clients is taken from the server. */
export function get(
  pool: Pool,
  path: string,
  headers: Readonly<Record<string, string>>,
  onChunk: (chunk: Buffer) => void = () => {},
): Promise<Answered> {
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
          onChunk(chunk)
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
