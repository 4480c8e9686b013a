import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { z } from 'zod'
import { EXIT, FatalError, findSystemCode, getMessage } from '#src/lib/errors.ts'
import type { S3Settings } from '#src/lib/objects/objects.ts'
import { commaList, serverAddress } from './setting_kinds.ts'

/** The system's list of its groups. */
const GROUPS = '/etc/group'
const MAX_GROUP_ID = 4_294_967_294

export type LakeSettings = {
  /** Mode of its directories; null leaves them unchanged: a new one gets 0755 less the umask. */
  readonly mode: number | null
  /** Id of the group that owns it; null leaves it unchanged. */
  readonly group: number | null
}

const MODES = { all: 0o755, group: 0o750, none: 0o700 } as const

/** Reads who may read the lake, in which only the worker writes: `group` keeps its group, `group:bi` gives it another one. */
const readers = z.string().transform((text, context): LakeSettings => {
  if (text === 'all' || text === 'group' || text === 'none') return { mode: MODES[text], group: null }
  const named = /^group:(.+)$/.exec(text)?.[1]
  const group = named && (/^\d{1,10}$/.test(named) ? Number(named) : groupNamed(named))
  if (typeof group === 'number' && group <= MAX_GROUP_ID) return { mode: MODES.group, group }
  const problem = typeof group === 'number' ? 'is not a valid group id' : group
  const message = problem || 'must be all, none, group, or group: and a name, as in group:bi'
  context.addIssue({ code: 'custom', message })
  return z.NEVER
})

/** The readers of the lake. */
export const lakeShape = { LAKE_READERS: readers.optional() }

/** Returns the group's id, or what is wrong. */
function groupNamed(name: string): number | string {
  try {
    const lines = readFileSync(GROUPS, 'utf8').split('\n')
    const entry = lines.map(line => line.split(':')).find(([known]) => known === name)
    if (entry?.[2]) return Number(entry[2])
    return `is not a group in ${GROUPS}. If the group is defined elsewhere, use its number`
  } catch (error) {
    return `cannot be looked up: ${GROUPS} cannot be read (${findSystemCode(error) ?? getMessage(error)}). Use the group's number`
  }
}

/** Settings of object stores, of the lake in one, and of an Iceberg REST catalog, as written. */

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

export type CatalogLogin = {
  /** Holds a token, or an OAuth client as `CLIENT:SECRET`. It is read for each publish, so that a new one needs no restart. */
  readonly credentialFile: string
  readonly oauthUri: string
  readonly scope: string | null
  /** Whether a setting of OAuth says that the file holds a client. */
  readonly isClient: boolean
}

/** Pause before a request to an object store or a catalog is repeated: it may be on the other side of the world. */
const REMOTE_RETRY_MS = 100
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

const catalogShape = {
  ICEBERG_CATALOG_URI: address.transform(url => url.replace(/\/v1$/, '')).optional(),
  ICEBERG_WAREHOUSE: line.optional(),
  ICEBERG_NAMESPACE: namespace.default(`editais_${COMPANY}`),
  ICEBERG_OAUTH_URI: address.optional(),
  ICEBERG_CREDENTIAL_FILE: z.string().optional(),
  ICEBERG_OAUTH_SCOPE: line.optional(),
}

type CatalogValues = z.output<z.ZodObject<typeof catalogShape>>

/** Returns null if there is no catalog. */
function catalogSettings(values: CatalogValues, company: string): CatalogSettings | null {
  const { ICEBERG_CATALOG_URI: uri, ICEBERG_WAREHOUSE: warehouse = null } = values
  if (uri === undefined) return null
  const levels = values.ICEBERG_NAMESPACE.replaceAll(COMPANY, company).split('.')
  return { uri, warehouse, namespace: levels, login: readLogin(values, uri), retryMs: REMOTE_RETRY_MS }
}

function readLogin(values: CatalogValues, uri: string): CatalogLogin | null {
  const {
    ICEBERG_CREDENTIAL_FILE: credentialFile,
    ICEBERG_OAUTH_SCOPE: scope = null,
    // The specification's own, which many catalogs still have.
    ICEBERG_OAUTH_URI: oauthUri = `${uri}/v1/oauth/tokens`,
  } = values
  if (credentialFile === undefined) return null
  const isClient = scope !== null || values.ICEBERG_OAUTH_URI !== undefined
  return { oauthUri, credentialFile: resolve(credentialFile), scope, isClient }
}

const BUCKET = /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/
/** Each part of the prefix; readers put it into addresses as it is. */
const PART = /^[A-Za-z0-9_.=-]+$/

/** `s3://bucket/prefix` */
export const s3Place = z.string().transform((text, context) => {
  const [bucket = '', ...parts] = text
    .replace(/^s3:\/\//, '')
    .replace(/(?<!\/)\/+$/, '')
    .split('/')
  const isPrefix = parts.every(part => PART.test(part) && !/^\.+$/.test(part))
  if (text.startsWith('s3://') && BUCKET.test(bucket) && isPrefix) return { bucket, prefix: parts.join('/') }
  context.addIssue({
    code: 'custom',
    message:
      'must be an address such as s3://bucket/prefix: a bucket of 3 to 63 lower-case letters, digits, dots and hyphens, and a prefix of letters, digits, dots, hyphens, _ and =',
  })
  return z.NEVER
})

const endpoint = z.string().transform((text, context) => {
  const url = URL.canParse(text) ? new URL(text) : null
  const isBare = url && ['', '/'].includes(url.pathname) && !url.search && !url.hash && !url.username
  if (url && isBare && /^https?:$/.test(url.protocol)) return url.origin
  context.addIssue({ code: 'custom', message: 'must be an address such as https://s3.example.com:9000' })
  return z.NEVER
})

const s3Shape = {
  S3_ENDPOINT: endpoint.optional(),
  S3_REGION: z
    .string()
    .regex(/^[a-z0-9-]+$/, 'must be a region such as sa-east-1')
    .default('us-east-1'),
  S3_CREDENTIALS_FILE: z.string().optional(),
}

/** Reads the settings of an object store. */
export function readS3Settings(
  values: z.output<z.ZodObject<typeof s3Shape>>,
  at: Pick<S3Settings, 'bucket' | 'prefix'>,
): S3Settings {
  const { S3_CREDENTIALS_FILE: file } = values
  return {
    ...at,
    region: values.S3_REGION,
    endpoint: values.S3_ENDPOINT ?? null,
    retryMs: REMOTE_RETRY_MS,
    credentialsFile: file ? resolve(file) : null,
  }
}

/** The open table formats that can be published. */
export const FORMAT_NAMES = ['iceberg', 'delta'] as const
export type FormatName = (typeof FORMAT_NAMES)[number]

/** The address of the objects, how to reach them, and what is published. */
export type RemoteLakeSettings = S3Settings & {
  readonly formats: readonly FormatName[]
  /** The catalog that keeps the Iceberg tables; null if their own files do. */
  readonly catalog: CatalogSettings | null
  /** A snapshot is published at least this long after the previous one. */
  readonly intervalMs: number
  /** How long a snapshot stays after a newer one appeared. */
  readonly keepMs: number
}

const formats = commaList(
  name => (FORMAT_NAMES as readonly string[]).includes(name.toLowerCase()),
  `must be one or more of ${FORMAT_NAMES.join(', ')}, separated by commas`,
).transform(given => FORMAT_NAMES.filter(name => given.some(one => one.toLowerCase() === name)))

export const remoteLakeShape = {
  LAKE_URL: s3Place.optional(),
  LAKE_FORMATS: formats.prefault('iceberg'),
  ...s3Shape,
  ...catalogShape,
}

type Values = z.output<z.ZodObject<typeof remoteLakeShape>>

/** Returns null if the lake stays only on this machine. */
export function readRemoteLakeSettings(
  values: Values,
  given: Pick<RemoteLakeSettings, 'keepMs' | 'intervalMs'> & { readonly company: string },
): RemoteLakeSettings | null {
  const { LAKE_URL: at } = values
  if (at === undefined) return null
  const { company, ...times } = given
  return {
    ...readS3Settings(values, at),
    formats: values.LAKE_FORMATS,
    catalog: values.LAKE_FORMATS.includes('iceberg') ? catalogSettings(values, company) : null,
    ...times,
  }
}

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
export function parseTrinoTarget(text: string, remoteLake: RemoteLakeSettings | null): TrinoTarget {
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
