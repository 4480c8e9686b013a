import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { companyPaths } from '#src/core/company/company.ts'
import { listSealedSegments } from '#src/core/rawlog/files.ts'
import { createRandom, type Random } from '#src/sandbox/random.ts'
import { assertHolds, Violation } from '#test/simulation/assertions.ts'
import { drawStoreFaults } from '#test/simulation/remote/attempt.ts'
import { Consumer, isSameValue, pageAfter, positionIn } from './consumer.ts'
import { type Clock, History } from './history.ts'
import { Hooks } from './hooks.ts'
import { RemoteLake } from './lake.ts'
import { Mirror, type Served } from './mirror.ts'
import { Receiver } from './receiver.ts'
import { FeedServer } from './server.ts'

const MINUTE_MS = 60_000
const DIES = 0.3
/** How wrong a clock may have been for a while. */
const AHEAD_MS = 100 * 24 * 60 * MINUTE_MS

/**
 * Simulates an hour or more in the life of a consumer of the feed, from a seed: the company changes, its runs publish or die
 * before, the warehouse is rebuilt, the log is salvaged, restored or begun anew, the index is deleted, its maker and
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
  const steady = performance.now
  const startMs = clock.nowMs
  // What waits before it tries again waits in simulated time.
  performance.now = () => steady.call(performance) + clock.nowMs - startMs
  const paths = companyPaths(place, 'acme')
  const mirror = await Mirror.open(paths, clock, random)
  const server = new FeedServer(paths)
  const receiver = await Receiver.start()
  const served = () => play.served
  const play: Play = {
    ...{ random, clock, mirror, log, server, receiver, counts: new Map(), served: null },
    history: new History(paths.raw, createRandom(`history ${seed}`), clock),
    consumer: new Consumer(createRandom(`consumer ${seed}`)),
    hooks: new Hooks({ dataDir: place, lake: paths.lake, clock, server, receiver, served }),
    lake: await RemoteLake.open(seed, place, { paths, clock, receiver }),
    sending: createRandom(`sending ${seed}`),
  }
  mirror.isFollowed = play.lake !== null
  try {
    for (let rounds = random.int(3, 6); rounds > 0; rounds -= 1) await oneRound(play)
    await quietEnd(play)
    for (const [what, times] of play.history.counts) count(play, what, times)
    return play.counts
  } finally {
    performance.now = steady
    await play.hooks.close()
    await play.server.close()
    play.lake?.close()
    receiver.close()
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
  await send(play)
}

/** The webhook's worker and that of the object store, and what happens to them. */
async function send(play: Play): Promise<void> {
  const { sending, clock, hooks, receiver, server, served, lake } = play
  const aheadMs = sending.chance(0.15) ? AHEAD_MS : 0
  if (served) await lake?.publish(drawStoreFaults(sending), aheadMs)
  for (let ticks = sending.int(0, 3); ticks > 0 && served; ticks -= 1) {
    if (server.hasDied || sending.chance(0.1)) await hooks.restart()
    if (sending.chance(0.1)) hooks.loseQueue()
    receiver.mood = sending.pick(['accepts', 'accepts', 'refuses', 'silent'])
    if (!hooks.isSubscribed) await hooks.subscribe(sending.chance(0.5))
    else await hooks.tick()
    count(play, `webhook: its receiver ${receiver.mood}`)
    clock.nowMs += sending.int(0, 10) * MINUTE_MS
  }
}

async function disturb(play: Play): Promise<void> {
  const { random, mirror, history } = play
  const segments = await listSealedSegments(mirror.paths.raw)
  if (segments.length === 0) return
  const what = random.weighted([
    ['published', 12],
    ['died before it published', 3],
    ['rebuilt', 1],
    ...(segments.length > 2
      ? ([
          ['salvaged', 1.2],
          ['lost its end', 1.2],
        ] as const)
      : []),
    ['began a log anew', 0.4],
  ])
  count(play, `log: ${what}`)
  play.log(`${segments.length} segments: ${what}`)
  if (what === 'died before it published') await mirror.apply()
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

/** Without faults, everybody ends in step; and every event since it began came once, in order. */
async function quietEnd(play: Play): Promise<void> {
  const { history, server, consumer, hooks, mirror } = play
  // Without a run there is nothing to follow.
  if ((await listSealedSegments(mirror.paths.raw)).length === 0) await history.run(1)
  // Whoever was ahead of a log that lost its end must notice before it has regrown.
  await settle(play)
  for (let runs = 3; runs > 0; runs -= 1) await history.run(1)
  await settle(play)
  const before = await listEvents(play)
  const own = before.map(({ cursor }) => positionIn(cursor))
  const begun = consumer.since === null ? 0 : own.indexOf(consumer.since) + 1
  assertHolds(
    JSON.stringify(own.slice(begun)) === JSON.stringify(consumer.applied),
    () =>
      `the consumer applied ${consumer.applied.length} events, and the feed has ${own.length - begun} since it began: ${consumer.applied.filter((one, index) => one !== own[begun + index])[0]} is the first that differs`,
  )
  hooks.checkReceived(before)
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
          isSameValue(field, document[field] ?? null, value),
          () =>
            `${field} of the ${kind} ${id} is ${JSON.stringify(document[field])}, and its last event said ${JSON.stringify(value)}`,
        )
      }
    }
  }
}

const HOUR_MS = 3_600_000
/** A consumer without faults catches up within so many pages. */
const ENOUGH_PAGES = 3000
/** By then, each reader of the mirror is in step: a message that was refused a few times is tried again after hours. */
const WITHIN_HOURS = 48

/**
 * The faults have ended, nothing new is sealed, and a snapshot is published. From then on each hour everybody looks once:
 * the consumer of the feed, the webhook, the object store and its alert must be in step and silent before the time is up.
 */
async function settle(play: Play): Promise<void> {
  const { clock, mirror, server, receiver, hooks } = play
  server.diesAt = 0
  receiver.mood = 'accepts'
  clock.nowMs += HOUR_MS
  await mirror.publish()
  play.served = await mirror.read()
  if (play.sending.chance(0.3)) {
    await hooks.tick()
    server.removeIndex()
  }
  let standing: readonly string[] = []
  for (let hours = 1; hours <= WITHIN_HOURS; hours += 1) {
    clock.nowMs += HOUR_MS
    const consumer = await consume(play, ENOUGH_PAGES, 0)
    await hooks.tick()
    await play.lake?.publish('none')
    if (await play.lake?.obey()) count(play, 'operator: published another log')
    standing = await whoStandsStill(play, consumer)
    if (standing.length === 0) break
  }
  assertHolds(
    standing.length === 0,
    () => `I16: ${WITHIN_HOURS} hours after the last fault, ${standing.join('; ')}`,
  )
  const sent = receiver.received.length
  await hooks.tick()
  await play.lake?.publish('none')
  assertHolds(receiver.received.length === sent, () => 'I16: nothing happens, but more messages are sent')
}

async function whoStandsStill(play: Play, consumer: string | null): Promise<string[]> {
  const { lake, hooks } = play
  const [hook, store, alert] = [
    await hooks.behind(),
    (await lake?.behind()) ?? null,
    (await lake?.alarmed()) ?? null,
  ]
  return [
    consumer && `the consumer of the feed stands still: ${consumer}`,
    hook && `the webhook stands still: ${hook}`,
    store && `the lake in the object store stands still: ${store}`,
    alert && `the receiver of alerts is not left in peace: ${alert}`,
  ].filter(one => one !== null)
}

/** A company's mirror, and its readers. */
type Play = {
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
async function consume(play: Play, steps: number, dies: number): Promise<string | null> {
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

function count({ counts }: Pick<Play, 'counts'>, what: string, times = 1): void {
  counts.set(what, (counts.get(what) ?? 0) + times)
}
