import { randomUUID } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { readApiSettings, readSettings } from '#config/settings.ts'
import { snapshotInfo, TABLES } from '#schema/tables.ts'
import { createApiClient } from '#src/core/api/client.ts'
import { companyPaths } from '#src/core/company/company.ts'
import type { Marts } from '#src/core/lake/catalog.ts'
import { workUntimed } from '#src/core/pipeline/request.ts'
import { NEXT, type RunResult } from '#src/core/pipeline/run.ts'
import { startSandbox } from '#src/sandbox/server.ts'
import { World } from '#src/sandbox/world.ts'
import { sync } from '#src/sync.ts'
import { idOf, noticeEntry, notices } from '#test/support/notices.ts'
import { type Environment, queryLatest, settingsFor, temporaryDirectory } from '#test/support/project.ts'

/*
 * The core as the whole program: without marts, extras, commands and a daemon. This file imports nothing of them:
 * `test/system/extras.nightly.test.ts` runs it where they are deleted.
 */

const KEY = 'edk_test_3f9c1d7a5b'
const NONE: Marts = { macros: [], views: [] }

/** Serves the notices as company `acme`, with an empty data directory. */
async function serve(world: World): Promise<Environment> {
  const sandbox = await startSandbox({ companies: [{ slug: 'acme', key: KEY, world }] })
  onTestFinished(() => sandbox.close())
  const settings = settingsFor({ url: sandbox.url, key: KEY, dataDir: await temporaryDirectory() })
  return { ...settings, LAKE_MARTS: 'on' }
}

async function run(environment: Environment, marts: Marts): Promise<RunResult> {
  const settings = readSettings(environment)
  const { signal } = new AbortController()
  const api = createApiClient({ ...readApiSettings(environment), signal, nowMs: Date.now })
  const follower = { inUse: async () => [], isBehind: async () => false, follow: async () => {} }
  const silent = { onProgress() {}, onNote() {}, inStage: workUntimed }
  try {
    return await sync(NEXT, {
      ...{ api, settings, signal, follower, ...silent, sharedLog: null },
      paths: companyPaths(settings.dataDir, settings.company),
      loadMarts: async () => marts,
      now: () => new Date(),
      runId: new Date().toISOString(),
      newId: randomUUID,
    })
  } finally {
    await api.close()
  }
}

/** The names of the views in the latest snapshot. */
async function viewsIn(environment: Environment): Promise<string[]> {
  const views = await queryLatest<{ name: string }>(
    environment,
    `SELECT view_name AS name FROM duckdb_views() WHERE database_name = 'latest' AND NOT internal ORDER BY name`,
  )
  return views.map(({ name }) => name)
}

test('the core alone makes rows of notices, publishes the tables, and follows changes', async () => {
  const world = new World(notices(1, 3))
  const environment = await serve(world)
  const first = await run(environment, NONE)
  expect(first.report).toMatchObject({ status: 'ok', listed: 3 })
  expect(first.published.manifest).not.toHaveProperty('marts')
  expect(await viewsIn(environment)).toEqual([...TABLES, snapshotInfo].map(({ name }) => name).sort())
  expect((await run(environment, NONE)).published.written).toBe(false)

  const updated_at = new Date().toISOString()
  world.put(noticeEntry(2, { objeto: 'Outro', updated_at }))
  expect((await run(environment, NONE)).published.written).toBe(true)
  expect(
    await queryLatest(
      environment,
      `SELECT edital_id, objeto, count(items.ordinal) AS items FROM editais JOIN items USING (company, edital_id)
       WHERE objeto = 'Outro' GROUP BY ALL`,
    ),
  ).toEqual([{ edital_id: idOf(2), objeto: 'Outro', items: 3 }])
})

test('a catalog has whatever marts the program gives, and is written again when they change', async () => {
  const environment = await serve(new World(notices(1, 3)))
  await run(environment, NONE)
  const texts = { description: 'Our own', portuguese: ['Próprio', 'Nosso'] } as const
  const column = (name: string) => ({ name, ...texts })
  const doubled = {
    ...{ name: 'dobrados', ...texts, columns: [column('edital_id'), column('dobro')] },
    sql: 'SELECT edital_id, dobro(valor_estimado) AS dobro FROM editais',
    storedFrom: { editais: ['edital_id', 'valor_estimado'] },
    orderBy: 'edital_id',
  }
  const sum = {
    ...{ name: 'soma_dos_dobros', ...texts, columns: [column('soma')] },
    sql: 'SELECT sum(dobro) AS soma FROM dobrados',
  }
  const marts: Marts = { macros: ['CREATE MACRO dobro(valor) AS 2 * valor'], views: [doubled, sum] }
  const { written, manifest } = (await run(environment, marts)).published
  expect(written).toBe(true)
  expect(Object.keys(manifest.stored_inputs ?? {})).toEqual(['dobrados'])
  expect(manifest.marts?.files.map(({ path, rows }) => ({ path, rows }))).toEqual([
    { path: 'marts/dobrados.parquet', rows: 3 },
    { path: 'marts/soma_dos_dobros.parquet', rows: 1 },
  ])
  expect(await queryLatest(environment, 'FROM soma_dos_dobros')).toEqual([{ soma: 15 }])
  expect((await run(environment, marts)).published.written).toBe(false)
  expect((await run(environment, NONE)).published.written).toBe(true)
  expect(await viewsIn(environment)).not.toContain('soma_dos_dobros')
})
