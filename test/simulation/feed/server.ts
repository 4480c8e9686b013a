import { copyFileSync, existsSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import pino from 'pino'
import type { CompanyPaths } from '#src/core/company/company.ts'
import { Feed } from '#src/server/feed/feed.ts'
import { type IndexOrder, type IndexStep, updateIndex } from '#src/server/feed/indexer.ts'

const FILES = ['', '-wal'] as const

/** The indexer died. */
class Killed extends Error {}

/** A server of the feed, whose indexer may be killed. */
export class FeedServer {
  readonly #paths: CompanyPaths
  feed: Feed
  /** The indexer dies at this step; at none if that is 0. */
  diesAt = 0
  /** Whether it has died since the server started: then the next request would wait for seconds. */
  hasDied = false
  /** Why the indexer failed by itself. */
  failure: unknown = null

  constructor(paths: CompanyPaths) {
    this.#paths = paths
    this.feed = this.#start()
  }

  async restart(): Promise<void> {
    await this.feed.close()
    this.hasDied = false
    this.feed = this.#start()
  }

  /** The index is gone, under a server that has it open, or not. */
  removeIndex(): void {
    for (const ending of [...FILES, '-shm']) rmSync(this.#path + ending, { force: true })
  }

  async close(): Promise<void> {
    await this.feed.close()
  }

  get #path(): string {
    return join(this.#paths.mirror, 'feed.sqlite')
  }

  #start(): Feed {
    return new Feed({
      root: this.#paths.root,
      shared: null,
      log: pino({ level: 'silent' }),
      bringUp: order => this.bringUp(order),
    })
  }

  /** As the feed and its other readers do. */
  async bringUp(order: IndexOrder) {
    let steps = 0
    const onStep = (_: IndexStep) => {
      steps += 1
      if (steps !== this.diesAt) return
      // As the process leaves it: whatever it does with its open transaction from now on is not there.
      for (const ending of FILES)
        if (existsSync(this.#path + ending))
          copyFileSync(this.#path + ending, `${this.#path}${ending}.killed`)
      throw new Killed()
    }
    try {
      return await updateIndex(order, onStep)
    } catch (error) {
      this.hasDied = true
      if (error instanceof Killed) this.#bury()
      else this.failure = error
      throw error
    }
  }

  #bury(): void {
    this.removeIndex()
    for (const ending of FILES) {
      const killed = `${this.#path}${ending}.killed`
      if (existsSync(killed)) renameSync(killed, this.#path + ending)
    }
  }
}
