import { AsyncLocalStorage } from 'node:async_hooks'
import { existsSync } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import { readApiSettings, readSettings } from '#config/settings.ts'
import { createApiClient } from '#src/core/api/client.ts'
import type { RunReport } from '#src/core/company/run_report.ts'
import { openOptions, publishWarehouse } from '#src/core/pipeline/run.ts'
import { openWarehouse, rebuildWarehouse } from '#src/core/warehouse/warehouse.ts'
import type { CompanyContext } from '#src/extras/extra.ts'
import { LogInStore } from '#src/extras/shared_log/log.ts'
import { observeSteps } from '#src/lib/durable.ts'
import { EXIT, explain } from '#src/lib/errors.ts'
import { holdCompany } from '#src/operate/open.ts'
import { sync } from '#src/sync.ts'
import { inTime } from '#test/simulation/attempt.ts'
import { quietContext } from '#test/support/here.ts'
import { assertHolds } from '../assertions.ts'
import { Dead } from '../crash_point.ts'
import { inNoTime } from '../remote/store.ts'
import { checkAsked, checkDisk, checkLog, checkNow } from './check.ts'
import { share } from './known.ts'
import {
  count,
  type Host,
  type HostRun,
  type HostsPlay,
  leftBy,
  reach,
  rememberSealed,
  sealedVersions,
} from './play.ts'

/** `apply` takes in what others sealed, and publishes nothing. */
export type Operation = 'sync' | 'full' | 'apply' | 'publish' | 'rebuild'

/** What happens to a run; all of it by default never. */
export type Fate = Partial<Pick<HostRun, 'diesAt' | 'cutOffAt' | 'pausesAt' | 'pauseMs'>> & {
  /** If the process dies, its disk is lost with it. */
  readonly losesDisk?: boolean
}

/** One run of the real program on a host, and the checks after it. */
export async function runOn(
  play: HostsPlay,
  host: Host,
  operation: Operation,
  fate: Fate = {},
): Promise<RunReport | null> {
  await play.turns.begin(host)
  try {
    return await runNow(play, host, operation, fate)
  } finally {
    play.active.delete(host)
    play.turns.end(host)
  }
}

async function runNow(
  play: HostsPlay,
  host: Host,
  operation: Operation,
  fate: Fate,
): Promise<RunReport | null> {
  const number = ++play.runs
  const run: HostRun = {
    ...{ diesAt: 0, cutOffAt: Number.POSITIVE_INFINITY, pausesAt: 0, pauseMs: 0 },
    ...fate,
    ...{ host, steps: 0, storeRequests: 0, requests: 0, wasPaused: false, asked: [] },
    ...{ hadCompany: play.active.size > 0, sealedMeanwhile: new Set<string>(), askedAgain: [] },
  }
  for (const other of play.active.values()) other.hadCompany = true
  play.active.set(host, run)
  host.isCutOff = false
  rememberSealed(play)
  const before = await sealedVersions(play)
  if (operation === 'full') play.hasRefetched = true
  const { report, error } = await inTime(
    ONE.run(run, () => perform(play, host, operation)),
    operation,
  )
  // Redis may be away.
  if (report && !host.isDead && play.random.chance(play.redisIsThere)) await share(play, host)
  play.log(
    `${number}. ${host.name} ${operation}: ${describe(run)}; ${error ? explain(error).message : JSON.stringify(report)}`,
  )
  count(play, `operation: ${operation}`)
  const { isDead, isCutOff } = host
  if (isDead) await bury(host, fate.losesDisk ?? false)
  if (error) checkError(play, error, { ...run, wasDead: isDead, wasCutOff: isCutOff })
  if (isDead || isCutOff || play.flaky > 0) play.isUnreleased = true
  await checkLog(play)
  if (operation === 'sync' && !play.hasRefetched) checkAsked(run, before)
  if (existsSync(host.paths.raw)) await checkDisk(play, host)
  if (error) return null
  // The company may have changed while the others ran, and a process that died after its report may have lost its disk.
  const isAlone = !run.wasPaused && !run.hadCompany && !(isDead && fate.losesDisk)
  if (report?.status === 'ok' && play.changesPerAnswer === 0 && isAlone) await checkNow(play, host)
  return report
}

async function perform(play: HostsPlay, host: Host, operation: Operation): Promise<RunReport | null> {
  const context = contextOf(play, host)
  const silent = { progress() {}, note() {} }
  return await holdCompany(context, silent, { what: operation, waitSeconds: 0 }, async () => {
    const isFull = operation === 'full'
    if (operation !== 'sync' && !isFull) {
      const open = operation === 'rebuild' ? rebuildWarehouse : openWarehouse
      const warehouse = await open(openOptions(context))
      const done = operation === 'apply' ? null : publishWarehouse(context, warehouse)
      await Promise.resolve(done).finally(() => warehouse.db.close())
      return null
    }
    const { signal } = context
    const api = createApiClient({ ...readApiSettings(host.environment), retryMs: 1, signal, nowMs: Date.now })
    const request = { full: isFull, restart: isFull, statuses: null, ids: null, allowMassDelete: true }
    try {
      return (await sync(request, { ...context, api })).report
    } finally {
      await api.close()
    }
  })
}

function contextOf(play: HostsPlay, host: Host): CompanyContext {
  const { clock, ticking } = play
  const settings = inNoTime(readSettings(host.environment))
  const number = play.runs
  let names = 0
  // As real ones: a checkpoint is named after its warehouse.
  const newId = () => `${clock.now.toISOString().replace(/[-:.]/g, '')}-${host.name}-${number}-${names++}`
  const { paths } = host
  const { signal } = new AbortController()
  const now = () => {
    clock.now = new Date(clock.now.getTime() + (ticking.chance(0.04) ? 61_000 : ticking.int(0, 20)))
    return new Date(clock.now.getTime() + host.clockOffMs)
  }
  const sharedLog = settings.remoteLog && new LogInStore(settings.remoteLog, paths, signal)
  return quietContext({ paths, settings, signal, newId, now, sharedLog })
}

/** The run that does something: hosts are processes of their own, but here they share one. */
const ONE = new AsyncLocalStorage<HostRun>()

/** Each step of a disk may be the last one of its process. */
export function watchSteps(play: HostsPlay): void {
  observeSteps((_, when, operation) => {
    const path = 'path' in operation ? operation.path : ''
    const host = play.hosts.find(({ paths }) => path.startsWith(`${paths.root}/`)) ?? ONE.getStore()?.host
    if (!host) return
    if (host.isDead) throw new Dead()
    if (when === 'before') reach(play, host)
    if (host.isDead) throw new Dead()
  })
}

/** The next process on that host finds what the dead one left. */
async function bury(host: Host, losesDisk: boolean): Promise<void> {
  const { root } = host.paths
  await rm(root, { recursive: true, force: true })
  if (losesDisk) await rm(leftBy(host), { recursive: true, force: true })
  else if (existsSync(leftBy(host))) await rename(leftBy(host), root)
  host.isDead = false
}

function describe({ host, wasPaused, steps, storeRequests, pausesAt }: HostRun): string {
  const happened = [
    host.isDead ? `died at step ${steps}` : '',
    host.isCutOff ? `cut off at request ${storeRequests}` : '',
    wasPaused ? `stood still at request ${pausesAt}` : '',
  ]
  return happened.filter(Boolean).join(', ') || 'undisturbed'
}

/** A run may throw only if something happened to it, or to whoever held the log before. */
function checkError(
  play: HostsPlay,
  error: unknown,
  run: HostRun & { wasDead: boolean; wasCutOff: boolean },
): void {
  const { message, exitCode } = explain(error)
  if (run.wasDead) return
  const isOfStore = /The raw log is in that store/.test(message) && (run.wasCutOff || play.flaky > 0)
  const isHeld = exitCode === EXIT.held && /is held by/.test(message)
  const isFenced = exitCode === EXIT.held && /has sealed segment|took over/.test(message)
  const mayBeHeld = play.isUnreleased || run.hadCompany
  assertHolds(
    isOfStore || (isHeld && mayBeHeld) || (isFenced && (run.wasPaused || run.hadCompany)),
    () => `I14: a run of ${run.host.name} ended with: ${message} ${(error as Error).stack}`,
  )
  count(play, isOfStore ? 'ended: the store failed' : isHeld ? 'ended: held' : 'ended: another one took over')
}
