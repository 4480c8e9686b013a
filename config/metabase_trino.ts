import { EXIT, FatalError } from '#src/lib/errors.ts'
import type { RemoteLakeSettings } from './remote_lake.ts'

/** A Trino as Metabase reaches it, and where the company's tables are there. */
export type TrinoTarget = {
  readonly host: string
  readonly port: number
  /** Whether Metabase connects with TLS. */
  readonly ssl: boolean
  /** Trino's name for the Iceberg catalog. */
  readonly catalog: string
  readonly schema: string
}

/**
 * Reads `http://host:port/catalog`, the address of Trino and the name of its Iceberg catalog.
 * @throws FatalError (usage) if it is not one, or if no Iceberg catalog says where the tables are.
 */
export function trinoTarget(text: string, remoteLake: RemoteLakeSettings | null): TrinoTarget {
  const url = URL.parse(text)
  const [, catalog] = /^\/([A-Za-z0-9_-]+)\/?$/.exec(url?.pathname ?? '') ?? []
  const isBare = url && !url.username && !url.password && !url.search && !url.hash
  if (!isBare || !catalog || !/^https?:$/.test(url.protocol)) {
    throw new FatalError(
      "--trino must be the address of Trino and its catalog's name, such as http://trino:8080/lake.",
      EXIT.usage,
    )
  }
  const namespace = remoteLake?.catalog?.namespace
  if (!namespace) {
    throw new FatalError(
      '--trino needs LAKE_URL and ICEBERG_CATALOG_URI: Trino finds the tables in that catalog. Set them, or leave --trino out.',
      EXIT.usage,
    )
  }
  const ssl = url.protocol === 'https:'
  const port = Number(url.port || (ssl ? 443 : 80))
  return { host: url.hostname, port, ssl, catalog, schema: namespace.join('.').toLowerCase() }
}
