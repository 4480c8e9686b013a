import { isUtf8 } from 'node:buffer'
import { z } from 'zod'
import { nestsDeeperThan, sameMeaning } from '#src/lib/json.ts'
import { ForeignObject, type ObjectStore, type StoredObject } from './objects.ts'

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
  return found && { found, value: jsonIn(found.bytes, kind, `${store.root}/${key}`) }
}

/**
 * Reads a JSON object that this program wrote. @param address of the object, for the message.
 * @throws ForeignObject if it is anything else, as in `readJson`.
 */
export function jsonIn<T>(bytes: Buffer, { name, shape, mend }: JsonKind<T>, address: string): T {
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
  if (!sameMeaning(text, JSON.stringify(value))) throw foreign('a key twice, or a number that is too long')
  const parsed = shape.safeParse(value)
  if (parsed.success) return parsed.data
  throw foreign(whyNot(parsed.error))
}

/** Names the first property that is wrong; its name and value may be of any length. */
function whyNot({ issues: [issue] }: z.ZodError): string {
  const place = issue?.path.map(String).join('.') ?? ''
  return place === '' ? 'another shape' : `wrong: ${place.slice(0, 100).replace(/[^\w.-]/g, '?')}`
}
