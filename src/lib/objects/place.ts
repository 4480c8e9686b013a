/** A place in an object store, and how to reach it. */
export type S3Settings = {
  readonly bucket: string
  /** Without slashes at its ends; '' for the whole bucket. */
  readonly prefix: string
  readonly region: string
  /** Null for Amazon's own. */
  readonly endpoint: string | null
  /** Whether the bucket is in the path, not in the host's name. */
  readonly pathStyle: boolean
  /** Read for each use, so that new keys need no restart. Null for the SDK's own chain of credentials. */
  readonly keyFiles: { readonly id: string; readonly secret: string } | null
  /** The first retry of a request comes after this, or up to twice as long. */
  readonly retryMs: number
}

/** Returns the address of a prefix in a bucket, without a slash at the end. */
export function s3Root({ bucket, prefix }: Pick<S3Settings, 'bucket' | 'prefix'>): string {
  return `s3://${[bucket, prefix].filter(Boolean).join('/')}`
}
