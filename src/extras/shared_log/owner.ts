import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { makePrintable } from '#schema/text_key.ts'
import type { Reach } from '#src/extras/extra.ts'
import { closing } from '#src/lib/closing.ts'
import { EXIT, FatalError, InterruptedError } from '#src/lib/errors.ts'
import { describeHolder } from '#src/lib/lock.ts'
import {
  type ObjectStore,
  parseJsonObject,
  RemoteError,
  type S3Settings,
  type StoredObject,
} from '#src/lib/objects/objects.ts'
import { openS3 } from '#src/lib/objects/s3.ts'
import { directoryKey } from './segments.ts'

/**
 * The owner of a company's shared log, who writes to it: `owner.json`, replaced only if it is the version that was read. It
 * spares two workers a race; what counts is who seals a segment.
 */

/**
 * An owner that is silent for longer is taken over. By the store's clock, so that no host's clock matters. Twice as long as a
 * request may hang before it is sent again.
 */
const LEASE_MS = 60_000
const BEAT_MS = 10_000
/**
 * An owner that was silent for so long asks the store before it requests more. What it requests now may be under way for
 * half a lease, and must not arrive after another worker took over.
 */
const DOUBT_MS = LEASE_MS / 2
const POLL_MS = 2000
/** Replacements that may be refused in a row; then the store refuses what nobody else has written. */
const REFUSALS = 10
/** A store that hangs must not hold a process that ends. */
const RELEASE_WITHIN_MS = 5000

const MAX_OWNER_BYTES = 64 * 1024
/** Shown to people, on a terminal, too. */
const shown = z.string().transform(text => makePrintable(text.slice(0, 200)))

const ownerShape = z.object({
  format: z.literal(1),
  holder: z.object({ directory: z.string(), host: shown, pid: z.number().int(), what: shown }),
  /** Since when, by that host's clock: for people. */
  since: shown,
  session: z.string(),
  beat: z.number(),
  released: z.boolean(),
  /** Since an owner that did not end was taken over, no segment has been sealed: it may not know yet. */
  unsettled: z.boolean(),
})
type Owner = z.output<typeof ownerShape>

export type LogHolder = Owner['holder']

export type Ownership = {
  /** Whether an earlier owner did not end, and no segment has been sealed since: it may wake up and write. */
  readonly isTakeover: boolean
  /** Notes that a segment was sealed: an owner that was taken over can no longer seal. */
  settled(): void
  /** Throws FatalError (held) if another worker took over, as far as this one knows. */
  assertHeld(): void
  /**
   * Resolves once it is sure that no other worker took over: at once to false, or to true if this one was silent for long and
   * the store had to be asked.
   * @throws FatalError (held) if another worker took over. @throws RemoteError if the store does not answer.
   */
  confirm(): Promise<boolean>
  /** Releases the log. Never throws: an owner that is silent is taken over. */
  release(): Promise<void>
}

type TakeOptions = {
  readonly company: string
  readonly holder: LogHolder
  readonly now: () => Date
  readonly waitMs: number
  readonly signal: AbortSignal
  readonly onWait: (what: string) => void
}

export function ownerKey(company: string): string {
  return `${company}/owner.json`
}

/** Returns the owner of the log; null if it has none. */
export async function readCurrentOwner(store: ObjectStore, company: string): Promise<LogHolder | null> {
  const found = await readOwner(store, ownerKey(company))
  const owner = found && ownerIn(found)
  return owner && !owner.released && !isSilent(found) ? owner.holder : null
}

/**
 * Takes the ownership of the log. @throws FatalError (held) naming the owner, if it still owns the log after `waitMs`.
 * @throws RemoteError if the store refuses each replacement, although the log has no owner.
 */
export async function takeOwnership(store: ObjectStore, options: TakeOptions): Promise<Ownership> {
  const { company, holder, now, waitMs, signal, onWait } = options
  const key = ownerKey(company)
  const since = now().toISOString()
  const begun = { format: 1, holder, since, session: randomUUID(), beat: 0, released: false } as const
  const deadlineMs = performance.now() + waitMs
  for (let reported = false, refusals = 0; ; ) {
    const found = await readOwner(store, key)
    const before = found && ownerIn(found)
    const isFree =
      found === null || before?.released === true || before?.holder.directory === holder.directory
    if (isFree || isSilent(found)) {
      const isTakeover = found !== null && (before?.released !== true || before.unsettled)
      const own: Owner = { ...begun, unsettled: isTakeover }
      const silence = createSilence(now)
      const tag = await replace(store, key, own, found)
      if (tag !== null) return holdOn(store, key, { own, tag, isTakeover, company, silence })
      refusals += 1
      if (signal.aborted) throw new InterruptedError()
      if (refusals === REFUSALS) throw alwaysRefused(store, key)
      continue
    }
    refusals = 0
    if (performance.now() >= deadlineMs) throw new FatalError(heldMessage(company, before), EXIT.held)
    if (!reported) onWait(before === null ? NEWER : describeHolder(before.holder))
    reported = true
    await sleep(POLL_MS, undefined, { signal }).catch(() => {
      throw new InterruptedError()
    })
  }
}

function holdOn(
  store: ObjectStore,
  key: string,
  held: { own: Owner; tag: string; isTakeover: boolean; company: string; silence: Silence },
): Ownership {
  const { company, isTakeover, silence } = held
  let { own, tag } = held
  let isLost = false
  let underWay: Promise<void> | null = null
  const write = async (change: Partial<Owner>) => {
    if (isLost) return
    own = { ...own, ...change, beat: own.beat + 1 }
    // Before the store's own clock, so that no other worker sees a longer silence than this one counts.
    const broken = silence.mark()
    const written = await replace(store, key, own, { tag })
    if (written === null) isLost = true
    else {
      tag = written
      broken()
    }
  }
  const beat = () => {
    // Never two at a time: a store that hangs would be left with a queue of them.
    underWay ??= write({}).finally(() => {
      underWay = null
    })
    return underWay
  }
  const timer = setInterval(() => beat().catch(() => {}), BEAT_MS)
  timer.unref()
  const assertHeld = () => {
    if (isLost) throw new FatalError(takenOverMessage(company, `${store.root}/${key}`), EXIT.held)
  }
  return {
    isTakeover,
    settled() {
      own = { ...own, unsettled: false }
    },
    assertHeld,
    async confirm() {
      assertHeld()
      if (silence.ms() < DOUBT_MS) return false
      while (silence.ms() >= DOUBT_MS) {
        // One that hangs since the store could not be reached; it may be reachable again.
        await underWay?.catch(() => {})
        if (!isLost) await beat()
        assertHeld()
      }
      return true
    },
    async release() {
      clearInterval(timer)
      const writing = (async () => {
        await underWay?.catch(() => {})
        await write({ released: true }).catch(() => {})
      })()
      await Promise.race([writing, sleep(RELEASE_WITHIN_MS, undefined, { ref: false })])
    },
  }
}

/** For how long the store has not heard of this process. */
type Silence = {
  ms(): number
  /** Marks the time of this call; the returned function ends the silence as of then. */
  mark(): () => void
}

/** Measures silence by the longer of two clocks: one never jumps, the other one runs on while the machine is suspended. */
function createSilence(now: () => Date): Silence {
  const time = () => ({ steadyMs: performance.now(), wallMs: now().getTime() })
  let since = time()
  return {
    ms() {
      const { steadyMs, wallMs } = time()
      return Math.max(steadyMs - since.steadyMs, wallMs - since.wallMs)
    },
    mark() {
      const at = time()
      return () => {
        since = at
      }
    },
  }
}

/**
 * Replaces the owner. @returns the new version's tag; null if another worker replaced it first.
 * @throws RemoteError if the store refuses each time, although no other worker did.
 */
async function replace(
  store: ObjectStore,
  key: string,
  owner: Owner,
  before: Pick<StoredObject, 'tag'> | null,
  refusals = REFUSALS,
): Promise<string | null> {
  const body = Buffer.from(`${JSON.stringify(owner)}\n`)
  const condition = before === null ? ({ absent: true } as const) : { tag: before.tag }
  const tag = await store.put(key, body, condition)
  if (tag !== null) return tag
  // The answer to this request, or to an earlier one of ours, may have been lost.
  const found = await readOwner(store, key)
  if (found === null || ownerIn(found)?.session !== owner.session) return null
  if (found.bytes.equals(body)) return found.tag
  if (refusals === 1) throw alwaysRefused(store, key)
  return await replace(store, key, owner, found, refusals - 1)
}

function alwaysRefused({ root }: ObjectStore, key: string): RemoteError {
  return new RemoteError(
    `The object store refused ${REFUSALS} times to replace ${root}/${key}, which nobody else had replaced. It must support conditional writes (If-None-Match and If-Match with PUT), and give an object the same ETag until it is replaced: run \`editais doctor\`.`,
  )
}

/** Reads the owner; null if there is none. @throws ForeignObject if it is too large to be one. */
async function readOwner(store: ObjectStore, key: string): Promise<StoredObject | null> {
  return await store.get(key, MAX_OWNER_BYTES)
}

/** Returns null if another version of the program wrote it: then only its age counts. */
function ownerIn({ bytes }: StoredObject): Owner | null {
  try {
    return parseJsonObject(bytes, { name: 'owner', mostBytes: MAX_OWNER_BYTES, shape: ownerShape }, '')
  } catch {
    return null
  }
}

function isSilent(found: StoredObject | null): boolean {
  return found?.ageMs != null && found.ageMs >= LEASE_MS
}

/** `owner.json` is not readable. */
const NEWER = 'another version of the program'

function heldMessage(company: string, owner: Owner | null): string {
  const who = owner === null ? NEWER : `${describeHolder(owner.holder)}, since ${owner.since}`
  return `The raw log of ${company} is held by ${who}. Wait for it to end, or use --wait SECONDS.`
}

function takenOverMessage(company: string, key: string): string {
  return `${company}: another worker took over the raw log (${key}), because this one was silent for too long. This run ends, and what it had not sealed is dropped. The other worker continues.`
}

/** A tag that no object has. */
const NO_TAG = '"editais-sync"'

/** Does what `reachLog` of an extra promises: the store refuses a write for its condition, or before that for a missing right. */
export async function reachLog(settings: S3Settings, company: string, signal: AbortSignal): Promise<Reach> {
  let aheadMs: number | null = null
  try {
    using store = closing(await openS3(settings, { signal, onDate: ms => (aheadMs = ms) }))
    await readCurrentOwner(store, company)
    for await (const _ of store.list(`${directoryKey(company)}/`)) break
    await store.put(`${ownerKey(company)}.probe`, Buffer.from(randomUUID()), { tag: NO_TAG }).catch(error => {
      // Amazon S3 says so if the condition names a version of an object that does not exist.
      if (!isMissing(error)) throw error
    })
    return { problem: null, aheadMs }
  } catch (error) {
    if (!(error instanceof RemoteError)) throw error
    return { problem: error.message, aheadMs }
  }
}

function isMissing(error: unknown): boolean {
  const { cause } = error as { cause?: { $metadata?: { httpStatusCode?: number } } }
  return error instanceof RemoteError && cause?.$metadata?.httpStatusCode === 404
}
