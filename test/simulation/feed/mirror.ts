import { rm, stat, truncate } from 'node:fs/promises'
import { join } from 'node:path'
import { type CompanyPaths, emptyTemporary, makeDirectories } from '#src/core/company/company.ts'
import { type Manifest, readLatestName, readManifest, snapshotsDirectory } from '#src/core/lake/manifest.ts'
import { publish } from '#src/core/lake/publish.ts'
import { listSealedSegments, segmentPath } from '#src/core/rawlog/files.ts'
import { Database } from '#src/core/warehouse/database.ts'
import { openWarehouse, rebuildWarehouse, type WarehouseOptions } from '#src/core/warehouse/warehouse.ts'
import { readRemotely } from '#src/extras/object_store/state.ts'
import { loadMarts } from '#src/marts/open.ts'
import { salvageLog } from '#src/operate/salvage.ts'
import type { Random } from '#src/sandbox/random.ts'
import { type DocumentRow, monthDocuments } from '#src/server/documents.ts'
import type { FeedSnapshot } from '#src/server/feed/feed.ts'
import { listMonths, makeFeedSnapshot } from '#src/server/snapshot.ts'
import type { Clock } from './history.ts'

const KEEP_MS = 3_600_000

/** What the mirror serves of a notice: JSON. */
export type Documents = { readonly notice: string; readonly analysis: string | null }
export type Served = { readonly snapshot: FeedSnapshot; readonly documents: ReadonlyMap<string, Documents> }

/** The real warehouse and lake of one company, and what a server reads from them. */
export class Mirror {
  readonly paths: CompanyPaths
  /** The name of the log, which the next run gives; as last published. */
  log: string | null = null
  /** Whether the lake is in an object store, too. */
  isFollowed = false
  readonly #clock: Clock
  readonly #random: Random
  readonly #db: Database
  #names = 0

  private constructor(paths: CompanyPaths, clock: Clock, random: Random, db: Database) {
    this.paths = paths
    this.#clock = clock
    this.#random = random
    this.#db = db
  }

  static async open(paths: CompanyPaths, clock: Clock, random: Random): Promise<Mirror> {
    await makeDirectories(paths)
    return new Mirror(paths, clock, random, await Database.open(':memory:', { threads: 1 }))
  }

  /** Applies what is sealed, as a run does that dies before it publishes. */
  async apply(): Promise<void> {
    const { db } = await openWarehouse(this.#options())
    db.close()
  }

  async publish({ rebuild = false } = {}): Promise<void> {
    const { paths } = this
    await emptyTemporary(paths)
    const { db, rows } = await (rebuild ? rebuildWarehouse : openWarehouse)(this.#options())
    try {
      this.log = (await db.row<{ log: string | null }>('SELECT log FROM meta')).log
      await publish({
        ...{ db, rows, lake: paths.lake, company: paths.company, keepMs: KEEP_MS },
        inUse: await readRemotely(paths.remote),
        marts: await loadMarts(),
        martsWanted: this.isFollowed ? 'daily' : 'none',
        now: new Date(this.#clock.nowMs),
        sourceTimezone: 'America/Sao_Paulo',
      })
    } finally {
      db.close()
    }
  }

  /** What a server serves now; null before the first publish. */
  async read(): Promise<Served | null> {
    const name = await readLatestName(this.paths.lake)
    if (name === null) return null
    const directory = join(snapshotsDirectory(this.paths.lake), name)
    const manifest = (await readManifest(directory)) as Manifest
    const documents = new Map<string, Documents>()
    for (const { order } of listMonths(manifest, directory)) {
      const rows = await this.#db.rows<DocumentRow>(
        monthDocuments(order.files, { ...order, batch: 0, batches: 1 }),
      )
      for (const { id, notice, analysis } of rows) documents.set(id, { notice, analysis })
    }
    return { snapshot: makeFeedSnapshot(manifest, directory), documents }
  }

  /** A segment is damaged on the disk, and what can be read of it stays. */
  async salvage(): Promise<void> {
    const { raw } = this.paths
    const path = segmentPath(raw, this.#random.pick(await listSealedSegments(raw)))
    await truncate(path, Math.floor((await stat(path)).size / 2))
    const [runId, now] = [`salvage-${this.#names++}`, () => new Date(this.#clock.nowMs)]
    await salvageLog({ directory: raw, runId, now, onUnusable: async () => {} })
    await this.publish({ rebuild: true })
  }

  /** A backup is restored that lacks the last segments. */
  async loseEnd(): Promise<void> {
    const { raw } = this.paths
    const segments = await listSealedSegments(raw)
    const lost = Math.min(this.#random.int(1, 2), segments.length - 1)
    for (const number of segments.slice(segments.length - lost)) await rm(segmentPath(raw, number))
    await this.publish({ rebuild: true })
  }

  /** Everything but the lake is gone. */
  async loseLog(): Promise<void> {
    const { raw, warehouse, rows } = this.paths
    for (const path of [raw, warehouse, rows]) await rm(path, { recursive: true, force: true })
    await makeDirectories(this.paths)
  }

  close(): void {
    this.#db.close()
  }

  #options(): WarehouseOptions {
    const newId = () => `warehouse-${this.#names++}`
    const { signal } = new AbortController()
    return { paths: this.paths, sourceTimezone: 'America/Sao_Paulo', newId, signal }
  }
}
