import { readApiSettings, readSettings } from '#config/settings.ts'
import { createApiClient } from '#src/core/api/client.ts'
import type { RunReport } from '#src/core/company/run_report.ts'
import { openOptions, publishWarehouse } from '#src/core/pipeline/run.ts'
import { openWarehouse, rebuildWarehouse } from '#src/core/warehouse/warehouse.ts'
import type { CompanyContext } from '#src/extras/extra.ts'
import { EXIT, FatalError } from '#src/lib/errors.ts'
import { RemoteError } from '#src/lib/objects/objects.ts'
import { publishBehind } from '#src/operate/extras.ts'
import { holdCompany } from '#src/operate/open.ts'
import { replay } from '#src/operate/replay.ts'
import type { Random } from '#src/sandbox/random.ts'
import { type SyncRequest, sync } from '#src/sync.ts'
import { quietContext } from '#test/support/here.ts'
import { assertHolds } from './assertions.ts'
import { OTHER_KEY, type Play } from './play.ts'
import { inNoTime } from './remote/store.ts'

/** What an operator, or the schedule, does. */
export type Operation =
  | 'sync'
  | 'full'
  | 'restart'
  | 'statuses'
  | 'ids'
  | 'replay'
  | 'publish'
  | 'rebuild'
  | 'other key'

export function drawOperation(random: Random): Operation {
  return random.weighted<Operation>([
    ['sync', 12],
    ['full', 3],
    ['restart', 1],
    ['statuses', 1],
    ['ids', 1],
    ['replay', 1],
    ['publish', 0.5],
    ['rebuild', 1],
    ['other key', 2],
  ])
}

/** @returns the report, if the operation has one. */
export async function perform(
  play: Play,
  operation: Operation,
  { signal, trusted }: { signal: AbortSignal; trusted: boolean },
): Promise<RunReport | null> {
  const environment =
    operation === 'other key' ? { ...play.environment, API_KEY: OTHER_KEY } : play.environment
  const context = contextOf(play, environment, signal)
  const report = await run(play, operation, { context, environment, trusted })
  // As a command does. What the store refuses is remembered.
  await publishBehind(context, SILENT, { what: operation, waitSeconds: 0 }).catch(error => {
    if (!(error instanceof RemoteError)) throw error
  })
  return report
}

type Means = {
  readonly context: CompanyContext
  readonly environment: Readonly<Record<string, string>>
  readonly trusted: boolean
}

async function run(
  play: Play,
  operation: Operation,
  { context, environment, trusted }: Means,
): Promise<RunReport | null> {
  const { signal } = context
  return await holdCompany(context, SILENT, { what: operation, waitSeconds: 0 }, async () => {
    // Not each time: the second process waits a little for the lock.
    if (play.random.chance(0.15)) await checkHeld(context)
    if (operation === 'publish' || operation === 'rebuild') {
      const open = operation === 'publish' ? openWarehouse : rebuildWarehouse
      const warehouse = await open(openOptions(context))
      await publishWarehouse(context, warehouse).finally(() => warehouse.db.close())
      return null
    }
    if (operation === 'replay') return (await replay(context)).report
    const api = createApiClient({ ...readApiSettings(environment), retryMs: 1, signal, nowMs: Date.now })
    try {
      return (await sync(requestOf(play, operation, trusted), { ...context, api })).report
    } finally {
      await api.close()
    }
  })
}

const SILENT = { progress() {}, note() {} }

/** I8: no other process gets the company at the same time. */
async function checkHeld(context: CompanyContext): Promise<void> {
  const refused = await holdCompany(
    context,
    SILENT,
    { what: 'another', waitSeconds: 0 },
    async () => null,
  ).catch(error => error)
  assertHolds(
    refused instanceof FatalError && refused.exitCode === EXIT.held,
    () => 'I8: a second process got the company while the first one held it',
  )
}

export function contextOf(
  play: Play,
  environment: Readonly<Record<string, string>>,
  signal: AbortSignal,
): CompanyContext {
  const { ticking, clock, paths, pace } = play
  let names = 0
  const settings = inNoTime(readSettings(environment))
  const newId = () => `${clock.now.toISOString()}-${play.runs}-${names++}`
  // Time passes during a run; a slow minute seals a segment early.
  const now = () => {
    clock.now = new Date(clock.now.getTime() + (ticking.chance(0.03) ? 61_000 : ticking.int(0, 20)))
    return clock.now
  }
  return quietContext({ paths, settings, signal, newId, now, sharedLog: null, ...pace })
}

function requestOf({ random, company }: Play, operation: Operation, trusted: boolean): SyncRequest {
  const ids = [...random.sample(company.world.ids(), 3), ...random.sample(company.world.removedIds(), 1)]
  return {
    full: operation === 'full' || operation === 'restart',
    restart: operation === 'restart',
    statuses: operation === 'statuses' ? ['analysis', 'pricing'] : null,
    ids: operation === 'ids' ? ids : null,
    allowMassDelete: trusted,
  }
}
