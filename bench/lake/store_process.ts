import { type S3Server, startS3 } from '#tools/s3_server.ts'

/** An object store in memory, in a process of its own. Its argument is the address that it listens on. */

/** Requests since the last call, and what is there. */
export type StoreCounts = {
  readonly requests: number
  /** Keys of objects that were written. */
  readonly written: readonly string[]
  readonly objects: readonly { readonly key: string; readonly bytes: number }[]
}
export type StoreAsked = { readonly kind: 'counts' } | { readonly kind: 'latency'; readonly ms: number }
export type StoreSaid =
  | { readonly kind: 'ready'; readonly url: string }
  | ({ readonly kind: 'counts' } & StoreCounts)

const send = (said: StoreSaid) => process.send?.(said)

const server = await startS3(process.argv[2])
process.on('message', (asked: StoreAsked) => {
  if (asked.kind === 'latency') server.latencyMs = asked.ms
  else send({ kind: 'counts', ...countsOf(server) })
})
process.once('disconnect', () => process.exit())
send({ kind: 'ready', url: server.url })

function countsOf({ requests, objects }: S3Server): StoreCounts {
  const since = requests.splice(0)
  return {
    requests: since.length,
    written: since.filter(({ method }) => method === 'PUT').map(({ key }) => key),
    objects: [...objects].map(([key, { bytes }]) => ({ key, bytes: bytes.length })),
  }
}
