import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createRandom, type Random } from '#src/sandbox/random.ts'
import { companyPaths } from '#src/store/company.ts'
import { sealedSegments } from '#src/store/rawlog/files.ts'
import { assertHolds, Violation } from '../assertions.ts'
import { Consumer, pageAfter, positionIn } from './consumer.ts'
import { type Clock, History } from './history.ts'
import { Mirror, type Served } from './mirror.ts'
import { FeedServer } from './server.ts'

const MINUTE_MS = 60_000
const DIES = 0.3
/** A consumer without faults catches up within so many pages. */
const ENOUGH_PAGES = 3000

type Play = {
  readonly random: Random
  readonly clock: Clock
  readonly history: History
  readonly mirror: Mirror
  readonly server: FeedServer
  readonly consumer: Consumer
  readonly counts: Map<string, number>
  readonly log: (line: string) => void
  served: Served | null
}

/**
 * Simulates an hour or more in the life of a consumer of the feed, from a seed: the company changes, its runs publish or die
 * before, the warehouse is rebuilt, the log is folded, salvaged, restored or begun anew, the index is deleted, its maker and
 * the consumer are killed. Whenever the consumer has read everything, it must have exactly what the mirror serves.
 * @returns the number of events by kind.
 * @throws Violation if it has not, or if an event comes twice or not at all.
 */
export async function simulateFeed(
  seed: string,
  log: (line: string) => void = () => {},
): Promise<ReadonlyMap<string, number>> {
  const place = await mkdtemp(join(tmpdir(), 'editais-sync-feed-'))
  const random = createRandom(`feed ${seed}`)
  const clock = { nowMs: Date.parse('2026-11-20T12:00:00Z') }
  const paths = companyPaths(place, 'acme')
  const mirror = await Mirror.open(paths, clock, random)
  const play: Play = {
    ...{ random, clock, mirror, log, counts: new Map(), served: null },
    history: new History(paths.raw, createRandom(`history ${seed}`), clock),
    server: new FeedServer(paths),
    consumer: new Consumer(createRandom(`consumer ${seed}`)),
  }
  try {
    for (let rounds = random.int(3, 6); rounds > 0; rounds -= 1) await oneRound(play)
    await quietEnd(play)
    for (const [what, times] of play.history.counts) count(play, what, times)
    return play.counts
  } finally {
    await play.server.close()
    mirror.close()
    await rm(place, { recursive: true, force: true })
  }
}

/** Time passes, the company changes, something goes wrong, and the consumer reads on. */
async function oneRound(play: Play): Promise<void> {
  const { random, clock, history, mirror, server } = play
  clock.nowMs += random.int(1, 20) * MINUTE_MS
  if (random.chance(0.8)) await history.run(random.int(0, 5))
  await disturb(play)
  play.served = await mirror.read()
  if (random.chance(0.15)) {
    server.removeIndex()
    count(play, 'fault: the index was deleted')
  }
  server.diesAt = random.chance(0.4) ? random.int(1, 8) : 0
  await consume(play, random.int(0, 8), DIES)
}

async function disturb(play: Play): Promise<void> {
  const { random, mirror, history } = play
  const segments = await sealedSegments(mirror.paths.raw)
  if (segments.length === 0) return
  const what = random.weighted([
    ['published', 12],
    ['died before it published', 3],
    ['rebuilt', 1],
    ...(segments.length > 2
      ? ([
          ['folded', 1],
          ['salvaged', 0.7],
          ['lost its end', 0.7],
        ] as const)
      : []),
    ['began a log anew', 0.4],
  ])
  count(play, `log: ${what}`)
  play.log(`${segments.length} segments: ${what}`)
  if (what === 'died before it published') await mirror.apply()
  else if (what === 'folded') await mirror.fold()
  else if (what === 'salvaged') {
    await mirror.salvage()
    // If the segment that named the log is lost, it has another name.
    history.continueLog(mirror.log)
  } else if (what === 'lost its end') await mirror.loseEnd()
  else if (what === 'began a log anew') {
    await mirror.loseLog()
    history.beginLog()
    await history.run(0)
    await mirror.publish()
  } else await mirror.publish({ rebuild: what === 'rebuilt' })
}

/** The consumer takes some steps. Servers that cannot answer are restarted. */
async function consume(play: Play, steps: number, dies: number): Promise<void> {
  const { random, server, consumer, served } = play
  if (!served) return
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
    if (stepped === 'caught up') return
  }
}

/** Without faults, the consumer ends in step; and every event since it began came once, in order. */
async function quietEnd(play: Play): Promise<void> {
  const { history, mirror, server, consumer } = play
  server.diesAt = 0
  // A restored log grows beyond what was lost.
  for (let runs = 3; runs > 0; runs -= 1) await history.run(1)
  await mirror.publish()
  play.served = await mirror.read()
  await consume(play, ENOUGH_PAGES, 0)
  const before = await listEvents(play)
  const own = before.map(({ cursor }) => positionIn(cursor))
  const begun = consumer.since === null ? 0 : own.indexOf(consumer.since) + 1
  assertHolds(
    JSON.stringify(own.slice(begun)) === JSON.stringify(consumer.applied),
    () =>
      `the consumer applied ${consumer.applied.length} events, and the feed has ${own.length - begun} since it began: ${consumer.applied.filter((one, index) => one !== own[begun + index])[0]} is the first that differs`,
  )
  checkValues(play, before)
  await server.close()
  server.removeIndex()
  await server.restart()
  const after = await listEvents(play)
  assertHolds(
    JSON.stringify(after) === JSON.stringify(before),
    () => 'an index that was made anew has other events',
  )
  count(play, 'events', before.length)
}

type Listed = {
  readonly cursor: string
  readonly kind: string
  readonly edital_id: string
  readonly fields?: readonly string[]
  readonly changes?: readonly { readonly field: string; readonly after?: unknown; readonly omitted?: true }[]
}

async function listEvents({ server, served }: Play): Promise<Listed[]> {
  const events: Listed[] = []
  for (let next: string | null = null; ; ) {
    const page = await pageAfter(server.feed, served as Served, next, 100)
    events.push(...page.events.map(({ json }) => JSON.parse(json) as Listed))
    next = page.next
    if (!page.hasMore) return events
  }
}

/** The last value that an event gave a field is the one that is served. */
function checkValues({ served }: Play, events: readonly Listed[]): void {
  const last = new Map<string, Map<string, unknown>>()
  for (const { edital_id, kind, changes = [] } of events) {
    const document = kind.startsWith('notice') ? 'notice' : 'analysis'
    const values = last.get(`${document} ${edital_id}`) ?? new Map<string, unknown>()
    last.set(`${document} ${edital_id}`, values)
    for (const { field, after, omitted } of changes) {
      if (omitted) values.delete(field)
      else values.set(field, after)
    }
  }
  for (const [id, documents] of (served as Served).documents) {
    for (const kind of ['notice', 'analysis'] as const) {
      const document = JSON.parse(documents[kind] ?? 'null') as Record<string, unknown> | null
      for (const [field, value] of last.get(`${kind} ${id}`) ?? []) {
        if (document === null) continue
        assertHolds(
          JSON.stringify(document[field] ?? null) === JSON.stringify(value),
          () =>
            `${field} of the ${kind} ${id} is ${JSON.stringify(document[field])}, and its last event said ${JSON.stringify(value)}`,
        )
      }
    }
  }
}

function count({ counts }: Pick<Play, 'counts'>, what: string, times = 1): void {
  counts.set(what, (counts.get(what) ?? 0) + times)
}
