import { readdir, stat } from 'node:fs/promises'
import { expect, test } from 'vitest'
import type { RouteKind } from '#src/server/contract/routes.ts'
import { idOf, noticeEntry, notices } from '#test/support/notices.ts'
import { type Environment, filesBelow } from '#test/support/project.ts'
import { runShared } from '#test/support/shared.ts'
import { type SyncedCompany, startCompany, startSynced } from '#test/support/synced.ts'
import { dataTables, warehouseTables } from '#test/support/tables.ts'
import { asked, expectTruth, snapshots } from '#test/support/truth.ts'

const NOON = new Date('2026-11-20T12:00:00Z')

/** Hides these notices from the list; they still exist. */
function hideFromList(company: SyncedCompany, ids: readonly string[]): void {
  company.faults.plan.push({
    fault: 'mutate',
    kinds: ['list'] satisfies RouteKind[],
    mutate: body => {
      const page = body as { editais: { id: string }[]; total: number }
      const editais = page.editais.filter(({ id }) => !ids.includes(id))
      return { ...page, editais, count: editais.length, total: page.total - ids.length }
    },
  })
}

test('a second run over an unchanged list sends one request and writes no snapshot', async () => {
  const company = await startSynced(notices(1, 6))
  const written = await snapshots(company.environment)
  const before = dataTables(await warehouseTables(company.environment))

  const second = await company.syncHere()
  expect(second).toMatchObject({ listed: 6, unchanged: 6, added: 0, changed: 0, loaded: 0, requests: 1 })
  expect(company.sandbox.requests.byKind).toMatchObject({ list: 1, notice: 0, analysis: 0 })
  expect(await snapshots(company.environment)).toEqual(written)
  expect(dataTables(await warehouseTables(company.environment))).toEqual(before)
})

test('every kind of change is found, is planned as it then happens, and affects nothing else', async () => {
  const company = await startCompany(notices(1, 40), {
    ANALYSIS_STATUSES: 'screening,analysis,pricing,ready',
  })
  const { world, sandbox } = company
  const [later, silent, earlier, toExcluded, hidden] = [1, 2, 3, 4, 5].map(idOf) as [
    ...[string, string, string, string, string],
  ]
  const [gone, alsoGone, excluded, arrived] = [6, 7, 8, 41].map(idOf) as [string, string, string, string]
  world.update(excluded, { edital: { status: 'discarded' } })

  // By the command, which leaves its lock file: the plan below must leave nothing more.
  expect(await company.sync()).toMatchObject({
    ...{ status: 'ok', mode: 'incremental', listed: 40, added: 40, loaded: 39, deferred: 1 },
    ...{ scan_passes: 1, scan_complete: true, requests: 40, unchanged: 0 },
  })
  expect(asked(company, 'analysis')).not.toContain(excluded)
  expect(
    await company.query('SELECT analysis_state, count(*) AS n FROM editais GROUP BY ALL ORDER BY ALL'),
  ).toEqual([
    { analysis_state: 'current', n: 39 },
    { analysis_state: 'excluded', n: 1 },
  ])

  world.update(later, { updatedAt: NOON, analysis: { alerts: [] } })
  world.update(silent, { edital: { objeto: 'Outro objeto' } })
  world.update(earlier, { updatedAt: new Date('2020-01-01T00:00:00Z') })
  world.update(toExcluded, { edital: { status: 'expired' }, updatedAt: NOON })
  world.update(hidden, { edital: { numero: '047/2026' }, updatedAt: NOON })
  hideFromList(company, [hidden])
  world.remove(gone)
  world.remove(alsoGone)
  world.put(noticeEntry(41))

  const before = await statesBelow(company.environment)
  const planned = await runShared(['sync', '--plan', '--json'], company.environment)
  expect(await statesBelow(company.environment)).toEqual(before)
  const plan = JSON.parse(planned.stdout)

  const report = await company.sync()
  expect(report).toMatchObject({ status: 'ok', listed: 39, added: 1, changed: 5, tombstoned: 2, revived: 0 })
  expect(report).toMatchObject({ unchanged: 32, loaded: 5, deferred: 2, gone: 0 })
  const { to_fetch, estimated_seconds, problems, ...predicted } = plan
  // The run by hand looked at the list before.
  expect(report).toMatchObject({ ...predicted, company: 'acme', requests: plan.requests + 1 })
  expect(to_fetch).toBe(report.loaded)
  expect(estimated_seconds).toBeGreaterThan(0)
  expect(problems).toEqual([])
  expect(asked(company, 'analysis')).toEqual([later, silent, earlier, hidden, arrived].sort())
  expect(asked(company, 'notice')).toEqual([hidden, gone, alsoGone].sort())
  expect(sandbox.requests.byKind.list).toBe(2)

  await expectTruth(company)
  expect(
    await company.query(
      `SELECT edital_id, analysis_state, deleted_at IS NOT NULL AS deleted FROM editais
       WHERE analysis_state <> 'current' OR deleted_at IS NOT NULL ORDER BY ALL`,
    ),
  ).toEqual([
    { edital_id: toExcluded, analysis_state: 'excluded', deleted: false },
    { edital_id: gone, analysis_state: 'current', deleted: true },
    { edital_id: alsoGone, analysis_state: 'current', deleted: true },
    { edital_id: excluded, analysis_state: 'excluded', deleted: false },
  ])
  // A deleted notice keeps its last rows, and so does one whose analysis is no longer fetched.
  expect(
    await company.query(
      `SELECT edital_id, (SELECT count(*) FROM requirements r WHERE r.edital_id = a.edital_id) AS requirements,
         (SELECT count(*) FROM items i WHERE i.edital_id = a.edital_id) AS items,
         (SELECT count(*) FROM alerts l WHERE l.edital_id = a.edital_id) AS alerts
       FROM analyses a WHERE edital_id IN ('${gone}', '${toExcluded}', '${later}') ORDER BY ALL`,
    ),
  ).toEqual([
    { edital_id: later, requirements: 2, items: 3, alerts: 0 },
    { edital_id: toExcluded, requirements: 2, items: 3, alerts: 1 },
    { edital_id: gone, requirements: 2, items: 3, alerts: 1 },
  ])
  await expectVersions(company, { later, silent, gone, earlier })

  company.faults.plan.length = 0
  world.restore(gone)
  const third = await company.syncHere()
  expect(third).toMatchObject({ listed: 40, revived: 1, added: 0, changed: 0, tombstoned: 0, loaded: 1 })
  expect(asked(company, 'notice')).toEqual([])
  expect(await company.query('SELECT edital_id FROM editais WHERE deleted_at IS NOT NULL')).toEqual([
    { edital_id: alsoGone },
  ])
  await expectTruth(company)
})

/** One row for each observed version, from the run that observed it. */
async function expectVersions(
  company: SyncedCompany,
  ids: { later: string; silent: string; gone: string; earlier: string },
): Promise<void> {
  const list = Object.values(ids).map(id => `'${id}'`)
  expect(
    await company.query(
      `SELECT v.edital_id, v.objeto, v.updated_at, row_number() OVER (PARTITION BY v.edital_id ORDER BY observed_at) AS version,
         observed_at BETWEEN started_at AND finished_at AS in_its_run
       FROM edital_versions v JOIN sync_runs USING (run_id) WHERE v.edital_id IN (${list}) ORDER BY edital_id, version`,
    ),
  ).toMatchObject([
    { edital_id: ids.later, version: 1, in_its_run: true },
    { edital_id: ids.later, version: 2, updated_at: NOON, in_its_run: true },
    { edital_id: ids.silent, version: 1, objeto: 'Objeto 2' },
    { edital_id: ids.silent, version: 2, objeto: 'Outro objeto' },
    { edital_id: ids.earlier, version: 1 },
    { edital_id: ids.earlier, version: 2, updated_at: new Date('2020-01-01T00:00:00Z') },
    { edital_id: ids.gone, version: 1 },
  ])
  // An analysis that was refetched unchanged is not a new version.
  expect(
    await company.query(
      `SELECT edital_id, count(*) AS versions, count(DISTINCT run_id) AS runs FROM analysis_versions
       WHERE edital_id IN (${list}) GROUP BY ALL ORDER BY ALL`,
    ),
  ).toEqual([
    { edital_id: ids.later, versions: 2, runs: 2 },
    { edital_id: ids.silent, versions: 2, runs: 2 },
    { edital_id: ids.earlier, versions: 1, runs: 1 },
    { edital_id: ids.gone, versions: 1, runs: 1 },
  ])
}

test('a plan before the first run leaves no files behind', async () => {
  const company = await startCompany(notices(1, 5))
  const { code, stdout } = await runShared(['sync', '--plan', '--json'], company.environment)
  expect(code).toBe(0)
  expect(JSON.parse(stdout)).toMatchObject({ listed: 5, added: 5, to_fetch: 5, requests: 6, tombstoned: 0 })
  expect(company.sandbox.requests.byKind).toMatchObject({ list: 1, analysis: 0 })
  expect(await readdir(company.environment.DATA_DIR ?? '')).toEqual([])
})

async function statesBelow(environment: Environment): Promise<Record<string, unknown>> {
  const files = await filesBelow(environment.DATA_DIR ?? '')
  const states = [...files].map(async ([path, bytes]) => {
    const { mtimeMs, ino } = await stat(path)
    return [path, { mtimeMs, ino, bytes: bytes.toString('base64') }] as const
  })
  return Object.fromEntries(await Promise.all(states))
}
