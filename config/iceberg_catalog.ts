import { resolve } from 'node:path'
import { z } from 'zod'
import { EXIT, FatalError } from '#src/lib/errors.ts'
import { serverAddress } from './setting_kinds.ts'

/** Settings of an Iceberg REST catalog, as written. */

/** The address of the catalog, and how to sign in. */
export type CatalogSettings = {
  /** Without `/v1`, and without a slash at its end. */
  readonly uri: string
  /** Null for the catalog's only one. */
  readonly warehouse: string | null
  /** Levels of the company's namespace. */
  readonly namespace: readonly string[]
  /** Null if the catalog asks for nothing. */
  readonly login: CatalogLogin | null
  /** The first retry of a question comes after this, or up to twice as long. */
  readonly retryMs: number
}

/** Files are read for each publish, so that a new token needs no restart. */
export type CatalogLogin =
  | { readonly tokenFile: string }
  | {
      readonly oauthUri: string
      /** Holds `client:secret`. */
      readonly credentialFile: string
      readonly scope: string | null
    }

/** Pause before a request to an object store or a catalog is repeated: it may be on the other side of the world. */
export const REMOTE_RETRY_MS = 100
/** Stands for the company in a namespace. */
const COMPANY = '{company}'
const LEVEL = /^[A-Za-z0-9_-]+$/

const address = serverAddress('must be an address such as https://catalog.example.com/api/catalog')

const namespace = z
  .string()
  .refine(
    text => text.split('.').every(level => LEVEL.test(level.replaceAll(COMPANY, 'x'))),
    `must be a name such as editais_${COMPANY} or bi.editais_${COMPANY}, of a-z, 0-9, - and _`,
  )

const line = z.string().regex(/^[\x20-\x7e]+$/, 'must be one line of letters, digits and signs of ASCII')

export const catalogShape = {
  ICEBERG_CATALOG_URI: address.transform(url => url.replace(/\/v1$/, '')).optional(),
  ICEBERG_WAREHOUSE: line.optional(),
  ICEBERG_NAMESPACE: namespace.default(`editais_${COMPANY}`),
  ICEBERG_TOKEN_FILE: z.string().optional(),
  ICEBERG_OAUTH_URI: address.optional(),
  ICEBERG_CREDENTIAL_FILE: z.string().optional(),
  ICEBERG_OAUTH_SCOPE: line.optional(),
}

type Values = z.output<z.ZodObject<typeof catalogShape>>

/**
 * Returns null if there is no catalog.
 * @throws FatalError (usage) if the settings do not fit together.
 */
export function catalogSettings(values: Values, company: string): CatalogSettings | null {
  const { ICEBERG_CATALOG_URI: uri, ICEBERG_WAREHOUSE: warehouse = null } = values
  if (uri === undefined) return null
  const levels = values.ICEBERG_NAMESPACE.replaceAll(COMPANY, company).split('.')
  return { uri, warehouse, namespace: levels, login: loginOf(values, uri), retryMs: REMOTE_RETRY_MS }
}

function loginOf(values: Values, uri: string): CatalogLogin | null {
  const {
    ICEBERG_TOKEN_FILE: tokenFile,
    ICEBERG_CREDENTIAL_FILE: credentialFile,
    ICEBERG_OAUTH_SCOPE: scope = null,
    // The specification's own, which many catalogs still have.
    ICEBERG_OAUTH_URI: oauthUri = `${uri}/v1/oauth/tokens`,
  } = values
  if (tokenFile && credentialFile)
    throw new FatalError('Set either ICEBERG_TOKEN_FILE or ICEBERG_CREDENTIAL_FILE.', EXIT.usage)
  if (tokenFile) return { tokenFile: resolve(tokenFile) }
  return credentialFile === undefined ? null : { oauthUri, credentialFile: resolve(credentialFile), scope }
}
