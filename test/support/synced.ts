import { expect, onTestFinished } from 'vitest'
import type { RunReport } from '#src/core/company/run_report.ts'
import type { Row } from '#src/core/warehouse/database.ts'
import type { Faults } from '#src/sandbox/faults.ts'
import { type Sandbox, startSandbox } from '#src/sandbox/server.ts'
import { type Entry, World } from '#src/sandbox/world.ts'
import type { SyncRequest } from '#src/sync.ts'
import { leaveFirstRun } from './first_run.ts'
import { syncHere } from './here.ts'
import { type Environment, queryLatest, settingsFor, syncOnce, temporaryDirectory } from './project.ts'
import { runShared } from './shared.ts'

export const KEY = 'edk_test_3f9c1d7a5b'

/** A company in a sandbox, and the directory that its notices are synced to. */
export type SyncedCompany = {
  readonly world: World
  readonly sandbox: Sandbox
  readonly faults: Faults
  readonly environment: Environment
  /**
   * Clears the request log, runs `sync --json` in the shared process, and checks what every report must satisfy: each
   * listed notice has one outcome, and the report counts as many requests as the sandbox.
   */
  sync(args?: readonly string[], code?: number): Promise<RunReport>
  /** The same in this process, for tests of many runs. */
  syncHere(request?: Partial<SyncRequest>): Promise<RunReport>
  /** Rows of the latest snapshot. */
  query<T extends Row>(sql: string): Promise<T[]>
}

/** Serves the entries as company `acme` and creates an empty data directory for it. */
export async function startCompany(
  entries: Iterable<Entry> | World,
  settings: Environment = {},
): Promise<SyncedCompany> {
  const world = entries instanceof World ? entries : new World(entries)
  const sandbox = await startSandbox({ companies: [{ slug: 'acme', key: KEY, world }] })
  onTestFinished(() => sandbox.close())
  const dataDir = await temporaryDirectory()
  const environment = { ...settingsFor({ url: sandbox.url, key: KEY, dataDir }), ...settings }
  return companyAt(sandbox, world, environment)
}

/**
 * The same after a first run, for tests that begin with the next one; no request is counted yet. The run can be some
 * minutes old: tests of its age make their own.
 */
export async function startSynced(
  entries: Iterable<Entry> | World,
  settings: Environment = {},
): Promise<SyncedCompany> {
  const company = await startCompany(entries, settings)
  await leaveFirstRun(company.world, company.environment)
  company.sandbox.requests.reset()
  return company
}

/** The same as `startCompany` for a given sandbox and settings. */
export function companyAt(sandbox: Sandbox, world: World, environment: Environment): SyncedCompany {
  async function checked(run: () => Promise<RunReport>): Promise<RunReport> {
    sandbox.requests.reset()
    const report = await run()
    expectConserved(report)
    expect(report.requests).toBe(sandbox.requests.total)
    return report
  }
  return {
    world,
    sandbox,
    faults: sandbox.faults,
    environment,
    sync: (args = [], code = 0) => checked(() => syncOnce(environment, args, code, runShared)),
    syncHere: request => checked(async () => (await syncHere(environment, request)).report),
    query: sql => queryLatest(environment, sql),
  }
}

/** Invariant I1: listed is the sum of the outcomes. */
export function expectConserved(report: RunReport): void {
  const { unchanged, loaded, deferred, gone, quarantined, failed, not_attempted } = report
  expect(unchanged + loaded + deferred + gone + quarantined + failed + not_attempted).toBe(report.listed)
}
