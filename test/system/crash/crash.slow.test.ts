import { existsSync } from 'node:fs'
import { mkdir, readdir, readlink, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import type { RunReport } from '#src/core/company/run_report.ts'
import type { Entry } from '#src/sandbox/world.ts'
import { bareNotice, idOf, noticeEntry, notices } from '#test/support/notices.ts'
import {
  companyDirectory,
  type Ended,
  type Environment,
  runCommand,
  startCommand,
} from '#test/support/project.ts'
import { expectConserved, type SyncedCompany, startCompany, startSynced } from '#test/support/synced.ts'
import { dataTables, queryWarehouse, type Tables, warehouseTables } from '#test/support/tables.ts'
import { expectTruth, snapshots } from '#test/support/truth.ts'

const NOON = new Date('2026-11-20T12:00:00Z')
/** Columns that depend on the run and on its time. */
const OF_THE_RUN = [
  ...['run_id', 'fetched_at', 'observed_at', 'first_seen_at', 'changed_at', 'last_seen_at'],
  ...['next_attempt_at', '_segment', '_seq'],
]
const NOTICES = 40
const BROKEN = idOf(7)

/** Includes a notice with a broken analysis, and one that partly departs from the contract. */
function entries(): Entry[] {
  return [
    ...notices(1, NOTICES - 1),
    noticeEntry(NOTICES, { dias_restantes: 3 }, { analysis_level: 'deepest', requirements: [] }),
  ]
}

async function startBroken(): Promise<SyncedCompany> {
  const company = await startCompany(entries())
  company.faults.plan = [{ fault: 'truncate', kinds: ['analysis'], ids: [BROKEN] }]
  return company
}

async function tablesOf(environment: Environment): Promise<Tables> {
  return dataTables(await warehouseTables(environment, OF_THE_RUN))
}

let undisturbed: Tables | undefined
async function undisturbedTables(): Promise<Tables> {
  if (!undisturbed) {
    const company = await startBroken()
    expect(await company.syncHere({ full: true })).toMatchObject({ loaded: NOTICES - 1, quarantined: 1 })
    undisturbed = await tablesOf(company.environment)
  }
  return undisturbed
}

async function waitFor(condition: () => boolean): Promise<void> {
  while (!condition()) await sleep(1)
}

type Moment = (company: SyncedCompany) => Promise<void>

/** Resolves at the nth request for a list page or an analysis; that request is never answered. */
function onAsked(kind: 'list' | 'analysis', nth: number): Moment {
  return ({ faults }) =>
    new Promise(resolve => {
      let asked = 0
      faults.onRequest = async request => {
        if (request.kind === kind) asked += 1
        if (asked < nth) return
        resolve()
        await new Promise(() => {})
      }
    })
}

/** Resolves once the directory, below the company's, has a file or directory that matches the pattern. */
function onFile(directory: string, pattern: RegExp): Moment {
  return async ({ environment }) => {
    const path = join(companyDirectory(environment), directory)
    for (;;) {
      // Directories appear and vanish while they are read.
      const names = await readdir(path, { recursive: true }).catch((): string[] => [])
      if (names.some(name => pattern.test(name))) return
      await sleep(1)
    }
  }
}

/** Runs `sync`, and sends it the signal at the given moment. */
async function syncUntil(
  company: SyncedCompany,
  moment: Moment,
  signal: 'SIGKILL' | 'SIGINT',
  args: readonly string[] = [],
): Promise<Ended> {
  const { environment, faults, sandbox } = company
  sandbox.requests.reset()
  const reached = moment(company)
  const { child, ended } = startCommand(['sync', '--json', ...args], environment, environment.DATA_DIR ?? '')
  await reached
  child.kill(signal)
  const result = await ended
  // Requests that it had sent may still arrive, and would count as those of the next run.
  await waitFor(() => sandbox.connections() === 0)
  faults.onRequest = undefined
  return result
}

test.each<{ when: string; moment: Moment; runs: number }>([
  { when: 'while it reads the list', moment: onAsked('list', 1), runs: 2 },
  { when: 'right after the first segment', moment: onAsked('analysis', 1), runs: 2 },
  {
    when: 'when a snapshot is almost complete',
    moment: onFile('lake/snapshots', /catalog.duckdb$/),
    runs: 2,
  },
])(
  'a full run that is killed $when, and run again, ends like an undisturbed one',
  async ({ moment, runs }) => {
    const expected = await undisturbedTables()
    const company = await startBroken()
    const { code } = await syncUntil(company, moment, 'SIGKILL', ['--full'])
    expect(code).toBeNull()
    await company.syncHere()
    expect(await tablesOf(company.environment)).toEqual(expected)
    await expectPublished(company)
    const ended = await company.query('SELECT status FROM sync_runs ORDER BY started_at')
    expect(ended.length).toBeLessThanOrEqual(runs)
    expect(await readdir(join(companyDirectory(company.environment), 'raw'))).not.toContainEqual(
      expect.stringContaining('.part'),
    )
  },
)

/** The snapshot that `latest` points to holds the tables of the warehouse. */
async function expectPublished(company: SyncedCompany): Promise<void> {
  const tables = dataTables(await warehouseTables(company.environment))
  const counts = Object.keys(tables).map(name => `(SELECT count(*) FROM "${name}") AS "${name}"`)
  expect(await company.query(`SELECT ${counts.join(', ')}`)).toEqual([
    Object.fromEntries(Object.entries(tables).map(([name, rows]) => [name, rows.length])),
  ])
}

test('a killed run costs refetching at most one segment', async () => {
  const all = 3200
  const company = await startCompany(Array.from({ length: all }, (_, index) => bareNotice(index + 1)))
  // Segments 1 and 2 hold the notices, 3 to 6 the first 3,056 analyses: each half of those to come, the last one 256.
  const sealed = join(companyDirectory(company.environment), 'raw/000006.ndjson.zst')
  const moment: Moment = async setting => {
    await onAsked('analysis', all - 50)(setting)
    await waitFor(() => existsSync(sealed))
  }
  await syncUntil(company, moment, 'SIGKILL')
  const report = await company.syncHere()
  expect(report).toMatchObject({ added: 0, changed: 0, listed: all })
  expect(report.unchanged).toBeGreaterThanOrEqual(3000)
  expect(report.loaded).toBe(all - report.unchanged)
  expect(company.sandbox.requests.byKind.analysis).toBe(report.loaded)
  expect(await company.query('SELECT count(*) AS n FROM analyses')).toEqual([{ n: all }])
})

test('an interrupted run keeps its data, and a full run resumes after a kill and a restart', async () => {
  const company = await startCompany(notices(1, NOTICES))
  const first = await interrupted(company, [])
  expect(await company.query('SELECT count(*) AS n FROM editais')).toEqual([{ n: NOTICES }])
  expect(await company.query('SELECT count(*) AS n FROM analyses')).toEqual([{ n: first.loaded }])
  expect(await company.syncHere()).toMatchObject({
    unchanged: first.loaded,
    loaded: NOTICES - first.loaded,
    status: 'ok',
  })
  await expectTruth(company)

  const full = await interrupted(company, ['--full'])
  await syncUntil(company, onAsked('analysis', 5), 'SIGKILL', ['--full'])
  const rest = await company.syncHere({ full: true })
  expect(rest).toMatchObject({ unchanged: full.loaded, loaded: NOTICES - full.loaded })
  expect(company.sandbox.requests.byKind.analysis).toBe(NOTICES - full.loaded)
  // That full run is done: the next one starts over.
  await interrupted(company, ['--full'])
  expect(await company.syncHere({ full: true, restart: true })).toMatchObject({ loaded: NOTICES })
  expect(await company.syncHere()).toMatchObject({ unchanged: NOTICES, loaded: 0 })
})

/** A run that gets SIGINT halfway through its analyses. */
async function interrupted(company: SyncedCompany, args: readonly string[]): Promise<RunReport> {
  const { code, stdout } = await syncUntil(company, onAsked('analysis', NOTICES / 2), 'SIGINT', args)
  expect(code).toBe(130)
  const report = JSON.parse(stdout) as RunReport
  expectConserved(report)
  expect(report).toMatchObject({ status: 'interrupted', listed: NOTICES, failed: 0, quarantined: 0 })
  expect(report.loaded).toBeGreaterThan(0)
  expect(report.not_attempted).toBe(NOTICES - report.loaded)
  // If nothing else changed, the run is not in a snapshot yet.
  expect(
    await queryWarehouse(
      company.environment,
      `SELECT status, loaded FROM sync_runs WHERE run_id = '${report.run_id}'`,
    ),
  ).toEqual([{ status: 'interrupted', loaded: report.loaded }])
  return report
}

test('the next run of any mode makes up for a full run that was killed while it read the list', async () => {
  const company = await startSynced(notices(1, 5))
  await syncUntil(company, onAsked('list', 1), 'SIGKILL', ['--full'])
  expect(await company.syncHere()).toMatchObject({ mode: 'incremental', loaded: 5, unchanged: 0 })
  expect(await company.syncHere()).toMatchObject({ loaded: 0, unchanged: 5 })
})

test('the next run removes what a killed run left behind', async () => {
  const company = await startSynced(notices(1, 5))
  const root = companyDirectory(company.environment)
  await mkdir(join(root, 'tmp'))
  const unfinished = join(root, 'lake/snapshots/20990101T000000Z-000099/editais')
  await mkdir(unfinished, { recursive: true })
  for (const path of [
    join(root, 'raw/000006.ndjson.zst.part'),
    join(root, 'tmp/warehouse.next.duckdb'),
    join(root, 'tmp/warehouse.next.duckdb.wal'),
    join(root, 'tmp/listed.ndjson'),
    join(unfinished, '2026-10.parquet'),
  ]) {
    await writeFile(path, 'half of some')
  }
  await symlink('nowhere', join(root, 'lake/latest.part'))
  company.world.update(idOf(1), { updatedAt: NOON })
  expect(await company.syncHere()).toMatchObject({ changed: 1, status: 'ok' })
  expect((await readdir(root)).sort()).toEqual([
    'lake',
    'list.json',
    'raw',
    'rows',
    'state.json',
    'warehouse.duckdb',
  ])
  expect((await readdir(join(root, 'lake'))).sort()).toEqual(['latest', 'snapshots'])
  expect(await snapshots(company.environment)).toHaveLength(2)
  expect((await readdir(join(root, 'raw'))).every(name => /^\d{6}\.ndjson\.zst$/.test(name))).toBe(true)
  await expectTruth(company)
})

test('the next run repairs a missing or outdated link to the latest snapshot', async () => {
  const company = await startSynced(notices(1, 5))
  const latest = join(companyDirectory(company.environment), 'lake/latest')
  const first = await readlink(latest)
  company.world.update(idOf(1), { updatedAt: NOON })
  await company.syncHere()
  const second = await readlink(latest)
  expect(second).not.toBe(first)

  await rm(latest)
  expect(await company.syncHere()).toMatchObject({ unchanged: 5 })
  expect(await readlink(latest)).toBe(second)
  // The second snapshot was written, but the process died before it was linked.
  await rm(latest)
  await symlink(first, latest)
  expect((await runCommand(['publish'], company.environment)).code).toBe(0)
  expect(await readlink(latest)).toBe(second)
  expect(await snapshots(company.environment)).toHaveLength(2)
})
