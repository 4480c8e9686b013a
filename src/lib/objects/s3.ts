import { createHash } from 'node:crypto'
import { open } from 'node:fs/promises'
import { Readable, Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { GetObjectCommandOutput, S3Client } from '@aws-sdk/client-s3'
import pRetry, { AbortError } from 'p-retry'
import { openNewStream } from '#src/lib/durable.ts'
import { EXIT, FatalError, findSystemCode, getMessage } from '#src/lib/errors.ts'
import type { FileDigest } from '#src/lib/hash.ts'
import { checkKey, readSecretFile } from '#src/lib/http/credentials.ts'
import {
  ForeignObject,
  type Listed,
  type LocalFile,
  type ObjectStore,
  RemoteError,
  type S3Settings,
  s3Root,
  tooLarge,
  type WriteCondition,
} from './objects.ts'
import { type Attempt, limitBody, Patience, type PatienceOptions } from './patience.ts'

const RETRIES = 5
const TIMEOUT_MS = 30_000
/** Maximum size of any answer but an object's content: a page of a list has a thousand keys of at most a kilobyte. */
const MAX_ANSWER_BYTES = 8 * 1024 * 1024
/** A store that never ends a list must not fill the memory. A year's log has 26,000 objects. */
const MAX_LISTED = 1_000_000
/** Without this limit, a store that hangs would hold the publish, and its slot. */
const MAX_TIMEOUTS = 2
/** Drops the SDK's warnings about single attempts: what fails in the end is an error. */
const SILENT = { trace() {}, debug() {}, info() {}, warn() {}, error() {} }
const REMOVED_AT_ONCE = 1000
/** The name of an uploaded file's hash in the object's own metadata. */
const HASH = 'sha256'

type S3Options = PatienceOptions & {
  /** Called with each answer: how far the store's clock is ahead of ours, in ms, to the second. */
  readonly onDate?: (aheadMs: number) => void
}

/**
 * Opens an object store. Each request has a bound on the bytes of its answer, and on its time.
 * @throws RemoteError if the keys cannot be read.
 */
export async function openS3(settings: S3Settings, options: S3Options = {}): Promise<ObjectStore> {
  // Loaded only here: 40 MB of memory that a sync without a remote lake does not need.
  const sdk = await import('@aws-sdk/client-s3')
  const client = await createClient(sdk, settings)
  if (options.onDate) watchClock(client, options.onDate)
  const patience = new Patience(options)
  const { bucket, prefix } = settings
  const prefixKey = (key: string) => (prefix === '' ? key : `${prefix}/${key}`)
  const at = (key: string) => ({ Bucket: bucket, Key: prefixKey(key) })
  const root = s3Root(settings)
  const asking = <T>(what: string, ask: (attempt: Attempt) => Promise<T>, writes: number | null = null) =>
    persistently({ settings, patience }, what, writes, ask)
  /** @param use reads the content. */
  const read = <T>(key: string, mostBytes: number, use: (found: Found) => Promise<T>) =>
    asking(`read ${root}/${key}`, async attempt => {
      const command = new sdk.GetObjectCommand(at(key))
      bound(command, attempt, mostBytes, `${root}/${key}`)
      const answeredAt = listenForDate(command)
      const found = await unlessMissing(client.send(command, { abortSignal: attempt.signal }))
      return found?.Body ? await use({ ...found, Body: found.Body as Readable, answeredAt }) : null
    })
  return {
    ...{ root, patience },
    get: (key, mostBytes) =>
      read(key, mostBytes, async ({ Body, LastModified: modified, ETag, Metadata, answeredAt }) => {
        const bytes = Buffer.concat(await Array.fromAsync(Body as AsyncIterable<Buffer>))
        const ageMs = modified ? answeredAt() - modified.getTime() : null
        return { bytes, ageMs, tag: unquoteTag(ETag), sha256: hashIn(Metadata) }
      }),
    copy: (key, path, mostBytes) =>
      read(key, mostBytes, async ({ Body, Metadata }) => ({
        ...(await writeTo(path, Body)),
        uploadedAs: hashIn(Metadata),
      })),
    head: key =>
      asking(`look at ${root}/${key}`, async ({ signal }) => {
        const found = await unlessMissing(
          client.send(new sdk.HeadObjectCommand(at(key)), { abortSignal: signal }),
        )
        return found && { tag: unquoteTag(found.ETag), sha256: hashIn(found.Metadata) }
      }),
    put: (key, body, condition) => {
      const put = (attempt: Attempt) =>
        unlessRefused(async () => {
          const input = { ...at(key), Body: body, ContentLength: body.length, ...makeHeaders(condition) }
          const command = bound(new sdk.PutObjectCommand(input), attempt)
          return unquoteTag((await client.send(command, { abortSignal: attempt.signal })).ETag)
        })
      return asking(`write ${root}/${key}`, put, body.length)
    },
    upload: (key, file) =>
      asking(
        `write ${root}/${key}`,
        attempt => uploadFile(file, { sdk, client, place: at(key), attempt }),
        file.bytes,
      ),
    list: (below, after) => listed(below, after, { sdk, client, settings, patience, prefixKey }),
    remove: async keys => {
      for (let from = 0; from < keys.length; from += REMOVED_AT_ONCE) {
        const some = keys.slice(from, from + REMOVED_AT_ONCE).map(key => ({ Key: prefixKey(key) }))
        const remove = async (attempt: Attempt) => {
          const input = { Bucket: bucket, Delete: { Objects: some, Quiet: true } }
          const command = bound(new sdk.DeleteObjectsCommand(input), attempt)
          const { Errors = [] } = await client.send(command, { abortSignal: attempt.signal })
          if (Errors[0]) throw new AbortError(`${Errors[0].Key}: ${Errors[0].Message ?? Errors[0].Code}`)
        }
        await asking(`remove objects of ${root}`, remove, 0)
      }
    },
    close() {
      patience.close()
      client.destroy()
    },
  }
}

/** An object whose content has not been read yet. */
type Found = Omit<GetObjectCommandOutput, 'Body'> & {
  readonly Body: Readable
  /** When the store answered. */
  readonly answeredAt: () => number
}

async function unlessMissing<T>(sent: Promise<T>): Promise<T | null> {
  return await sent.catch(error => {
    if (readStatusCode(error) === 404) return null
    throw error
  })
}

/** Writes a new file, in pieces; null writes nothing. */
async function writeTo(path: string | null, content: Readable): Promise<FileDigest> {
  const digest = createHash('sha256')
  let bytes = 0
  const measure = new Transform({
    transform(chunk: Buffer, _, done) {
      digest.update(chunk)
      bytes += chunk.length
      done(null, chunk)
    },
  })
  if (path === null) await pipeline(content, measure.resume())
  else await pipeline(content, measure, openNewStream(path))
  return { bytes, sha256: digest.digest('hex') }
}

type Sdk = typeof import('@aws-sdk/client-s3')

const KEY_NAMES = ['aws_access_key_id', 'aws_secret_access_key', 'aws_session_token'] as const

/** Reads the keys of the profile `default` in the form of `~/.aws/credentials`, and nothing else of it. @throws RemoteError */
function readCredentials(path: string) {
  const origin = `S3_CREDENTIALS_FILE (${path})`
  try {
    const profiles = readSecretFile(path, origin).split(/^\[/m)
    const lines = profiles.find(profile => profile.startsWith('default]'))?.split('\n') ?? []
    const values = new Map(
      lines.map(line => [line.split('=')[0]?.trim(), line.replace(/^[^=]*=/, '').trim()]),
    )
    const [accessKeyId = '', secretAccessKey = '', sessionToken] = KEY_NAMES.map(name => values.get(name))
    if (accessKeyId === '' || secretAccessKey === '')
      throw new FatalError(
        `${origin} must have a line [default], then ${KEY_NAMES[0]} = … and ${KEY_NAMES[1]} = …`,
      )
    for (const key of [accessKeyId, secretAccessKey, sessionToken ?? '-']) checkKey(key, origin)
    return { accessKeyId, secretAccessKey, ...(sessionToken ? { sessionToken } : {}) }
  } catch (error) {
    throw new RemoteError(getMessage(error))
  }
}

async function createClient(sdk: Sdk, { region, endpoint, credentialsFile }: S3Settings): Promise<S3Client> {
  const keys = credentialsFile === null ? {} : { credentials: readCredentials(credentialsFile) }
  return new sdk.S3Client({
    region,
    // At any other address, a name for each bucket may not exist.
    forcePathStyle: endpoint !== null,
    ...(endpoint ? { endpoint } : {}),
    ...keys,
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

/** A command of the SDK, whatever it returns. */
type AnyCommand = {
  readonly middlewareStack: {
    add(
      middleware: (next: (args: never) => Promise<{ response: unknown }>) => (args: never) => Promise<never>,
      options: { readonly step: 'deserialize'; readonly priority: 'low' },
    ): void
  }
}

/**
 * Bounds the answer before the SDK reads it.
 * @param address of the object that is read, if its content is the answer.
 */
function bound<C>(command: C, attempt: Attempt, mostBytes = MAX_ANSWER_BYTES, address?: string): C {
  const { middlewareStack } = command as AnyCommand
  middlewareStack.add(
    next => async args => {
      const result = await next(args)
      const response = result.response as {
        statusCode: number
        headers: Record<string, string>
        body?: unknown
      }
      const isContent = address !== undefined && response.statusCode < 300
      const most = isContent ? mostBytes : MAX_ANSWER_BYTES
      const tooMany = () => (isContent ? tooLarge(address, most) : new AbortError('its answer never ends'))
      const { body } = response
      if (body instanceof Readable) {
        response.body = limitBody(body, isContent ? attempt : withoutTime(attempt), most, tooMany)
        if (isContent && Number(response.headers['content-length'] ?? 0) > most) {
          body.destroy()
          throw tooMany()
        }
      }
      return result as never
    },
    { step: 'deserialize', priority: 'low' },
  )
  return command
}

/** Returns an attempt that bytes do not prolong: what a store answers, other than an object's content, is short. */
function withoutTime({ signal }: Attempt): Attempt {
  return { signal, moved() {} }
}

/** Returns when the store answered, by its own clock; by ours if it does not say. */
function listenForDate(command: InstanceType<Sdk['GetObjectCommand']>): () => number {
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

function watchClock(client: S3Client, onDate: (aheadMs: number) => void): void {
  client.middlewareStack.add(
    next => async args => {
      const result = await next(args)
      const { headers = {} } = result.response as { headers?: Record<string, string> }
      const date = Date.parse(headers.date ?? '')
      if (!Number.isNaN(date)) onDate(date - Date.now())
      return result
    },
    { step: 'deserialize', priority: 'low' },
  )
}

type Place = { readonly Bucket: string; readonly Key: string }

/** Uploads a file. @returns false if the object was there already. */
async function uploadFile(
  { path, bytes, sha256 }: LocalFile,
  about: { sdk: Sdk; client: S3Client; place: Place; attempt: Attempt },
): Promise<boolean> {
  const { sdk, client, place, attempt } = about
  // Opened first: a stream that fails to open before it is read would end the process.
  const file = await open(path)
  const content = file.createReadStream()
  const body = limitBody(content, attempt, bytes, () => new AbortError(`${path} has grown meanwhile`))
  const headers = { ContentLength: bytes, Metadata: { [HASH]: sha256 }, IfNoneMatch: '*' }
  const command = bound(new sdk.PutObjectCommand({ ...place, Body: body, ...headers }), attempt)
  const options = { abortSignal: attempt.signal }
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
    return (await unlessRefused(async () => unquoteTag((await client.send(command, options)).ETag))) !== null
  } catch (error) {
    // Some stores refuse an existing object at once, and close the connection while the file is still being sent:
    // then the refusal is lost. The key has the file's hash.
    if (readStatusCode(error) !== null || !(await isThere())) throw error
    return false
  } finally {
    body.destroy()
    content.destroy()
    await file.close().catch(() => {})
  }

  async function isThere(): Promise<boolean> {
    const found = await client.send(new sdk.HeadObjectCommand(place), options).catch(() => null)
    return found?.ContentLength === bytes
  }
}

async function* listed(
  below: string,
  after: string | undefined,
  from: {
    sdk: Sdk
    client: S3Client
    settings: S3Settings
    patience: Patience
    prefixKey: (key: string) => string
  },
): AsyncGenerator<Listed> {
  const { sdk, client, settings, prefixKey } = from
  const prefix = prefixKey(below)
  const place = `s3://${settings.bucket}/${prefix}`
  const skip = prefixKey('').length
  let token: string | undefined
  let count = 0
  do {
    const page = await persistently(from, `list ${place}`, null, attempt => {
      const input = {
        ...{ Bucket: settings.bucket, Prefix: prefix },
        ...(token ? { ContinuationToken: token } : {}),
        ...(after && !token ? { StartAfter: prefixKey(after) } : {}),
      }
      const command = bound(new sdk.ListObjectsV2Command(input), attempt)
      return client.send(command, { abortSignal: attempt.signal })
    })
    const { Contents = [] } = page
    // An empty page counts, too: there may be no end of them.
    count += Math.max(1, Contents.length)
    if (count > MAX_LISTED) throw new ForeignObject(place, `has more than ${MAX_LISTED} objects`)
    for (const { Key = '', Size = 0, LastModified = new Date(0) } of Contents) {
      if (!Key.startsWith(prefix)) throw new ForeignObject(place, 'is listed with objects of other places')
      yield { key: Key.slice(skip), bytes: Size, modified: LastModified }
    }
    token = page.IsTruncated ? page.NextContinuationToken : undefined
  } while (token)
}

function makeHeaders(condition: WriteCondition | undefined) {
  if (!condition) return {}
  return 'absent' in condition ? { IfNoneMatch: '*' } : { IfMatch: condition.tag }
}

/** Returns null if a condition does not hold. */
async function unlessRefused<T>(write: () => Promise<T>): Promise<T | null> {
  return await write().catch(error => {
    if (readStatusCode(error) === 412) return null
    throw error
  })
}

/**
 * Retries what may be temporary: lost connections, 409 (another conditional write is under way), 429 and 5xx. And what was
 * signed with a wrong clock: the SDK takes the store's from the refusal.
 */
async function persistently<T>(
  { settings, patience }: { readonly settings: S3Settings; readonly patience: Patience },
  what: string,
  writes: number | null,
  ask: (attempt: Attempt) => Promise<T>,
): Promise<T> {
  let timeouts = 0
  try {
    return await pRetry(() => patience.attempt(writes, ask), {
      signal: patience.ended,
      retries: RETRIES,
      minTimeout: settings.retryMs,
      randomize: true,
      shouldRetry: ({ error }) => {
        if (error instanceof FatalError) return false
        const status = readStatusCode(error)
        if (error.name === 'TimeoutError') timeouts += 1
        if (timeouts >= MAX_TIMEOUTS || findSystemCode(error) === 'ENOENT') return false
        if (isClockCorrected(error)) return true
        return status === null || status === 409 || status === 429 || status >= 500
      },
    })
  } catch (error) {
    const cause = error instanceof AbortError ? error.originalError : error
    if (cause instanceof FatalError) throw cause
    throw new RemoteError(`${nameStore(settings)} did not ${what}: ${explainReason(cause)}`, EXIT.failed, {
      cause,
    })
  }
}

function nameStore({ endpoint }: S3Settings): string {
  return endpoint === null ? 'Amazon S3' : `The object store at ${new URL(endpoint).origin}`
}

function explainReason(error: unknown): string {
  const { name } = error as { name?: string }
  const status = readStatusCode(error)
  const text = getMessage(error).replace(/\.$/, '')
  if (name === 'RequestTimeTooSkewed') return "this machine's clock is not the store's: correct the clock."
  if (status === 403)
    return `${name ?? '403'}. Check the keys, and their rights to read, write, list and delete.`
  if (name === 'NoSuchBucket') return 'there is no such bucket. Create it, or correct LAKE_URL or LOG_URL.'
  if (name === 'CredentialsProviderError') return 'no credentials were found. Set S3_CREDENTIALS_FILE.'
  return status === null ? `${text}.` : `it answered ${status} (${name}): ${text}.`
}

/** Returns whether the SDK now signs with a time that differs by minutes from the one that this request was signed with. */
function isClockCorrected(error: unknown): boolean {
  const { $metadata } = error as { $metadata?: { clockSkewCorrected?: boolean } }
  return $metadata?.clockSkewCorrected === true
}

function readStatusCode(error: unknown): number | null {
  const { $metadata } = error as { $metadata?: { httpStatusCode?: number } }
  return $metadata?.httpStatusCode ?? null
}

function hashIn(metadata: Record<string, string> | undefined): string | null {
  const hash = metadata?.[HASH] ?? ''
  return /^[0-9a-f]{64}$/.test(hash) ? hash : null
}

function unquoteTag(tag: string | undefined): string {
  if (!tag) throw new AbortError('it returned no ETag, which conditional writes need')
  return tag
}
