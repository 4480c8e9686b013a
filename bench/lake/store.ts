import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { BUCKET } from '#tools/s3_server.ts'
import { remember } from '../processes.ts'
import type { StoreAsked, StoreCounts, StoreSaid } from './store_process.ts'

export type Store = {
  readonly pid: number
  readonly settings: Readonly<Record<string, string>>
  setLatency(ms: number): void
  counts(): Promise<StoreCounts>
  close(): Promise<void>
}

/**
 * @param directory for the files with its keys.
 * @param host the address that it listens on.
 */
export async function startStore(directory: string, formats: string, host = '127.0.0.1'): Promise<Store> {
  const child = remember(fork(fileURLToPath(new URL('store_process.ts', import.meta.url)), [host]))
  const ended = once(child, 'exit')
  const next = async () => (await once(child, 'message'))[0] as StoreSaid
  const ready = await next()
  if (ready.kind !== 'ready') throw new Error('the object store did not start')
  await mkdir(directory, { recursive: true })
  const keys = join(directory, 'key')
  await writeFile(keys, 'bench')
  const ask = (asked: StoreAsked) => child.send(asked)
  return {
    pid: child.pid as number,
    settings: {
      LAKE_URL: `s3://${BUCKET}/bench`,
      LAKE_FORMATS: formats,
      S3_ENDPOINT: ready.url,
      S3_ACCESS_KEY_ID_FILE: keys,
      S3_SECRET_ACCESS_KEY_FILE: keys,
    },
    setLatency: ms => void ask({ kind: 'latency', ms }),
    async counts() {
      ask({ kind: 'counts' })
      return (await next()) as StoreCounts & StoreSaid
    },
    async close() {
      child.disconnect()
      await ended
    },
  }
}
