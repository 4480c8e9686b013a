import { Pool } from 'undici'

/**
 * Clients that ask one after another, each the next thing as soon as it has its answer.
 * Usage: node clients.ts '{"url": ...}'; prints one JSON object.
 */
export type Load = {
  readonly url: string
  readonly key: string
  /** What is asked for, in turn. */
  readonly paths: readonly string[]
  readonly clients: number
  readonly seconds: number
}

export type Loaded = {
  readonly requests: number
  /** Answers that were not 200, or none. */
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

async function ask({ url, key, paths, clients, seconds }: Load): Promise<Loaded> {
  const pool = new Pool(url, { connections: clients })
  const headers = { 'x-api-key': key }
  const took: number[] = []
  const until = performance.now() + seconds * 1000
  let [errors, bytes, next] = [0, 0, 0]

  async function client(): Promise<void> {
    while (performance.now() < until) {
      const path = paths[next++ % paths.length] as string
      const startedMs = performance.now()
      try {
        const { statusCode, body } = await pool.request({ method: 'GET', path, headers })
        for await (const chunk of body) bytes += (chunk as Buffer).length
        if (statusCode !== 200) errors += 1
      } catch {
        errors += 1
      }
      took.push(performance.now() - startedMs)
    }
  }

  const startedMs = performance.now()
  await Promise.all(Array.from({ length: clients }, client))
  const perSecond = (took.length / (performance.now() - startedMs)) * 1000
  await pool.close()
  took.sort((a, b) => a - b)
  const at = (share: number) => took[Math.min(took.length - 1, Math.floor(took.length * share))] ?? 0
  return {
    ...{ requests: took.length, errors, perSecond, bytes },
    ms: { p50: at(0.5), p99: at(0.99), max: at(1) },
  }
}
