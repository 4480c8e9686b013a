import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { readSettings } from '#config/settings.ts'
import type { ObjectStore } from '#src/lib/objects/objects.ts'
import { openS3 } from '#src/lib/objects/s3.ts'
import { BUCKET, writeCredentials } from '#tools/s3_server.ts'
import { type Callee, startCallee } from './calls.ts'
import type { Environment } from './processes.ts'
import type { StoreCalls, StoreCounts } from './store_process.ts'

export type Store = {
  readonly pid: number
  /** Names a place in it. */
  readonly url: string
  /** The requests that reach it. */
  readonly settings: Environment
  setLatency(ms: number): Promise<void>
  counts(): Promise<StoreCounts>
  close: Callee<StoreCalls>['close']
}

/**
 * Starts an object store in a process of its own.
 * @param directory for the file with its keys.
 * @param host the address that it listens on.
 */
export async function startStore(directory: string, host = '127.0.0.1'): Promise<Store> {
  const file = fileURLToPath(new URL('store_process.ts', import.meta.url))
  const { pid, call, close } = await startCallee<StoreCalls>(file, host)
  await mkdir(directory, { recursive: true })
  return {
    pid,
    url: `s3://${BUCKET}/bench`,
    settings: {
      S3_ENDPOINT: await call('url'),
      S3_CREDENTIALS_FILE: await writeCredentials(join(directory, 'credentials'), 'bench'),
    },
    setLatency: ms => call('setLatency', ms),
    counts: () => call('counts'),
    close,
  }
}

/** Reads the store of the shared log, as a host with these settings does. */
export async function withObjects<T>(env: Environment, use: (store: ObjectStore) => Promise<T>): Promise<T> {
  const { remoteLog } = readSettings({ ...env, COMPANY: 'bench', DATA_DIR: '.' })
  const store = await openS3(remoteLog as NonNullable<typeof remoteLog>)
  try {
    return await use(store)
  } finally {
    store.close()
  }
}
