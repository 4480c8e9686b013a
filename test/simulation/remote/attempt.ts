import { readLatestName, requireLatest } from '#src/core/lake/manifest.ts'
import { withTables } from '#src/extras/object_store/remote_lake.ts'
import { readRemoteState } from '#src/extras/object_store/state.ts'
import { vacuumRemote } from '#src/extras/object_store/vacuum.ts'
import { RemoteError } from '#src/lib/objects/objects.ts'
import type { Random } from '#src/sandbox/random.ts'
import { assertHolds } from '../assertions.ts'
import type { Watch } from '../crash_point.ts'
import { contextOf } from '../operations.ts'
import { count, type Play } from '../play.ts'
import { checkKept, checkReadable, checkVacuumed, latestOf, rememberLocal } from './check.ts'
import type { StoreFaults } from './store.ts'

const HOUR_MS = 3_600_000
/** How often somebody reads between two requests. */
const READS = 0.01

export function drawStoreFaults(random: Random): StoreFaults {
  return random.weighted<StoreFaults>([
    ['none', 4],
    ['flaky', 4],
    ['down later', 1],
    ['down', 1],
  ])
}

/** A reader begins anew after each replacement of `latest.json`, and now and then between other requests. */
export function watchStore(play: Play, watched: Watch, faults: StoreFaults): void {
  const { store, storing, local, paths } = play
  if (store === null) return
  store.faults = faults
  store.reach = watched.reach
  store.look = async step => {
    if (watched.wrong || (step !== 'remote.latest' && !storing.chance(READS))) return
    rememberLocal(paths, local)
    try {
      await checkReadable(store, local)
      count(play, 'store: read between two requests')
    } catch (error) {
      watched.wrong = error as Error
    }
  }
}

/** After an operation. If nothing was injected, the store has what it should have. */
export async function checkStore(play: Play, { isCalm }: { isCalm: boolean }): Promise<void> {
  const { store, local, paths, environment } = play
  if (store === null) return
  Object.assign(store, { faults: 'none', reach: () => {}, look: async () => {} })
  rememberLocal(paths, local)
  await checkReadable(store, local)
  await checkKept(store, local)
  const name = await readLatestName(paths.lake)
  const latest = latestOf(store)
  if (!isCalm || name === null) return
  const state = await readRemoteState(paths.remote)
  assertHolds(state?.error === null, () => `I13: without faults, the publish failed: ${state?.error}`)
  const { applied_segment, log } = await requireLatest(paths.lake)
  // A rebuild makes another snapshot of the same data, which the store need not get.
  const isSame = latest?.applied_segment === applied_segment && latest.log === log
  const isThere = (isSame || latest?.snapshot === name) && latest?.pending === null
  if (environment.LAKE_PUBLISH_INTERVAL === '0s')
    assertHolds(isThere, () => `I13: the store has ${latest?.snapshot}, the local lake ${name}`)
  count(play, isThere ? 'store: has the latest snapshot' : 'store: waits for the interval')
}

/** Manual or nightly, sometimes in a store with faults: it then stops with one message, and does no harm. */
export async function maybeVacuum(play: Play): Promise<void> {
  const { store, storing, paths, local } = play
  if (store === null || !storing.chance(0.3)) return
  const { settings, now } = contextOf(play, play.environment, new AbortController().signal)
  const { remoteLake } = settings
  if (remoteLake === null || latestOf(store) === null) return
  store.faults = storing.pick(['none', 'none', 'flaky', 'down later'])
  const { company } = paths
  // After the grace period of objects that nothing names.
  const at = new Date(now().getTime() + 48 * HOUR_MS)
  const keepMs = 0
  const outcome = await withTables(remoteLake, { company }, ({ store, formats }) =>
    vacuumRemote(store, { company, formats, keepMs, now: at }),
  ).catch(error => error)
  const { faults } = store
  store.faults = 'none'
  play.log(`    vacuum (${faults}): ${JSON.stringify(outcome)} ${outcome}`)
  const isRefused = outcome instanceof RemoteError
  if (outcome instanceof Error && !isRefused) throw outcome
  const isExpected = faults !== 'none' || latestOf(store)?.pending !== null
  assertHolds(!isRefused || isExpected, () => `I13: without faults, vacuum failed: ${outcome.message}`)
  count(play, `store: vacuum ${isRefused ? 'refused' : 'done'}`)
  await checkReadable(store, local)
  await checkKept(store, local)
  if (!isRefused) await checkVacuumed(store)
}
