import { resolve } from 'node:path'
import { z } from 'zod'
import type { S3Settings } from '#src/lib/objects/objects.ts'
import { REMOTE_RETRY_MS } from './iceberg_catalog.ts'

/** Settings of an object store, as written. */

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

export const s3Shape = {
  S3_ENDPOINT: endpoint.optional(),
  S3_REGION: z
    .string()
    .regex(/^[a-z0-9-]+$/, 'must be a region such as sa-east-1')
    .default('us-east-1'),
  S3_CREDENTIALS_FILE: z.string().optional(),
}

/** Reads the settings of an object store. */
export function s3Settings(
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
