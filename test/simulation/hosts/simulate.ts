import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { observeSteps } from '#src/lib/durable.ts'
import { createRandom } from '#src/sandbox/random.ts'
import { assertHolds } from '../assertions.ts'
import { checkSameTables } from '../tables.ts'
import { checkCheckpoints, checkNow, warehouseOf } from './check.ts'
import { checkKnown, forgetLater } from './known.ts'
import { addHost, BESIDE_LOG, count, type Host, type HostsPlay, LOG, openHosts } from './play.ts'
import { type Fate, type Operation, runOn, watchSteps } from './run.ts'

const HOUR_MS = 3_600_000
const LEASE_MS = 60_000

/**
 * Simulates hosts that share a log, from a seed: each has a disk and a clock of its own; their requests come in between each
 * other; processes die, stand still before any of them while others take over, and lose the object store or their disk. At the end, without faults, all hosts and a new one
 * must have the same tables, and these must match the company.
 * @param log receives lines that describe each run.
 * @returns the number of events by kind.
 * @throws Violation if an invariant does not hold.
 */
export async function simulateHosts(
  seed: string,
  log: (line: string) => void = () => {},
): Promise<ReadonlyMap<string, number>> {
  const place = await mkdtemp(join(tmpdir(), 'editais-sync-hosts-'))
  const drawn = Math.random
  // Backoff has jitter; the same seed must give the same jitter.
  Math.random = createRandom(`jitter ${seed}`).next
  const play = await openHosts(seed, place, log)
  try {
    watchSteps(play)
    for (let rounds = play.random.int(1, 3); rounds > 0; rounds -= 1) await oneRound(play)
    await quietEnd(play)
    return play.counts
  } finally {
    observeSteps(null)
    Math.random = drawn
    await play.sandbox.close()
    play.s3.close()
    await rm(place, { recursive: true, force: true })
  }
}

/** Time passes, the company changes, disks get lost, and then hosts run, in between each other. */
async function oneRound(play: HostsPlay): Promise<void> {
  const { random, company, hosts } = play
  passTime(play)
  for (let changes = random.int(0, 10); changes > 0; changes -= 1) company.change()
  for (const host of hosts) if (random.chance(0.1)) await loseDisk(play, host)
  if (random.chance(0.25)) await restoreBackup(play)
  const running = random.sample(hosts, random.int(2, 3))
  const runs = running.map(host =>
    Array.from({ length: random.int(1, 2) }, () => [host, drawOperation(play), drawFate(play)] as const),
  )
  const ended = await Promise.allSettled(
    runs.map(async ofHost => {
      for (const [host, operation, fate] of ofHost) await runOn(play, host, operation, fate)
    }),
  )
  for (const one of ended) if (one.status === 'rejected') throw one.reason
}

function drawOperation({ random }: HostsPlay): Operation {
  return random.weighted<Operation>([
    ['sync', 12],
    ['full', 0.5],
    ['publish', 1],
    ['rebuild', 1],
  ])
}

function drawFate({ random }: HostsPlay): Fate {
  const pauseMs = random.pick([0, LEASE_MS, LEASE_MS, LEASE_MS, 3 * HOUR_MS])
  return random.weighted<Fate>([
    [{}, 3],
    [{ diesAt: random.int(1, 60), losesDisk: random.chance(0.3) }, 2],
    [{ cutOffAt: random.int(1, 12) }, 1],
    [{ pausesAt: random.int(1, 20), pauseMs }, 3],
  ])
}

/** Minutes, hours or days, by the store's clock. */
function passTime({ random, clock }: HostsPlay): void {
  const ms = random.weighted([
    [random.int(0, 20_000), 2],
    [random.int(1, 120) * 60_000, 3],
    [random.int(20, 60) * HOUR_MS, 1],
  ])
  clock.now = new Date(clock.now.getTime() + ms)
}

async function loseDisk(play: HostsPlay, { paths }: Host): Promise<void> {
  count(play, 'lost its disk')
  await rm(paths.root, { recursive: true, force: true })
}

/**
 * The bucket is lost, and with it every disk: an operator does what `docs/operating/recipes.md` says. The backup lacks the last
 * segments, so what they had is requested again.
 */
async function restoreBackup(play: HostsPlay): Promise<void> {
  const { random, s3, sealed, hosts } = play
  const keys = [...s3.objects.keys()].filter(key => key.startsWith(LOG)).sort()
  const lost = keys.slice(-random.int(1, 3))
  if (keys.length < 4) return
  count(play, 'restored a backup')
  for (const key of lost) {
    s3.objects.delete(key)
    sealed.delete(key)
  }
  for (const key of [...s3.objects.keys()])
    if (BESIDE_LOG.some(beginning => key.startsWith(beginning))) s3.objects.delete(key)
  for (const { paths } of hosts) await rm(paths.root, { recursive: true, force: true })
  play.hasRefetched = true
  const { flaky } = play
  play.flaky = 0
  await runOn(play, hosts[0] as Host, 'publish')
  play.flaky = flaky
  await forgetLater(play, hosts[0] as Host, keys.length - lost.length)
}

/** Without faults, every host ends with the same tables: those of the company. */
async function quietEnd(play: HostsPlay): Promise<void> {
  const { hosts, clock } = play
  Object.assign(play, { flaky: 0, changesPerAnswer: 0, redisIsThere: 1 })
  for (const host of hosts) host.isCutOff = false
  clock.now = new Date(clock.now.getTime() + HOUR_MS)
  const newcomer = await addHost(play)
  for (const host of hosts) {
    const report = await runOn(play, host, 'sync')
    assertHolds(
      report?.status === 'ok',
      () => `I16: an hour after the last fault, ${host.name} stands still: ${JSON.stringify(report)}`,
    )
    await checkNow(play, host)
    await checkKnown(play, host, report.run_id, play.hosts.slice(0, hosts.indexOf(host) + 1))
  }
  // One is rebuilt from the log, the others go on.
  for (const [index, host] of hosts.entries()) await runOn(play, host, index === 0 ? 'rebuild' : 'apply')
  const checkpoints = await checkCheckpoints(play)
  if (checkpoints > 0) count(play, 'had a checkpoint at the end')
  for (const host of hosts.filter(one => one !== newcomer))
    await checkSameTables(warehouseOf(newcomer), warehouseOf(host))
}
