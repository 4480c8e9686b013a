import { existsSync } from 'node:fs'
import { hostname } from 'node:os'
import type { CompanyPaths } from '#src/core/company/company.ts'
import { ensureDirectoryId } from '#src/core/company/data_directory.ts'
import { listSegmentNumbers, readBase, removeUnsealed, writeBase } from '#src/core/rawlog/files.ts'
import type { Database } from '#src/core/warehouse/database.ts'
import type { Bringing, SharedLog, Standing, Taking } from '#src/extras/extra.ts'
import { EXIT, explain, FatalError } from '#src/lib/errors.ts'
import { type ObjectStore, RemoteError, type S3Settings, s3Root } from '#src/lib/objects/objects.ts'
import { openS3 } from '#src/lib/objects/s3.ts'
import { type LogHolder, type Ownership, readCurrentOwner, takeOwnership } from './owner.ts'
import {
  compareWithStore,
  copyLater,
  copySegments,
  describePlace,
  listSegmentsAfter,
  type OnSegment,
  pushSegments,
  RESTORE_IT,
  type SharedPlace,
  sealSegment,
  UnusableLog,
} from './segments.ts'

/** For how long a process that is to end waits for a store that hangs, to seal what it has fetched. */
const GRACE_MS = 2000

/** The output of `editais log status --json`. */
export type SharedLogState = {
  readonly place: string
  readonly segments: number
  readonly bytes: number
  /** Newest first. */
  readonly checkpoints: readonly { readonly segment: number; readonly made_at: string }[]
  /** The process that writes to it now. */
  readonly owner: LogHolder | null
  /** The segments that this disk has. */
  readonly on_this_disk: { readonly first: number; readonly last: number } | null
}

async function localSegments(raw: string): Promise<SharedLogState['on_this_disk']> {
  const { segments: base } = await readBase(raw).catch(() => ({ segments: 0 }))
  const numbers = (existsSync(raw) ? await listSegmentNumbers(raw) : []).filter(number => number > base)
  const [first] = numbers
  return first === undefined ? null : { first, last: numbers.at(-1) ?? first }
}

/**
 * A company's raw log in an object store (LOG_URL), shared by several hosts, each with a disk of its own. A segment
 * counts once it is there. The disk has a copy of the log, or of its end.
 *
 * The caller holds the company's lock on this disk.
 */
export class LogInStore implements SharedLog {
  readonly #settings: S3Settings
  readonly #paths: CompanyPaths
  readonly #signal: AbortSignal
  #store: ObjectStore | null = null
  #ownership: Ownership | null = null

  /** @param signal aborted when the process is to end. */
  constructor(settings: S3Settings, paths: CompanyPaths, signal: AbortSignal) {
    this.#signal = signal
    this.#settings = settings
    this.#paths = paths
  }

  get root(): string {
    return s3Root(this.#settings)
  }

  get isTakeover(): boolean {
    return this.#ownership?.isTakeover ?? false
  }

  async take({
    what,
    waitMs,
    now,
    signal,
    onWait,
    onSegment,
    onRefused,
    sourceTimezone,
    leavesDisk = false,
  }: Taking): Promise<number> {
    const { company, id } = this.#paths
    const holder = { directory: await ensureDirectoryId(id), host: hostname(), pid: process.pid, what }
    return await this.#asking(async place => {
      this.#ownership = await takeOwnership(place.store, { company, holder, now, waitMs, signal, onWait })
      try {
        return leavesDisk ? 0 : await this.#bring(place, { sourceTimezone, onSegment, onRefused })
      } catch (error) {
        await this.release()
        throw error
      }
    })
  }

  async bring(about: Bringing): Promise<number> {
    return await this.#asking(place => this.#bring(place, about))
  }

  async #bring(place: SharedPlace, about: Bringing): Promise<number> {
    await removeUnsealed(this.#paths.raw)
    const restored = (await this.#isDiskEmpty()) ? await this.#restore(place.store, about) : 0
    await copyLater(place, about.onSegment)
    return restored
  }

  /** Returns whether this disk has nothing of the log: then a checkpoint saves it from reading the whole log. */
  async #isDiskEmpty(): Promise<boolean> {
    const { raw, warehouse } = this.#paths
    return (
      !existsSync(warehouse) && (await localSegments(raw)) === null && (await readBase(raw)).segments === 0
    )
  }

  async #restore(
    store: ObjectStore,
    { sourceTimezone, onRefused }: Pick<Bringing, 'sourceTimezone' | 'onRefused'>,
  ): Promise<number> {
    // Loaded only for an empty disk: it loads DuckDB.
    const { restoreCheckpoint } = await import('./restore.ts')
    const restoring = { store, paths: this.#paths, signal: this.#signal, onRefused }
    return await restoreCheckpoint(restoring, sourceTimezone)
  }

  async release(): Promise<void> {
    await this.#ownership?.release()
    this.#ownership = null
    this.#store?.close()
    this.#store = null
  }

  async seal(number: number, path: string): Promise<void> {
    this.assertHeld()
    await this.#asking(place => sealSegment(place, number, path))
    this.#ownership?.settled()
  }

  assertHeld(): void {
    this.#ownership?.assertHeld()
  }

  async confirm(): Promise<boolean> {
    const ownership = this.#ownership
    return ownership !== null && (await this.#asking(() => ownership.confirm()))
  }

  async bringWhole(onSegment: OnSegment): Promise<void> {
    const { raw } = this.#paths
    const base = await readBase(raw)
    if (base.segments === 0) return
    await this.#asking(async place => {
      const all = await listSegmentsAfter(place, 0)
      if (all.length < base.segments)
        throw new UnusableLog(place, `lacks segment ${all.length + 1}`, RESTORE_IT)
      await copySegments(place, all.slice(0, base.segments), onSegment)
    })
    await writeBase(raw, null)
  }

  /** Copies to the store what only this disk has: a log that began without LOG_URL. */
  async push(onSegment: OnSegment): Promise<number> {
    return await this.#asking(place => pushSegments(place, onSegment))
  }

  async standing(segment?: number): Promise<Standing> {
    return await this.#asking(place => compareWithStore(place, segment))
  }

  async checkpoint(db: Database, close: () => void, now: Date): Promise<string | null> {
    try {
      const { checkpointIfDue, readFacts } = await import('./checkpoints.ts')
      const facts = await readFacts(db)
      close()
      const paths = this.#paths
      if (facts !== null) await this.#asking(({ store }) => checkpointIfDue({ store, paths }, facts, now))
      return null
    } catch (error) {
      return explain(error).message
    }
  }

  /** Returns what is there, and on this disk. */
  async describe(): Promise<SharedLogState> {
    const { company, raw } = this.#paths
    const { listCheckpoints } = await import('./checkpoints.ts')
    return await this.#asking(async place => {
      const all = await listSegmentsAfter(place, 0)
      const bytes = all.reduce((sum, segment) => sum + segment.bytes, 0)
      const checkpoints = await listCheckpoints(place.store, company)
      return {
        place: describePlace(place),
        segments: all.length,
        bytes,
        checkpoints: checkpoints.map(({ segment, made }) => ({ segment, made_at: made.toISOString() })),
        owner: await readCurrentOwner(place.store, company),
        on_this_disk: await localSegments(raw),
      }
    })
  }

  /** Asks the store. Whatever it refuses ends the run, which cannot continue without its log. */
  async #asking<T>(ask: (place: SharedPlace) => Promise<T>): Promise<T> {
    try {
      this.#store ??= await openS3(this.#settings, { signal: this.#signal, graceMs: GRACE_MS })
      return await ask({ store: this.#store, paths: this.#paths })
    } catch (error) {
      if (!(error instanceof RemoteError)) throw error
      throw new FatalError(
        `${this.#paths.company}: ${error.message} The raw log is in that store (LOG_URL), so this cannot continue without it.`,
        EXIT.failed,
      )
    }
  }
}
