import type { RemoteLakeSettings } from '#config/remote_lake.ts'
import { deltaTables } from './delta/table.ts'
import type { Formats, TableFormat, TableKeeper } from './format.ts'
import { catalogTables } from './iceberg/catalog.ts'
import { icebergTables } from './iceberg/table.ts'
import type { ObjectStore } from './objects.ts'

/** Returns all formats that are published, for as long as `use` takes. */
export async function withFormats<T>(
  store: ObjectStore,
  { formats, catalog }: Pick<RemoteLakeSettings, 'formats' | 'catalog'>,
  company: string,
  use: (opened: Formats) => Promise<T>,
): Promise<T> {
  const opened = new Map<TableKeeper, TableFormat>()
  try {
    for (const format of formats) {
      if (format === 'delta') opened.set('delta', deltaTables(store, company))
      else if (catalog) opened.set('catalog', await catalogTables(store, catalog, company))
      else opened.set('iceberg', icebergTables(store, company))
    }
    return await use(opened)
  } finally {
    for (const one of opened.values()) one.close()
  }
}
