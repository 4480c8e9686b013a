import { assertHolds } from '../assertions.ts'
import { consume, count, type Play } from './play.ts'

const HOUR_MS = 3_600_000
/** A consumer without faults catches up within so many pages. */
const ENOUGH_PAGES = 3000
/** By then, each reader of the mirror is in step: a message that was refused a few times is tried again after hours. */
const WITHIN_HOURS = 48

/**
 * The faults have ended, nothing new is sealed, and a snapshot is published. From then on each hour everybody looks once:
 * the consumer of the feed, the webhook, the object store and its alert must be in step and silent before the time is up.
 */
export async function settle(play: Play): Promise<void> {
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
