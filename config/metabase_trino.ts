import { z } from 'zod'
import { EXIT, FatalError } from '#src/lib/errors.ts'
import type { RemoteLakeSettings } from './remote_lake.ts'

/** Settings of Metabase's connection to Trino, as written. */

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

type TrinoAddress = Omit<TrinoTarget, 'schema'>

/** `http://host:port/catalog` */
const address = z.string().transform((text, context): TrinoAddress => {
  const url = URL.canParse(text) ? new URL(text) : null
  const [, catalog] = /^\/([A-Za-z0-9_-]+)\/?$/.exec(url?.pathname ?? '') ?? []
  const isBare = url && !url.username && !url.password && !url.search && !url.hash
  if (url && isBare && catalog && /^https?:$/.test(url.protocol)) {
    const ssl = url.protocol === 'https:'
    return { host: url.hostname, port: Number(url.port || (ssl ? 443 : 80)), ssl, catalog }
  }
  context.addIssue({
    code: 'custom',
    message: "must be the address of Trino and its catalog's name, such as http://trino:8080/lake",
  })
  return z.NEVER
})

export const trinoShape = { METABASE_TRINO_URL: address.optional() }

/**
 * Returns null if Metabase does not use Trino.
 * @throws FatalError (usage) if no Iceberg catalog says where the tables are.
 */
export function trinoTarget(
  { METABASE_TRINO_URL: at }: z.output<z.ZodObject<typeof trinoShape>>,
  remoteLake: RemoteLakeSettings | null,
): TrinoTarget | null {
  if (at === undefined) return null
  const namespace = remoteLake?.catalog?.namespace
  if (namespace) return { ...at, schema: namespace.join('.').toLowerCase() }
  throw new FatalError(
    'METABASE_TRINO_URL needs LAKE_URL and ICEBERG_CATALOG_URI: Trino finds the tables in that catalog. Set them, or unset METABASE_TRINO_URL.',
    EXIT.usage,
  )
}
