import { readApiSettings, readSettings } from '#config/settings.ts'
import { createApiClient } from '#src/core/api/client.ts'
import { writeLook } from '#src/core/company/state.ts'
import { NEXT } from '#src/core/pipeline/run.ts'
import { listSealedSegments } from '#src/core/rawlog/files.ts'
import { Database } from '#src/core/warehouse/database.ts'
import { type Look, look } from '#src/operate/look.ts'
import { plan } from '#src/operate/plan.ts'
import type { Random } from '#src/sandbox/random.ts'
import type { Entry, World } from '#src/sandbox/world.ts'
import { assertHolds } from './assertions.ts'
import { beginRun } from './company.ts'
import { CALM, drawNetworkFaults } from './network_faults.ts'
import * as oracle from './oracle.ts'
import { count, type Play } from './play.ts'
import { inNoTime } from './remote/store.ts'
import { readStored } from './stored.ts'

/** Older than any time that passes: other reasons for a run must suffice. */
const MAX_AGE_MS = 400 * 24 * 3_600_000
const KEPT_PASTS = 4

type Past = ReadonlyMap<string, Entry>

/** Remembers the company as it is now: it may return to this state. */
export function rememberPast({ company, pasts }: Play): void {
  pasts.push(pastOf(company.world))
  if (pasts.length > KEPT_PASTS) pasts.shift()
}

/** Looks as the daemon does before a run. */
export async function lookBefore(play: Play): Promise<void> {
  await oneLook(play, { isSteady: play.looking.chance(0.7) })
}

/** Looks after a run, or what was left of it, as if all that changed since an earlier run had changed back. */
export async function lookBack(play: Play): Promise<void> {
  const { company, pasts } = play
  const present = pastOf(company.world)
  for (const past of pasts) {
    returnTo(company.world, past)
    await oneLook(play, { isSteady: true })
  }
  returnTo(company.world, present)
}

/** @param isSteady nothing changes and no answer is lost: then a run would see the same list. */
export async function oneLook(play: Play, { isSteady }: { isSteady: boolean }): Promise<Look> {
  const { company, sandbox, looking } = play
  const before = { alterations: company.alterations, changesPerAnswer: company.changesPerAnswer }
  Object.assign(company, disturbance(looking, isSteady))
  const pageSize = looking.chance(0.75) ? looking.int(1, 9) : null
  const { plan: faults } = isSteady ? CALM : drawNetworkFaults(looking, pageSize)
  sandbox.faults.plan = [...faults]
  beginRun(company.ledger, false)
  const found = await look(contextOf(play))
  count(play, `look: ${found.isNew ? (found.hasAsked ? 'something new' : 'not worth it') : 'nothing new'}`)
  play.log(`    look: ${JSON.stringify(found.isNew ? found.why : 'nothing new')}`)
  if (!found.isNew) {
    await checkNothingNew(play, isSteady)
    await writeLook(play.paths, { at: play.clock.now.toISOString(), run_id: found.state.last_run.run_id })
  }
  sandbox.faults.plan = []
  Object.assign(company, before)
  return found
}

function disturbance(random: Random, isSteady: boolean) {
  if (isSteady) return { alterations: 0, changesPerAnswer: 0 }
  return { alterations: random.pick([0, 0.02, 0.1]), changesPerAnswer: random.pick([0, 0.1, 0.5]) }
}

function contextOf({ environment, paths, clock }: Play) {
  const { signal } = new AbortController()
  const openApi = async () =>
    createApiClient({ ...readApiSettings(environment), retryMs: 1, signal, nowMs: Date.now, retries: 1 })
  const settings = inNoTime(readSettings(environment))
  return { paths, settings, now: () => clock.now, maxAgeMs: MAX_AGE_MS, openApi, signal }
}

/** The lake shows what the list showed, and a run would do nothing. */
async function checkNothingNew(play: Play, isSteady: boolean): Promise<void> {
  const { paths, company } = play
  const stored = await readStored(paths)
  oracle.checkFresh(stored, company.ledger)
  const live = [...stored.notices].filter(([, { deleted }]) => !deleted).map(([id]) => id)
  const missing = live.filter(id => !company.ledger.ofRun.listed.has(id))
  assertHolds(missing.length === 0, () => `a look found nothing new, but the list does not show ${missing}`)
  await checkApplied(play)
  if (!isSteady) return
  const would = await planOf(play)
  const { listed, unchanged, deferred, tombstoned, to_fetch } = would
  assertHolds(
    unchanged + deferred === listed && tombstoned + to_fetch === 0,
    () => `a look found nothing new, but a run would do this: ${JSON.stringify(would)}`,
  )
}

async function checkApplied({ paths }: Play): Promise<void> {
  const sealed = (await listSealedSegments(paths.raw)).length
  const db = await Database.open(paths.warehouse, { readOnly: true, threads: 1 })
  try {
    const { applied } = await db.row<{ applied: number }>('SELECT applied_segment AS applied FROM meta')
    assertHolds(
      applied === sealed,
      () => `a look found nothing new, but only ${applied} of ${sealed} segments are applied`,
    )
  } finally {
    db.close()
  }
}

async function planOf(play: Play) {
  const { openApi: _, ...context } = contextOf(play)
  const { signal } = context
  const api = createApiClient({ ...readApiSettings(play.environment), retryMs: 1, signal, nowMs: Date.now })
  return await plan(NEXT, { ...context, api, onProgress: () => {} }).finally(() => api.close())
}

function pastOf(world: World): Past {
  return new Map(world.ids().map(id => [id, world.entry(id) as Entry]))
}

function returnTo(world: World, past: Past): void {
  for (const id of world.ids()) if (!past.has(id)) world.remove(id)
  for (const [id, entry] of past) if (world.entry(id) !== entry) world.put(entry)
}
