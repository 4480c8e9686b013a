import { readdir, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { readApiSettings } from '#config/settings.ts'
import { createApiClient } from '#src/core/api/client.ts'
import { companyPaths, makeDirectories } from '#src/core/company/company.ts'
import { readState } from '#src/core/company/state.ts'
import type { RunResult } from '#src/core/pipeline/run.ts'
import { runQuietly } from '#src/operate/quiet_run.ts'
import { contextHere } from '#test/support/here.ts'
import { idOf, notices } from '#test/support/notices.ts'
import { type Environment, temporaryDirectory } from '#test/support/project.ts'
import { runShared } from '#test/support/shared.ts'
import { type SyncedCompany, startCompany, startSynced } from '#test/support/synced.ts'
import { expectTruth } from '#test/support/truth.ts'

const HOUR_MS = 3_600_000

const pathsOf = ({ DATA_DIR = '' }: Environment) => companyPaths(DATA_DIR, 'acme')

async function startSettled(count = 6): Promise<SyncedCompany> {
  return await startSynced(notices(1, count))
}

/** What `sync --json` prints, with the code 0. */
async function syncByHand({ environment }: SyncedCompany, ...options: readonly string[]) {
  const { code, stdout, stderr } = await runShared(['sync', '--json', ...options], environment)
  if (code !== 0) throw new Error(stderr)
  return JSON.parse(stdout) as Record<string, unknown>
}

/** A quiet run in this process; null if it leaves the list to another. */
async function quietHere(environment: Environment, now = () => new Date()): Promise<RunResult | null> {
  const context = { ...contextHere(environment), now }
  const { signal } = context
  const api = createApiClient({ ...readApiSettings(environment), retryMs: 10, signal, nowMs: Date.now })
  onTestFinished(() => api.close())
  await makeDirectories(context.paths)
  return await runQuietly({ ...context, api })
}

async function warehouseOf({ environment }: SyncedCompany): Promise<string> {
  const { size, mtimeMs } = await stat(pathsOf(environment).warehouse)
  return `${size} ${mtimeMs}`
}

describe('a run by hand that finds nothing new', () => {
  it('reports what a run reports, and does not open the warehouse', async () => {
    const company = await startSettled(210)
    const before = await warehouseOf(company)
    const counts = { listed: 210, unchanged: 210, added: 0, changed: 0, loaded: 0, deferred: 0, failed: 0 }
    expect(await syncByHand(company)).toMatchObject({
      ...counts,
      company: 'acme',
      mode: 'incremental',
      status: 'ok',
      requests: 2,
      scan_passes: 1,
      scan_complete: true,
      error: null,
    })
    expect(company.sandbox.requests.byKind).toEqual({ list: 2, notice: 0, analysis: 0, other: 0 })
    expect(await warehouseOf(company)).toBe(before)
    // The run that opens it agrees.
    expect(await company.syncHere()).toMatchObject(counts)
  })

  it('is one segment of the log, which the next run applies', async () => {
    const company = await startSettled()
    const { raw, root } = pathsOf(company.environment)
    const segments = async () => (await readdir(raw)).length
    const before = await segments()
    const quiet = [await syncByHand(company), await syncByHand(company)]
    expect(await segments()).toBe(before + 2)
    expect(await readdir(root)).not.toContain('tmp')
    company.world.update(idOf(1), { edital: { objeto: 'Outro' } })
    expect(await syncByHand(company)).toMatchObject({ changed: 1, loaded: 1, unchanged: 5 })
    const runs = await company.query<{ run_id: string; status: string }>(
      'SELECT run_id, status FROM sync_runs ORDER BY started_at',
    )
    expect(runs).toHaveLength(4)
    expect(runs.slice(1, 3)).toEqual(quiet.map(({ run_id }) => ({ run_id, status: 'ok' })))
    await expectTruth(company)
    const { code, stdout } = await runShared(['doctor'], company.environment)
    expect({ code, stdout }).toMatchObject({ code: 0, stdout: expect.stringMatching(/No problems found/) })
  })

  it('is not concerned by a file beside the snapshots', async () => {
    const company = await startSettled()
    await writeFile(join(pathsOf(company.environment).lake, 'snapshots', '.DS_Store'), '')
    expect(await syncByHand(company)).toMatchObject({ status: 'ok', unchanged: 6 })
  })

  it('counts as a good run, and looks go on from it', async () => {
    const company = await startSettled()
    const { run_id, finished_at } = await syncByHand(company)
    expect(await readState(pathsOf(company.environment))).toMatchObject({
      last_run: { run_id, status: 'ok' },
      last_good_at: finished_at,
      looked_at: null,
    })
    const { stdout } = await runShared(['status', '--json'], company.environment)
    expect(JSON.parse(stdout)).toMatchObject({ last_run: { run_id } })
    expect(await quietHere(company.environment)).not.toBeNull()
  })

  it('counts notices whose analyses are not wanted as deferred', async () => {
    const company = await startCompany(notices(1, 3).concat(notices(4, 6, { status: 'discarded' })), {
      ANALYSIS_STATUSES: 'analysis',
    })
    const first = await company.syncHere()
    expect(await syncByHand(company)).toMatchObject({
      listed: 6,
      unchanged: first.loaded,
      deferred: first.deferred,
      status: 'ok',
    })
    expect(first.deferred).toBe(3)
  })
})

describe('a run by hand opens the warehouse', () => {
  it.each([['--full'], ['--status', 'analysis'], ['--id', idOf(1)]])('with %s', async (...options) => {
    const company = await startSettled()
    const before = await warehouseOf(company)
    await syncByHand(company, ...options)
    expect(await warehouseOf(company)).not.toBe(before)
  })

  it('once an hour, so that the snapshots show recent runs', async () => {
    const { environment, syncHere } = await startCompany(notices(1, 6))
    await syncHere()
    const in59Minutes = () => new Date(Date.now() + HOUR_MS - 60_000)
    expect(await quietHere(environment, in59Minutes)).not.toBeNull()
    // Counted from the run before it, which opened the warehouse.
    const inOneHour = () => new Date(Date.now() + HOUR_MS)
    expect(await quietHere(environment, inOneHour)).toBeNull()
  })

  it('if something is new, with few requests more', async () => {
    const company = await startSettled(210)
    company.world.update(idOf(210), { edital: { objeto: 'Outro' } })
    const { requests } = await syncByHand(company)
    const { list, notice, analysis } = company.sandbox.requests.byKind
    expect(requests).toBe(list + notice + analysis)
    expect({ list, analysis }).toEqual({ list: 3, analysis: 1 })
  })

  it('if there is no snapshot', async () => {
    const company = await startSettled()
    await rm(join(pathsOf(company.environment).lake, 'latest'))
    expect(await quietHere(company.environment)).toBeNull()
    await syncByHand(company)
    await expectTruth(company)
  })

  it('if the data were moved', async () => {
    const { environment } = await startSettled()
    const moved = join(await temporaryDirectory(), 'moved')
    await rename(environment.DATA_DIR ?? '', moved)
    for (const command of ['sync', 'status']) {
      const { code, stderr } = await runShared([command], { ...environment, DATA_DIR: moved })
      expect({ command, code, stderr }).toEqual({ command, code: 0, stderr: '' })
    }
  })

  it('if the API fails, and reports it as before', async () => {
    const company = await startSettled()
    company.faults.plan = [{ fault: 'status', status: 401 }]
    const { code, stderr } = await runShared(['sync'], company.environment)
    expect(code).toBe(1)
    expect(stderr).toMatch(/API_KEY/)
  })

  it('if the API is busy: the look does not wait as a run does', async () => {
    const company = await startSettled()
    const before = await warehouseOf(company)
    company.faults.plan = [{ fault: 'status', status: 429, retryAfterSeconds: 0, kinds: ['list'], first: 4 }]
    // Two requests of the look, then two that the run waits out.
    expect(await syncByHand(company)).toMatchObject({ status: 'ok', requests: 5, unchanged: 6 })
    expect(await warehouseOf(company)).not.toBe(before)
  })

  it('at the pace of API_MAX_RPS, together with the look', async () => {
    const company = await startSettled()
    company.world.update(idOf(6), { edital: { objeto: 'Outro' } })
    const environment = { ...company.environment, API_MAX_RPS: '1' }
    expect(await syncByHand({ ...company, environment })).toMatchObject({ requests: 3, loaded: 1 })
    expect(company.sandbox.requests.total).toBe(3)
    const times = company.sandbox.requests.recent.map(({ at }) => at.getTime())
    // Two intervals of a second: so long that what a slow machine takes to receive the first request hides neither of them.
    expect((times.at(-1) ?? 0) - (times[0] ?? 0)).toBeGreaterThanOrEqual(1920)
  })
})
