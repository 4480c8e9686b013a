import type { Random } from '#src/sandbox/random.ts'
import { Violation } from '../assertions.ts'
import type { Consumer } from './consumer.ts'
import type { Clock, History } from './history.ts'
import type { Hooks } from './hooks.ts'
import type { RemoteLake } from './lake.ts'
import type { Mirror, Served } from './mirror.ts'
import type { Receiver } from './receiver.ts'
import type { FeedServer } from './server.ts'

/** A company's mirror, and its readers. */
export type Play = {
  readonly random: Random
  readonly clock: Clock
  readonly history: History
  readonly mirror: Mirror
  readonly server: FeedServer
  readonly consumer: Consumer
  readonly receiver: Receiver
  readonly hooks: Hooks
  /** The lake in an object store; null in most worlds. */
  readonly lake: RemoteLake | null
  /** What happens to webhooks and object store. A sequence of its own, so that it changes nothing else. */
  readonly sending: Random
  readonly counts: Map<string, number>
  readonly log: (line: string) => void
  served: Served | null
}

/**
 * The consumer takes some steps. Servers that cannot answer are restarted.
 * @returns why it has not read everything; null if it has.
 */
export async function consume(play: Play, steps: number, dies: number): Promise<string | null> {
  const { random, server, consumer, served } = play
  if (!served) return null
  const answers: string[] = []
  for (let step = 0; step < steps; step += 1) {
    if (server.hasDied || random.chance(0.1)) {
      if (server.hasDied) count(play, 'fault: the indexer died')
      await server.restart()
      server.diesAt = 0
    }
    const stepped = await consumer.step({ feed: server.feed, served }, dies)
    if (server.failure) throw new Violation(`the indexer failed: ${(server.failure as Error).stack}`)
    count(play, `consumer: ${stepped}`)
    play.log(
      `  ${served.snapshot.name} up to ${served.snapshot.appliedSegment}: ${stepped}, ${consumer.cursor}`,
    )
    if (stepped === 'caught up') return null
    answers.push(stepped)
    // It waits before it asks again.
    if (answers.slice(-REFUSALS).filter(one => one === 'refused').length === REFUSALS) break
  }
  return `its last answers are ${answers.slice(-REFUSALS).join(', ')}, its cursor is ${consumer.cursor}, and the mirror has ${served.snapshot.appliedSegment} segments`
}

/** A client that gets 503 so many times in a row leaves it for a while. */
const REFUSALS = 4

export function count({ counts }: Pick<Play, 'counts'>, what: string, times = 1): void {
  counts.set(what, (counts.get(what) ?? 0) + times)
}
