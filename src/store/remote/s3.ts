import { open, readFile } from 'node:fs/promises'
import type { S3Client } from '@aws-sdk/client-s3'
import pRetry, { AbortError } from 'p-retry'
import { type S3Settings, s3Root } from '#config/s3.ts'
import { EXIT, messageOf, systemCode } from '#src/platform/errors.ts'
import { decodeText } from '#src/platform/text_file.ts'
import { type Condition, type Listed, type LocalFile, type ObjectStore, RemoteError } from './objects.ts'

const RETRIES = 5
const TIMEOUT_MS = 30_000
/** Without this limit, a store that hangs would hold the publish, and its slot. */
const MAX_TIMEOUTS = 2
/** Drops the SDK's warnings about single attempts: what fails in the end is an error. */
const SILENT = { trace() {}, debug() {}, info() {}, warn() {}, error() {} }
const REMOVED_AT_ONCE = 1000
/** The name of an uploaded file's hash in the object's own metadata. */
const HASH = 'sha256'

/** @throws RemoteError if the keys cannot be read. */
export async function openS3(settings: S3Settings): Promise<ObjectStore> {
  // Loaded only here: 40 MB of memory that a sync without a remote lake does not need.
  const sdk = await import('@aws-sdk/client-s3')
  const client = await clientOf(sdk, settings)
  const { bucket, prefix } = settings
  const keyOf = (key: string) => (prefix === '' ? key : `${prefix}/${key}`)
  const at = (key: string) => ({ Bucket: bucket, Key: keyOf(key) })
  const root = s3Root(settings)
  const asking = <T>(what: string, ask: () => Promise<T>) => persistently(settings, what, ask)
  return {
    root,
    get: key =>
      asking(`read ${root}/${key}`, async () => {
        const command = new sdk.GetObjectCommand(at(key))
        const answeredAt = dateOf(command)
        const found = await client.send(command).catch(error => {
          if (statusOf(error) === 404) return null
          throw error
        })
        if (!found?.Body) return null
        const bytes = Buffer.from(await found.Body.transformToByteArray())
        const { LastModified: modified } = found
        const ageMs = modified ? answeredAt() - modified.getTime() : null
        return { bytes, ageMs, tag: tagOf(found.ETag), sha256: hashIn(found.Metadata) }
      }),
    head: key =>
      asking(`look at ${root}/${key}`, async () => {
        const found = await client.send(new sdk.HeadObjectCommand(at(key))).catch(error => {
          if (statusOf(error) === 404) return null
          throw error
        })
        return found && { tag: tagOf(found.ETag), sha256: hashIn(found.Metadata) }
      }),
    put: (key, body, condition) =>
      asking(`write ${root}/${key}`, () =>
        unlessRefused(async () => {
          const input = { ...at(key), Body: body, ContentLength: body.length, ...headersOf(condition) }
          return tagOf((await client.send(new sdk.PutObjectCommand(input))).ETag)
        }),
      ),
    upload: (key, file) =>
      asking(`write ${root}/${key}`, () => uploadFile(file, { sdk, client, place: at(key) })),
    list: (below, after) => listed(below, after, { sdk, client, settings, keyOf }),
    remove: async keys => {
      for (let from = 0; from < keys.length; from += REMOVED_AT_ONCE) {
        const some = keys.slice(from, from + REMOVED_AT_ONCE).map(key => ({ Key: keyOf(key) }))
        await asking(`remove objects of ${root}`, async () => {
          const input = { Bucket: bucket, Delete: { Objects: some, Quiet: true } }
          const { Errors = [] } = await client.send(new sdk.DeleteObjectsCommand(input))
          if (Errors[0]) throw new AbortError(`${Errors[0].Key}: ${Errors[0].Message ?? Errors[0].Code}`)
        })
      }
    },
    close: () => client.destroy(),
  }
}

type Sdk = typeof import('@aws-sdk/client-s3')

async function clientOf(sdk: Sdk, { region, endpoint, pathStyle, keyFiles }: S3Settings): Promise<S3Client> {
  const keys = keyFiles && {
    accessKeyId: await keyIn('S3_ACCESS_KEY_ID_FILE', keyFiles.id),
    secretAccessKey: await keyIn('S3_SECRET_ACCESS_KEY_FILE', keyFiles.secret),
  }
  return new sdk.S3Client({
    region,
    forcePathStyle: pathStyle,
    ...(endpoint ? { endpoint } : {}),
    ...(keys ? { credentials: keys } : {}),
    // Stores other than Amazon's do not support the SDK's own checksums.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    // Retried here, because a stream must be opened again.
    maxAttempts: 1,
    logger: SILENT,
    // Of silence, in the middle of a body, too: a large one may take longer than that.
    requestHandler: { socketTimeout: TIMEOUT_MS, connectionTimeout: 10_000 },
  })
}

async function keyIn(setting: string, path: string): Promise<string> {
  const text = await readFile(path)
    .then(decodeText)
    .catch(error => {
      throw new RemoteError(`${setting}: ${path} cannot be read (${systemCode(error) ?? messageOf(error)}).`)
    })
  if (text.trim() === '') throw new RemoteError(`${setting}: ${path} is empty.`)
  return text.trim()
}

/** When the store answered, by its own clock; by ours if it does not say. */
function dateOf(command: InstanceType<Sdk['GetObjectCommand']>): () => number {
  let date = Number.NaN
  command.middlewareStack.add(
    next => async args => {
      const result = await next(args)
      const { headers = {} } = result.response as { headers?: Record<string, string> }
      date = Date.parse(headers.date ?? '')
      return result
    },
    { step: 'deserialize', priority: 'low' },
  )
  return () => (Number.isNaN(date) ? Date.now() : date)
}

type Place = { readonly Bucket: string; readonly Key: string }

/** @returns false if the object was there already. */
async function uploadFile(
  { path, bytes, sha256 }: LocalFile,
  { sdk, client, place }: { sdk: Sdk; client: S3Client; place: Place },
): Promise<boolean> {
  // Opened first: a stream that fails to open before it is read would end the process.
  const file = await open(path)
  const body = file.createReadStream()
  const about = { ContentLength: bytes, Metadata: { [HASH]: sha256 } }
  const command = new sdk.PutObjectCommand({ ...place, Body: body, ...about, IfNoneMatch: '*' })
  // The store compares it with what arrives. Otherwise the SDK would load the whole file to sign it.
  command.middlewareStack.add(
    next => args => {
      const { headers } = args.request as { headers: Record<string, string> }
      headers['x-amz-content-sha256'] = sha256
      return next(args)
    },
    { step: 'build' },
  )
  try {
    return (await unlessRefused(async () => tagOf((await client.send(command)).ETag))) !== null
  } catch (error) {
    // Some stores refuse an existing object at once, and close the connection while the file is still being sent:
    // then the refusal is lost. The key has the file's hash.
    if (statusOf(error) !== null || !(await isThere())) throw error
    return false
  } finally {
    body.destroy()
    await file.close().catch(() => {})
  }

  async function isThere(): Promise<boolean> {
    const found = await client.send(new sdk.HeadObjectCommand(place)).catch(() => null)
    return found?.ContentLength === bytes
  }
}

async function* listed(
  below: string,
  after: string | undefined,
  from: { sdk: Sdk; client: S3Client; settings: S3Settings; keyOf: (key: string) => string },
): AsyncGenerator<Listed> {
  const { sdk, client, settings, keyOf } = from
  const skip = keyOf('').length
  let token: string | undefined
  do {
    const page = await persistently(settings, `list s3://${settings.bucket}/${keyOf(below)}`, () =>
      client.send(
        new sdk.ListObjectsV2Command({
          Bucket: settings.bucket,
          Prefix: keyOf(below),
          ...(token ? { ContinuationToken: token } : {}),
          ...(after && !token ? { StartAfter: keyOf(after) } : {}),
        }),
      ),
    )
    for (const { Key = '', Size = 0, LastModified = new Date(0) } of page.Contents ?? [])
      yield { key: Key.slice(skip), bytes: Size, modified: LastModified }
    token = page.IsTruncated ? page.NextContinuationToken : undefined
  } while (token)
}

function headersOf(condition: Condition | undefined) {
  if (!condition) return {}
  return 'absent' in condition ? { IfNoneMatch: '*' } : { IfMatch: condition.tag }
}

/** Null if a condition does not hold. */
async function unlessRefused<T>(write: () => Promise<T>): Promise<T | null> {
  return await write().catch(error => {
    if (statusOf(error) === 412) return null
    throw error
  })
}

/**
 * Retries what may be temporary: lost connections, 409 (another conditional write is under way), 429 and 5xx. And what was
 * signed with a wrong clock: the SDK takes the store's from the refusal.
 */
async function persistently<T>(settings: S3Settings, what: string, ask: () => Promise<T>): Promise<T> {
  let timeouts = 0
  try {
    return await pRetry(ask, {
      retries: RETRIES,
      minTimeout: settings.retryMs,
      randomize: true,
      shouldRetry: ({ error }) => {
        const status = statusOf(error)
        if (error.name === 'TimeoutError') timeouts += 1
        if (timeouts >= MAX_TIMEOUTS || systemCode(error) === 'ENOENT') return false
        if (isClockCorrected(error)) return true
        return status === null || status === 409 || status === 429 || status >= 500
      },
    })
  } catch (error) {
    const cause = error instanceof AbortError ? error.originalError : error
    throw new RemoteError(`${storeOf(settings)} did not ${what}: ${reasonOf(cause)}`, EXIT.failed, { cause })
  }
}

function storeOf({ endpoint }: S3Settings): string {
  return endpoint === null ? 'Amazon S3' : `The object store at ${new URL(endpoint).origin}`
}

function reasonOf(error: unknown): string {
  const { name } = error as { name?: string }
  const status = statusOf(error)
  const text = messageOf(error).replace(/\.$/, '')
  if (name === 'RequestTimeTooSkewed') return "this machine's clock is not the store's: correct the clock."
  if (status === 403)
    return `${name ?? '403'}. Check the keys, and their rights to read, write, list and delete.`
  if (name === 'NoSuchBucket') return 'there is no such bucket. Create it, or correct LAKE_URL or LOG_URL.'
  if (name === 'CredentialsProviderError')
    return 'no credentials were found. Set S3_ACCESS_KEY_ID_FILE and S3_SECRET_ACCESS_KEY_FILE.'
  return status === null ? `${text}.` : `it answered ${status} (${name}): ${text}.`
}

/** Whether the SDK now signs with a time that differs by minutes from the one that this request was signed with. */
function isClockCorrected(error: unknown): boolean {
  const { $metadata } = error as { $metadata?: { clockSkewCorrected?: boolean } }
  return $metadata?.clockSkewCorrected === true
}

function statusOf(error: unknown): number | null {
  const { $metadata } = error as { $metadata?: { httpStatusCode?: number } }
  return $metadata?.httpStatusCode ?? null
}

function hashIn(metadata: Record<string, string> | undefined): string | null {
  return metadata?.[HASH] ?? null
}

function tagOf(tag: string | undefined): string {
  if (!tag) throw new AbortError('it returned no ETag, which conditional writes need')
  return tag
}
