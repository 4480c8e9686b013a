import { readSettings } from '#config/settings.ts'
import type { ObjectStore } from '#src/store/remote/objects.ts'
import { openS3 } from '#src/store/remote/s3.ts'
import { type Store, startStore } from '../lake/store.ts'

export type LogStore = Pick<Store, 'pid' | 'setLatency' | 'counts' | 'close'> & {
  /** What hosts need to share a log there. */
  readonly settings: Readonly<Record<string, string>>
}

/**
 * @param directory for the files with its keys.
 * @param host the address that it listens on.
 */
export async function startLogStore(directory: string, host?: string): Promise<LogStore> {
  const store = await startStore(directory, 'iceberg', host)
  const { LAKE_URL: LOG_URL = '', LAKE_FORMATS: _, ...keys } = store.settings
  return { ...store, settings: { ...keys, LOG_URL } }
}

/** Reads the store as a host with these settings does. */
export async function withObjects<T>(
  settings: Readonly<Record<string, string>>,
  use: (store: ObjectStore) => Promise<T>,
): Promise<T> {
  const { remoteLog } = readSettings({ ...settings, COMPANY: 'bench', DATA_DIR: '.' })
  const store = await openS3(remoteLog as NonNullable<typeof remoteLog>)
  try {
    return await use(store)
  } finally {
    store.close()
  }
}
