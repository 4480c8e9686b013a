import { isUtf8 } from 'node:buffer'
import { z } from 'zod'
import { formatCount } from '#src/lib/count.ts'
import { FatalError, getMessage } from '#src/lib/errors.ts'
import type { FileDigest } from '#src/lib/hash.ts'
import { checkKey, readSecretFile } from '#src/lib/http/credentials.ts'
import { haveSameMeaning, nestsDeeperThan } from '#src/lib/json.ts'
import type { Patience } from './patience.ts'

/** An object store, as a remote lake needs it: strongly consistent, with conditional writes. */

export type StoredObject = {
  readonly bytes: Buffer
  readonly tag: string
  /** How long ago it was written, by the store's clock, in whole seconds; null if the store does not say. */
  readonly ageMs: number | null
  /** Hash of its content when it was uploaded; null if it was not uploaded as a file. */
  readonly sha256: string | null
}
export type Listed = { readonly key: string; readonly bytes: number; readonly modified: Date }

/** `absent`: only if there is no such object yet; a tag: only if the object is still that version. */
export type WriteCondition = { readonly absent: true } | { readonly tag: string }

/** A file to upload, whose hash the store checks. */
export type LocalFile = { readonly path: string; readonly bytes: number; readonly sha256: string }

/** Errors are RemoteErrors: what failed, at which store, and what to do. Keys are relative to the root. */
export type ObjectStore = {
  /** `s3://bucket/prefix`, without a slash at the end: what table formats write before a key. */
  readonly root: string
  /** Of its requests, and of those to a catalog that belong to the same work. */
  readonly patience: Patience
  /**
   * Reads an object; null if there is none.
   * @param mostBytes that an object of its kind can have.
   * @throws ForeignObject if it has more.
   */
  get(key: string, mostBytes: number): Promise<StoredObject | null>
  /**
   * Reads an object in pieces, into a new file.
   * @param path null to find out only what it is.
   * @returns what came, and the hash that it was uploaded with; null if there is no such object.
   * @throws ForeignObject if it has more bytes.
   */
  copy(
    key: string,
    path: string | null,
    mostBytes: number,
  ): Promise<(FileDigest & { readonly uploadedAs: string | null }) | null>
  /** Writes an object. @returns the new version's tag; null if the condition does not hold. */
  put(key: string, body: Buffer, condition?: WriteCondition): Promise<string | null>
  /** Reads what is known of an object without its content; null if it does not exist. */
  head(key: string): Promise<Pick<StoredObject, 'tag' | 'sha256'> | null>
  /** Uploads a file. @returns false if the object was there already. */
  upload(key: string, file: LocalFile): Promise<boolean>
  /** Lists objects in the order of their keys. @param after only keys behind this one. */
  list(prefix: string, after?: string): AsyncIterable<Listed>
  remove(keys: readonly string[]): Promise<void>
  close(): void
}

/** A publish cannot continue because of the store or its contents. The local lake is not affected. */
export class RemoteError extends FatalError {}

/** Reads a key from the file that a setting names, again for each use. @throws RemoteError */
export function readKeyFile(setting: string, path: string): string {
  const origin = `${setting} (${path})`
  try {
    const key = readSecretFile(path, origin)
    if (key === '') throw new FatalError(`${origin} is empty.`)
    checkKey(key, origin)
    return key
  } catch (error) {
    throw new RemoteError(getMessage(error))
  }
}

/** An object that this program never writes: another program did, so nothing of it is used. */
export class ForeignObject extends RemoteError {
  /** @param address with the company in it. @param what completes a sentence that begins with the address. */
  constructor(
    address: string,
    what: string,
    mend = 'Restore it from a version or a backup of the bucket, and check who can write there',
  ) {
    super(`${address} ${what}: another program wrote it, or it is damaged. It was not used. ${mend}.`)
  }
}

/** Makes the error for an object with more bytes than one of its kind can have. @param address of the object. */
export function tooLarge(address: string, mostBytes: number): ForeignObject {
  return new ForeignObject(address, `has more than ${formatCount(mostBytes)} bytes`)
}

/**
 * Creates an object that only one writer may create.
 * @returns false if it is there with other content. A lost answer to our own request does not count as other content.
 */
export async function create(store: ObjectStore, key: string, body: Buffer): Promise<boolean> {
  if ((await store.put(key, body, { absent: true })) !== null) return true
  return (await tagIfContent(store, key, body)) !== null
}

/** Returns the tag of an object if it has exactly this content; otherwise null. */
export async function tagIfContent(store: ObjectStore, key: string, body: Buffer): Promise<string | null> {
  const found = await store.get(key, body.length).catch(error => {
    if (error instanceof ForeignObject) return null
    throw error
  })
  return found?.bytes.equals(body) ? found.tag : null
}

/** A place in an object store, and how to reach it. */
export type S3Settings = {
  readonly bucket: string
  /** Without slashes at its ends; '' for the whole bucket. */
  readonly prefix: string
  readonly region: string
  /** Null for Amazon's own. */
  readonly endpoint: string | null
  /**
   * In the form of `~/.aws/credentials`; read for each use, so that new keys need no restart. Null for the SDK's own chain of
   * credentials.
   */
  readonly credentialsFile: string | null
  /** The first retry of a request comes after this, or up to twice as long. */
  readonly retryMs: number
}

/** Returns the address of a prefix in a bucket, without a slash at the end. */
export function s3Root({ bucket, prefix }: Pick<S3Settings, 'bucket' | 'prefix'>): string {
  return `s3://${[bucket, prefix].filter(Boolean).join('/')}`
}

/** Maximum depth; what we write nests less. */
const MAX_DEPTH = 32

/** The description of a kind of object. */
export type JsonKind<T> = {
  /** Completes "is no …". */
  readonly name: string
  readonly mostBytes: number
  readonly shape: z.ZodType<T>
  /** The remedy for an object of another kind; a sentence without its full stop. */
  readonly mend?: string
}

/** In names of tables and files: it cannot lead out of a directory, or to another company. */
export const PLAIN_NAME = /^[a-z][a-z0-9_]{0,99}$/
/** The name of a snapshot of the lake. */
export const SNAPSHOT_NAME = z.string().regex(/^\d{8}T\d{6}Z-\d{6,15}$/)
export const SHA256 = z.string().regex(/^[0-9a-f]{64}$/)
/** A number of bytes, rows or versions. */
export const COUNT = z.number().int().nonnegative()

/**
 * Returns the value of a JSON object that this program wrote, or null if there is no such object.
 * @throws ForeignObject if it is anything else: too large, no JSON, with a key twice, or of another shape.
 */
export async function readJson<T>(
  store: ObjectStore,
  key: string,
  kind: JsonKind<T>,
): Promise<{ readonly value: T; readonly found: StoredObject } | null> {
  const found = await store.get(key, kind.mostBytes)
  return found && { found, value: parseJsonObject(found.bytes, kind, `${store.root}/${key}`) }
}

/**
 * Reads a JSON object that this program wrote. @param address of the object, for the message.
 * @throws ForeignObject if it is anything else, as in `readJson`.
 */
export function parseJsonObject<T>(bytes: Buffer, { name, shape, mend }: JsonKind<T>, address: string): T {
  const foreign = (why: string) => new ForeignObject(address, `is no ${name} (${why})`, mend)
  if (!isUtf8(bytes)) throw foreign('not UTF-8')
  const text = bytes.toString('utf8')
  if (nestsDeeperThan(text, MAX_DEPTH)) throw foreign('nested too deeply')
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw foreign('not JSON')
  }
  // Otherwise two programs could read two different things: a key twice, or digits that a number cannot hold.
  if (!haveSameMeaning(text, JSON.stringify(value)))
    throw foreign('a key twice, or a number that is too long')
  const parsed = shape.safeParse(value)
  if (parsed.success) return parsed.data
  throw foreign(whyNot(parsed.error))
}

/** Names the first property that is wrong; its name and value may be of any length. */
function whyNot({ issues: [issue] }: z.ZodError): string {
  const place = issue?.path.map(String).join('.') ?? ''
  return place === '' ? 'another shape' : `wrong: ${place.slice(0, 100).replace(/[^\w.-]/g, '?')}`
}
