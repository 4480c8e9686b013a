import { readFileSync, writeFileSync } from 'node:fs'
import { rename } from 'node:fs/promises'
import { join } from 'node:path'
import zlib from 'node:zlib'
import { expect, onTestFinished, test } from 'vitest'
import { listSealedSegments, segmentPath } from '#src/core/rawlog/files.ts'
import { Database } from '#src/core/warehouse/database.ts'
import { observeSteps } from '#src/lib/durable.ts'
import { startWithHistory } from '#test/support/folded_log.ts'
import { idOf, notices } from '#test/support/notices.ts'
import { companyDirectory, type Environment } from '#test/support/project.ts'
import { runShared } from '#test/support/shared.ts'
import { startSynced } from '#test/support/synced.ts'
import { dataTables, type Tables, warehouseTables } from '#test/support/tables.ts'

const NOON = new Date('2026-11-20T12:00:00Z')
const NOWHERE: Environment = { API_BASE_URL: 'http://127.0.0.1:9', API_KEY: 'edk_of_nobody' }

/** All that a rebuild must reproduce; the log does not have the warehouse's own name. */
async function everything(environment: Environment): Promise<Tables> {
  return await warehouseTables(environment, ['warehouse_id'])
}

test('a rebuild gives the same tables, row for row, without a request, and so does an automatic one', async () => {
  const company = await startWithHistory()
  const { environment, sandbox } = company
  const before = await everything(environment)
  expect(await lineTypes(environment)).toEqual([
    ...['analysis', 'analysis_same', 'gone', 'notice', 'rejected', 'run_finished', 'run_started'],
  ])
  expect(before.quarantine).toHaveLength(3)
  expect(before.schema_drift?.length).toBeGreaterThan(3)

  sandbox.requests.reset()
  expect((await runShared(['rebuild'], { ...environment, ...NOWHERE })).code).toBe(0)
  expect(await everything(environment)).toEqual(before)
  expect(sandbox.requests.total).toBe(0)
  expect(await company.query('SELECT count(*) AS n FROM editais')).toEqual([{ n: 21 }])

  await changeWarehouse(environment, `UPDATE meta SET schema_hash = 'of another version'`)
  await changeWarehouse(environment, `UPDATE editais SET objeto = 'of another version'`)
  // Rebuilt, it agrees with the list; the analysis that is still unusable waits.
  const report = await company.syncHere()
  expect(report).toMatchObject({ added: 0, changed: 0, loaded: 0, listed: 20 })
  expect(dataTables(await everything(environment))).toEqual(dataTables(before))
})

test('a raw log with a gap is refused, and the warehouse does not change', async () => {
  const company = await startSynced(notices(1, 6))
  const { environment } = company
  for (const _ of [2, 3]) await company.syncHere()
  const before = await everything(environment)
  const raw = join(companyDirectory(environment), 'raw')
  const segments = await listSealedSegments(raw)
  expect(segments).toEqual([1, 2, 3])

  for (const [number, expected] of [
    [2, segmentPath(raw, 2)],
    [3, 'built from 3 segments'],
  ] as const) {
    await rename(segmentPath(raw, number), join(raw, 'away'))
    const { code, stderr } = await runShared(['sync'], environment)
    expect(code).toBe(1)
    expect(stderr).toContain(expected)
    expect(stderr).toMatch(/from a backup/)
    await rename(join(raw, 'away'), segmentPath(raw, number))
  }
  expect(await everything(environment)).toEqual(before)
  expect(await company.syncHere()).toMatchObject({ status: 'ok', unchanged: 6 })
})

test('a line that cannot be loaded is quarantined and counted, and the rest of its segment loads', async () => {
  const company = await startSynced(notices(1, 6))
  const { environment, world } = company
  const [poisoned, fine] = [idOf(2), idOf(3)]
  const analysis = { items: [{ numero_item: 1, quantidade: 7 }] }
  for (const id of [poisoned, fine])
    world.update(id, { edital: { objeto: 'Mudou' }, analysis, updatedAt: NOON })
  const poison = new RegExp(`(?<="type":"analysis","edital_id":"${poisoned}".*"quantidade":)7`)
  observeSteps((step, when, operation) => {
    if (step !== 'segment.sync' || when !== 'before' || !('path' in operation)) return
    const lines = zlib.zstdDecompressSync(readFileSync(operation.path)).toString()
    writeFileSync(operation.path, zlib.zstdCompressSync(lines.replace(poison, '{"abc":"an object"}')))
  })
  onTestFinished(() => observeSteps(null))
  const counts = { changed: 2, unchanged: 4, loaded: 1, quarantined: 1 }
  expect(await company.syncHere()).toMatchObject({ status: 'partial', listed: 6, ...counts })
  observeSteps(null)
  expect(await company.query('SELECT loaded, quarantined FROM sync_runs WHERE changed > 0')).toEqual([
    { loaded: 1, quarantined: 1 },
  ])
  expect(
    await company.query(
      `SELECT edital_id, objeto, analysis_state, (SELECT sum(quantidade) FROM items i WHERE i.edital_id = e.edital_id) AS sum
       FROM editais e WHERE edital_id IN ('${poisoned}', '${fine}') ORDER BY ALL`,
    ),
  ).toEqual([
    // The previous good version stays.
    { edital_id: poisoned, objeto: 'Mudou', analysis_state: 'quarantined', sum: 2 + 4 + 6 },
    { edital_id: fine, objeto: 'Mudou', analysis_state: 'current', sum: 7 },
  ])
  const quarantine = await company.query('SELECT edital_id, kind, reason, body_excerpt FROM quarantine')
  expect(quarantine).toMatchObject([{ edital_id: poisoned, kind: 'analysis' }])
  expect(quarantine[0]?.reason).toMatch(/^could not be loaded/)
  expect(quarantine[0]?.body_excerpt).toContain('an object')

  const before = await everything(environment)
  expect((await runShared(['rebuild'], environment)).code).toBe(0)
  expect(await everything(environment)).toEqual(before)
  // It is requested again like any quarantined analysis, and replaced.
  expect(await company.syncHere({ ids: [poisoned] })).toMatchObject({ loaded: 1 })
  expect(await company.query('SELECT 1 FROM quarantine WHERE resolved_at IS NULL')).toEqual([])
})

async function lineTypes(environment: Environment): Promise<unknown[]> {
  const db = await Database.open(':memory:', { threads: 1 })
  try {
    const path = join(companyDirectory(environment), 'raw/*.ndjson.zst')
    const rows = await db.rows(
      `SELECT DISTINCT type FROM read_json('${path}', columns = {type: 'VARCHAR'}) ORDER BY ALL`,
    )
    return rows.map(({ type }) => type)
  } finally {
    db.close()
  }
}

async function changeWarehouse(environment: Environment, sql: string): Promise<void> {
  const db = await Database.open(join(companyDirectory(environment), 'warehouse.duckdb'))
  try {
    await db.run(sql)
  } finally {
    db.close()
  }
}
