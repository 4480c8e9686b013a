import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { expect } from 'vitest'
import { readApiSettings } from '#config/settings.ts'
import { createApiClient } from '#src/core/api/client.ts'
import type { AnalysisDocument, Edital, Entry } from '#src/sandbox/world.ts'
import { comparableAnalysis, comparableNotice } from './documents.ts'
import { syncHere } from './here.ts'
import { type Environment, queryLatest, temporaryDirectory } from './project.ts'
import { serveApi } from './serve.ts'
import type { SyncedCompany } from './synced.ts'

/** Columns that depend on the run, and not on a document. */
const OF_THE_RUN: Readonly<Record<string, string>> = {
  editais: 'run_id, first_seen_at, changed_at',
  analyses: 'run_id, fetched_at',
}

/** The mirror returns the documents that were synced, and a second worker that syncs from it gets the same tables. */
export async function expectRoundTrip(company: SyncedCompany): Promise<void> {
  const { environment, world, sandbox } = company
  const wrong = await describedAt(sandbox.url)
  for (const id of world.ids()) {
    const { edital, analysis } = world.entry(id) as Entry
    expect([wrong('Edital', edital), wrong('EditalAnalysis', analysis)]).toEqual([null, null])
  }
  const { url, keys } = await serveApi(environment)
  const served: Environment = { ...environment, API_BASE_URL: url, API_KEY: keys.acme as string }
  await expectDocuments(
    served,
    world.ids().map(id => world.entry(id) as Entry),
  )

  const second = { ...served, DATA_DIR: await temporaryDirectory() }
  const { report } = await syncHere(second)
  expect(report).toMatchObject({ status: 'ok', listed: world.size, loaded: world.size, quarantined: 0 })
  for (const table of ['editais', 'analyses', 'requirements', 'items', 'alerts']) {
    const without = OF_THE_RUN[table]
    const sql = `SELECT * ${without ? `EXCLUDE (${without})` : ''} FROM ${table} ORDER BY ALL`
    expect(await queryLatest(second, sql), table).toEqual(await queryLatest(environment, sql))
  }
  expect(await queryLatest(second, 'FROM schema_drift')).toEqual([])
}

/** Uses our own client, without validation and retries. */
async function expectDocuments(environment: Environment, entries: readonly Entry[]): Promise<void> {
  const { signal } = new AbortController()
  const api = createApiClient({ ...readApiSettings(environment), retryMs: 10, signal, nowMs: Date.now })
  const listed = new Map<string, Edital>()
  const wrong = await describedAt(environment.API_BASE_URL as string)
  for (let offset = 0; ; offset += 200) {
    const page = JSON.parse((await api.list({ limit: 200, offset, statuses: null })).toString()) as {
      editais: Edital[]
    }
    expect(wrong('EditalPage', page)).toBeNull()
    for (const edital of page.editais) listed.set(edital.id, edital)
    if (page.editais.length === 0) break
  }
  expect(listed.size).toBe(entries.length)
  for (const { edital, analysis } of entries) {
    const one = parse(await api.notice(edital.id)) as Edital
    expect(one).toEqual(listed.get(edital.id))
    expect(comparableNotice(one)).toEqual(comparableNotice(edital))
    const served = parse(await api.analysis(edital.id)) as AnalysisDocument
    expect([wrong('Edital', one), wrong('EditalAnalysis', served)]).toEqual([null, null])
    expect(comparableAnalysis(served)).toEqual(comparableAnalysis(analysis as AnalysisDocument))
  }
  await api.close()
}

function parse(answer: unknown): unknown {
  const { kind, bytes } = answer as { kind: string; bytes: Uint8Array }
  expect(kind).toBe('body')
  return JSON.parse(Buffer.from(bytes).toString())
}

type Schemas = Readonly<Record<string, object>>

/**
 * Validates bodies against the OpenAPI description that a server publishes, with an independent validator.
 * @returns a function that validates a body against the schema of this name, and returns its errors, or null if it has none.
 */
export async function describedAt(url: string): Promise<(schema: string, body: unknown) => string | null> {
  const response = await fetch(`${url}/openapi.json`)
  const description = (await response.json()) as { components: { schemas: Schemas } }
  const ajv = new Ajv2020({ strict: false, allErrors: true })
  addFormats.default(ajv)
  ajv.addSchema(description, 'api')
  return (schema, body) => {
    const judge = ajv.getSchema(`api#/components/schemas/${schema}`)
    if (!judge) throw new Error(`${url}/openapi.json has no schema ${schema}`)
    return judge(body) ? null : ajv.errorsText(judge.errors)
  }
}
