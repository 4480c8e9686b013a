import { startS3 } from '#tools/s3_server.ts'
import { answerCalls } from './calls.ts'

/** An object store in memory, in a process of its own. Its argument is the address that it listens on, as JSON. */

/** Requests since the last call, and what is there. */
export type StoreCounts = {
  readonly requests: number
  /** Keys of objects that were written. */
  readonly written: readonly string[]
  readonly objects: readonly { readonly key: string; readonly bytes: number }[]
}

const server = await startS3(JSON.parse(process.argv[2] as string) as string)

const calls = {
  url: () => server.url,
  setLatency(ms: number): void {
    server.latencyMs = ms
  },
  counts(): StoreCounts {
    const since = server.requests.splice(0)
    return {
      requests: since.length,
      written: since.filter(({ method }) => method === 'PUT').map(({ key }) => key),
      objects: [...server.objects].map(([key, { bytes }]) => ({ key, bytes: bytes.length })),
    }
  },
}
export type StoreCalls = typeof calls

answerCalls(calls)
