import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { readApiSettings } from '#config/settings.ts'
import { createApiClient } from '#src/core/api/client.ts'
import { ListedFile } from '#src/core/pipeline/listed.ts'
import { readInto, scan } from '#src/core/pipeline/scan.ts'
import { formatCsvLine } from '#src/present/terminal/table.ts'
import type { RawAnswer } from '#src/sandbox/faults.ts'
import type { SandboxRequest } from '#src/sandbox/requests.ts'
import { type Sandbox, startSandbox } from '#src/sandbox/server.ts'
import { World } from '#src/sandbox/world.ts'
import { bodyOf, type Case, readCases, wrongEverywhere } from '#test/support/corpus.ts'
import { healthyAnalysis, healthyNotice } from '#test/support/healthy.ts'
import { syncHere } from '#test/support/here.ts'
import {
  compareReport,
  compareTables,
  distinct,
  type Row,
  readSnapshot,
  readTables,
  type Said,
  type Tables,
} from '#test/support/loaded.ts'
import { type LogLine, readLog } from '#test/support/prepared.ts'
import { type Environment, settingsFor, temporaryDirectory } from '#test/support/project.ts'
import { expectConserved } from '#test/support/synced.ts'

const KEY = 'edk_corpus_0a9b8c7d6e5f'
const HEALTHY = 5
/** How many bytes are kept of a body over the limit. */
const KEPT_OF_TOO_LARGE = 2048

/** What the API serves for one notice; `case` adds expectations to those of the oracle. */
type Served = {
  readonly id: string
  readonly notice: Buffer
  readonly analysis: Buffer
  readonly case?: Case
}

const asBytes = (value: unknown) => Buffer.from(JSON.stringify(value))
const healthy = (id: string): Served => ({
  id,
  notice: asBytes(healthyNotice(id)),
  analysis: asBytes(healthyAnalysis(id)),
})

function servedOf(each: Case): Served {
  const { place, id, expected } = each
  const about = { id, healthy: place === 'analysis' ? healthyAnalysis(id) : healthyNotice(id) }
  const part = place === 'analysis' ? 'analysis' : 'notice'
  return { ...healthy(expected.id ?? id), [part]: bodyOf(each, about), case: each }
}

type Company = { readonly sandbox: Sandbox; readonly environment: Environment; readonly dataDir: string }

async function openCompany(respond: (request: SandboxRequest) => RawAnswer | undefined): Promise<Company> {
  const sandbox = await startSandbox({ companies: [{ slug: 'acme', key: KEY, world: new World() }] })
  onTestFinished(() => sandbox.close())
  sandbox.faults.respond = respond
  const dataDir = await temporaryDirectory()
  const environment = { ...settingsFor({ url: sandbox.url, key: KEY, dataDir }), API_RETRIES: '1' }
  return { sandbox, environment, dataDir }
}

/** Serves the list, the notices and the analyses with exactly these bytes. */
function answers(served: readonly Served[]): (request: SandboxRequest) => RawAnswer | undefined {
  const byId = new Map(served.map(each => [each.id, each]))
  return ({ kind, id, offset, limit }) => {
    if (kind === 'list') return { status: 200, body: pageOf(served, offset ?? 0, limit ?? 50) }
    const each = byId.get(id ?? '')
    if (!each) return undefined
    const { status = 200, headers = {} } = each.case?.expected ?? {}
    const body = kind === 'notice' ? each.notice : each.analysis
    const isTheCase = each.case?.place === kind
    return isTheCase ? { status, headers, body } : { status: 200, body }
  }
}

function pageOf(served: readonly Served[], offset: number, limit: number): Buffer {
  const shown = served.slice(offset, offset + limit).flatMap(({ notice }) => [Buffer.from(','), notice])
  const envelope = `"count":${shown.length / 2},"total":${served.length},"limit":${limit},"offset":${offset}`
  return Buffer.concat([Buffer.from('{"editais":['), ...shown.slice(1), Buffer.from(`],${envelope}}`)])
}

describe('unexpected bodies', () => {
  it('in the list and as analyses give what each case expects, and affect no others', async () => {
    const cases = [...readCases('list'), ...readCases('analysis')].filter(({ expected }) => !expected.page)
    const served = [
      ...Array.from({ length: HEALTHY }, (_, number) => healthy(`healthy-${number}`)),
      ...cases.map(servedOf),
      ...wrongNotices(),
      ...wrongAnalyses(),
    ]
    const company = await openCompany(answers(served))
    const { report } = await syncHere(company.environment)

    expectConserved(report)
    expect(report).toMatchObject({ status: 'partial', scan_complete: true, listed: served.length })
    const judged = distinct(served.map(each => ({ ...each, ...seenOf(each) })))
    expect(judged).toHaveLength(served.length)
    compareReport(report, judged)
    const tables = await readSnapshot(company.dataDir, readTables)
    compareTables(tables, judged)
    const log = await readLog(company)
    for (const each of served) if (each.case) expectCase(each, each.case, tables, log)
    expectPlainRequests(company.sandbox, served)
  })
})

function* wrongNotices(): Generator<Served> {
  const documents = wrongEverywhere(healthyNotice('wrong'))
  for (const [number, document] of [...documents].entries()) {
    // If the id itself is wrong, another field must distinguish the records.
    const named = document.id === 'wrong' ? { ...document, id: `wrong-notice-${number}` } : document
    const id = typeof named.id === 'string' ? named.id : `wrong-notice-${number}`
    yield { ...healthy(id), notice: asBytes({ ...named, nota: number }) }
  }
}

function* wrongAnalyses(): Generator<Served> {
  const documents = wrongEverywhere(healthyAnalysis('wrong'))
  for (const [number, document] of [...documents].entries()) {
    const id = `wrong-analysis-${number}`
    yield { ...healthy(id), analysis: asBytes(document.id === 'wrong' ? { ...document, id } : document) }
  }
}

/** The client sees nothing of a failed answer, and only the start of one that is too large or truncated. */
function seenOf({ analysis, case: each }: Served): Partial<Said> {
  if (each?.expected.expect === 'failed') return { seen: 'nothing' }
  const length = each?.expected.headers?.['content-length']
  if (length && each.place === 'analysis') return { analysis: analysis.subarray(0, Number(length)) }
  return each?.expected.reason === 'the body is too large' ? { seen: 'too much' } : {}
}

/** Checks the tables and the raw log against the case's own file. */
function expectCase(
  served: Served,
  { name, place, expected }: Case,
  tables: Tables,
  log: readonly LogLine[],
) {
  const { id } = served
  const kind = place === 'analysis' ? 'analysis' : 'notice'
  const sent = { ...served, ...seenOf(served) }[kind]
  const rowsOf = (table: string) => tables.get(table)?.get(id) ?? []
  const message = `${place}/${name}: ${expected.what}`
  if (expected.expect === 'quarantined') {
    const kept = expected.reason === 'the body is too large' ? sent.subarray(0, KEPT_OF_TOO_LARGE) : sent
    const raw = kept.toString('base64')
    const line = log.find(each => each.type === 'rejected' && each.kind === kind && each.raw === raw)
    expect({ reason: line?.reason, path: line?.path }, message).toEqual({
      reason: expected.reason,
      path: expected.path ?? '$',
    })
    return
  }
  if (expected.expect === 'failed') {
    expect(rowsOf('editais')[0]?.analysis_state, message).toBe('pending')
    return
  }
  const line = log.findLast(each => each.type === kind && each.edital_id === id)
  if (expected.drift) expect(driftOf(line), message).toEqual(expected.drift.toSorted())
  if (expected.raw !== undefined) {
    expect(line?.raw, message).toBe(expected.raw ? sent.toString('base64') : undefined)
  }
  expectValues(rowsOf('editais')[0], expected.row, message)
  expectValues(rowsOf('analyses')[0], expected.analysis, message)
  for (const table of ['requirements', 'items', 'alerts'] as const) {
    for (const [index, values] of (expected[table] ?? []).entries()) {
      expectValues(rowsOf(table)[index], values, `${message}: ${table} ${index}`)
    }
    const count = expected.counts?.[table] ?? expected[table]?.length
    if (count !== undefined) expect(rowsOf(table).length, message).toBe(count)
  }
}

function driftOf(line: LogLine | undefined): string[] {
  const drift = (line?.drift ?? []) as readonly { kind: string; path: string }[]
  return drift.map(({ kind, path }) => `${kind} ${path}`).sort()
}

/** The cases give times as ISO 8601 in UTC. */
function expectValues(row: Row | undefined, values: Readonly<Record<string, unknown>> = {}, message: string) {
  const actual = Object.keys(values).map(column => {
    const value = row?.[column]
    const isTime = typeof values[column] === 'string' && /_at$|^data_/.test(column) && value !== null
    return [column, isTime ? instantText(value) : value]
  })
  expect(Object.fromEntries(actual), message).toEqual(values)
}

function instantText(micros: unknown): string {
  return Temporal.Instant.fromEpochNanoseconds(BigInt(micros as bigint) * 1000n).toString()
}

/** Ids that are no plain path segment are never requested, and all requests use the API's own routes. */
function expectPlainRequests({ requests }: Sandbox, served: readonly Served[]) {
  const ids = new Set(served.map(({ id }) => id))
  expect(requests.byKind.other).toBe(0)
  expect([...requests.byId.keys()].filter(id => !ids.has(id))).toEqual([])
}

it('the answer for a single notice gives what its case expects', async () => {
  const served = readCases('notice').map(servedOf)
  const company = await openCompany(answers(served))
  const { report } = await syncHere(company.environment, { ids: served.map(({ id }) => id) })

  expectConserved(report)
  const failed = served.filter(each => seenOf(each).seen !== undefined)
  expect(report).toMatchObject({ listed: served.length, failed: failed.length })
  const readable = served.filter(each => !failed.includes(each))
  const tables = await readSnapshot(company.dataDir, readTables)
  compareTables(tables, distinct(readable.map(each => ({ ...each, key: each.id }))))
  const log = await readLog(company)
  for (const each of readable) if (each.case) expectCase(each, each.case, tables, log)
  for (const { id } of failed) expect(tables.get('editais')?.get(id), id).toBe(undefined)
})

it('a list page is read whole, or fails the run, which then changes nothing', async () => {
  const stored = Array.from({ length: 3 }, (_, number) => healthy(`healthy-${number}`))
  const good = answers(stored)
  let served: Case | undefined
  const company = await openCompany(request => {
    if (!served || request.kind !== 'list') return good(request)
    const { status = 200, headers = {} } = served.expected
    const elements = stored.map(({ notice }) => notice.toString())
    return { status, headers, body: bodyOf(served, { id: served.id, healthy: {}, elements }) }
  })
  expect((await syncHere(company.environment)).report).toMatchObject({ status: 'ok', loaded: 3 })
  const pages = readCases('list').filter(({ expected }) => expected.page)
  const unreadable = pages.filter(({ expected }) => expected.expect === 'failed')
  for (served of unreadable) {
    await expect(scanOf(company), served.expected.what).rejects.toThrow(served.expected.error)
  }
  // One is enough to check the run: all of them stop the scan in the same way.
  served = unreadable[0]
  const { report } = await syncHere(company.environment)
  expect(report).toMatchObject({ status: 'failed', listed: 0, quarantined: 0 })
  expect(report.error).toContain(served?.expected.error)

  for (served of pages.filter(page => !unreadable.includes(page))) {
    const { expected, name } = served
    const message = `list/${name}: ${expected.what}`
    const { report } = await syncHere(company.environment)
    expectConserved(report)
    // As before the failed run: nothing is new, changed or gone.
    const quarantined = expected.counts?.quarantined ?? 0
    const listed = 3 + quarantined
    expect(report, message).toMatchObject({ unchanged: 3, quarantined, listed, tombstoned: 0 })
    const log = await readLog(company)
    expect(driftOf(log.findLast(({ type }) => type === 'run_finished')), message).toEqual(
      expected.drift ?? [],
    )
    for (const text of expected.kept ?? []) {
      expect(
        log.map(({ raw }) => raw),
        message,
      ).toContain(Buffer.from(text).toString('base64'))
    }
  }
})

/** Reads the list as a run does. */
async function scanOf({ environment, dataDir }: Company): Promise<unknown> {
  const signal = new AbortController().signal
  const api = createApiClient({ ...readApiSettings(environment), retryMs: 10, signal, nowMs: Date.now })
  const listed = new ListedFile(join(dataDir, 'listed.ndjson'))
  try {
    return await scan({ api, statuses: null, readPage: readInto(listed), signal, onProgress: () => {} })
  } finally {
    await listed.close()
    await api.close()
  }
}

it('text that a spreadsheet would read as a formula is exported unchanged', () => {
  const texts = ['=1+1', '+1', '-1', '@SUM(A1)', '\t=1', '=HYPERLINK("http://x","y")', '-1,5\r\n"x"']
  expect(texts.map(text => formatCsvLine([text])).join('')).toBe(
    '=1+1\r\n+1\r\n-1\r\n@SUM(A1)\r\n\t=1\r\n"=HYPERLINK(""http://x"",""y"")"\r\n"-1,5\r\n""x"""\r\n',
  )
})
