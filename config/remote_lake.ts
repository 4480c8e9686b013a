import { resolve } from 'node:path'
import { z } from 'zod'
import { EXIT, FatalError } from '#src/platform/errors.ts'
import { type CatalogSettings, catalogSettings, catalogShape, REMOTE_RETRY_MS } from './iceberg_catalog.ts'

/** Settings of the lake in an object store, as written. */

/** The open table formats that can be published. */
export const FORMAT_NAMES = ['iceberg', 'delta'] as const
export type FormatName = (typeof FORMAT_NAMES)[number]

/** Where the objects are, and how to reach them. */
export type RemoteLakeSettings = {
  readonly bucket: string
  /** Without slashes at its ends; '' for the whole bucket. */
  readonly prefix: string
  readonly region: string
  /** Null for Amazon's own. */
  readonly endpoint: string | null
  /** Whether the bucket is in the path, not in the host's name. */
  readonly pathStyle: boolean
  /** Read for each publish, so that new keys need no restart. Null for the SDK's own chain of credentials. */
  readonly keyFiles: { readonly id: string; readonly secret: string } | null
  readonly formats: readonly FormatName[]
  /** Who keeps the Iceberg tables; null if their own files do. */
  readonly catalog: CatalogSettings | null
  /** A snapshot is published this long after the one before, or later. */
  readonly intervalMs: number
  /** The first retry of a request comes after this, or up to twice as long. */
  readonly retryMs: number
  /** How long a snapshot stays after a newer one appeared. */
  readonly keepMs: number
}

const BUCKET = /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/
/** Each part of the prefix; readers put it into addresses as it is. */
const PART = /^[A-Za-z0-9_.=-]+$/

const place = z.string().transform((text, context) => {
  const [, bucket = '', path = ''] = /^s3:\/\/([^/]*)\/?(.*?)\/*$/.exec(text) ?? []
  const parts = path === '' ? [] : path.split('/')
  if (BUCKET.test(bucket) && parts.every(part => PART.test(part) && !/^\.+$/.test(part)))
    return { bucket, prefix: parts.join('/') }
  context.addIssue({
    code: 'custom',
    message: 'must be a place such as s3://bucket/prefix, of a-z, 0-9, -, _, = and .',
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

const formats = z.string().transform((text, context) => {
  const names = text.split(',').map(name => name.trim().toLowerCase())
  const known = FORMAT_NAMES.filter(name => names.includes(name))
  if (known.length === new Set(names).size) return known
  context.addIssue({
    code: 'custom',
    message: `must be one or more of ${FORMAT_NAMES.join(', ')}, with commas`,
  })
  return z.NEVER
})

export const remoteLakeShape = {
  LAKE_URL: place.optional(),
  LAKE_FORMATS: formats.prefault('iceberg'),
  S3_ENDPOINT: endpoint.optional(),
  S3_REGION: z
    .string()
    .regex(/^[a-z0-9-]+$/, 'must be a region such as sa-east-1')
    .default('us-east-1'),
  S3_PATH_STYLE: z.enum(['on', 'off']).optional(),
  S3_ACCESS_KEY_ID_FILE: z.string().optional(),
  S3_SECRET_ACCESS_KEY_FILE: z.string().optional(),
  ...catalogShape,
}

type Values = z.output<z.ZodObject<typeof remoteLakeShape>>

/**
 * Null if the lake stays on this machine alone.
 * @throws FatalError (usage) if the settings do not fit together.
 */
export function remoteLakeSettings(
  values: Values,
  given: Pick<RemoteLakeSettings, 'keepMs' | 'intervalMs'> & { readonly company: string },
): RemoteLakeSettings | null {
  const { LAKE_URL: at, S3_ACCESS_KEY_ID_FILE: id, S3_SECRET_ACCESS_KEY_FILE: secret } = values
  if (at === undefined) return null
  if ((id === undefined) !== (secret === undefined))
    throw new FatalError(
      'S3_ACCESS_KEY_ID_FILE and S3_SECRET_ACCESS_KEY_FILE belong together. Set both.',
      EXIT.usage,
    )
  const { S3_ENDPOINT: url = null, S3_PATH_STYLE: style = url === null ? 'off' : 'on' } = values
  const { company, ...times } = given
  return {
    ...at,
    region: values.S3_REGION,
    endpoint: url,
    pathStyle: style === 'on',
    formats: values.LAKE_FORMATS,
    catalog: values.LAKE_FORMATS.includes('iceberg') ? catalogSettings(values, company) : null,
    ...times,
    retryMs: REMOTE_RETRY_MS,
    keyFiles: id && secret ? { id: resolve(id), secret: resolve(secret) } : null,
  }
}
