import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, it } from 'vitest'
import { RUN_COUNTERS } from '#schema/sync_runs.ts'
import type { RunReport } from '#src/core/company/run_report.ts'
import { idOf, notices } from '#test/support/notices.ts'
import { type ReceivedSpan, startReceiver } from '#test/support/otlp.ts'
import { type Environment, runCommand, startCommand, temporaryDirectory } from '#test/support/project.ts'
import { KEY, startCompany, startSynced } from '#test/support/synced.ts'
import { endpoint, NOT_SENT, onlyTrace, TOKEN, unsentTrace } from '#test/support/traces.ts'

const HOOK = pathToFileURL(join(import.meta.dirname, '../support/log_modules.mjs')).href

describe('A run', () => {
  it('is one trace: a span for each stage within one for the run, with its ids and figures', async () => {
    const { environment } = await startCompany(notices(1, 7))
    const { url, received } = await startReceiver()
    const ended = await runCommand(['sync', '--json'], { ...environment, ...endpoint(url) })
    expect(ended).toMatchObject({ code: 0, stderr: '' })
    const report = JSON.parse(ended.stdout) as RunReport
    const { root, names, spans, path, headers, resource } = onlyTrace(received)
    expect(path).toBe('/v1/traces')
    expect(headers['content-type']).toBe('application/x-protobuf')
    expect(resource['service.name']).toBe('editais-sync')
    expect(root).toMatchObject({ name: 'sync', status: { code: 0, message: '' } })
    const figures = Object.keys(RUN_COUNTERS).map(name => [`editais.${name}`, report[name as 'listed']])
    expect(root.attributes).toEqual({
      'editais.company': 'acme',
      'editais.run_id': report.run_id,
      'editais.mode': 'incremental',
      'editais.status': 'ok',
      'editais.scan_complete': true,
      'process.exit.code': 0,
      ...Object.fromEntries(figures),
    })
    expect(root.attributes).toMatchObject({ 'editais.loaded': 7, 'editais.requests': report.requests })
    expect(names.filter(name => name !== 'load')).toEqual(['look', 'open', 'scan', 'fetch', 'publish'])
    expect(names.indexOf('load')).toBeGreaterThan(names.indexOf('open'))
    expect(names.lastIndexOf('load')).toBeLessThan(names.indexOf('publish'))
    const inOrder = ['look', 'open', 'scan', 'fetch', 'publish'].map(name =>
      spans.find(span => span.name === name),
    ) as ReceivedSpan[]
    for (const [index, span] of inOrder.slice(1).entries())
      expect(span.start).toBeGreaterThanOrEqual((inOrder[index] as ReceivedSpan).end)
  })

  it('that finds nothing new has only its look', async () => {
    const { environment } = await startSynced(notices(1, 3))
    const { url, received } = await startReceiver()
    expect(await runCommand(['sync'], { ...environment, ...endpoint(url) })).toMatchObject({ code: 0 })
    const { root, names } = onlyTrace(received)
    expect(names).toEqual(['look'])
    expect(root.attributes).toMatchObject({ 'editais.unchanged': 3, 'editais.loaded': 0 })
  })

  it('that fails has the sentence that its user sees, also at the stage that failed', async () => {
    const { environment, sandbox, faults } = await startCompany(notices(1, 3))
    const { url, received } = await startReceiver()
    faults.respond = ({ kind }) => (kind === 'list' ? { status: 400, body: KEY } : undefined)
    const rejected = await runCommand(['sync', '--json'], { ...environment, ...endpoint(url) })
    faults.respond = undefined
    sandbox.revoke(KEY)
    const refused = await runCommand(['sync', '--json'], { ...environment, ...endpoint(url) })
    const elsewhere = { ...environment, ...endpoint(url), DATA_DIR: '/proc/none' }
    const broken = await startCommand(['sync'], elsewhere, environment.DATA_DIR ?? '').ended
    expect([rejected.code, refused.code, broken.code]).toEqual([2, 1, 2])
    for (const [index, { stdout, code }] of [rejected, refused].entries()) {
      const { error, status } = JSON.parse(stdout) as RunReport
      const { root, spans } = onlyTrace(received.slice(index, index + 1))
      expect(root.status).toEqual({ code: 2, message: error })
      expect(root.attributes).toMatchObject({ 'editais.status': status, 'process.exit.code': code })
      const scan = spans.find(({ name }) => name === 'scan')
      expect(scan?.status.code).toBe(2)
      expect(error).toContain(scan?.status.message)
      expect(scan?.status.message).not.toBe('')
    }
    const { root, names } = onlyTrace(received.slice(2))
    expect(root.status.code).toBe(2)
    expect(broken.stderr).toContain(root.status.message)
    expect(root.attributes).toMatchObject({ 'editais.status': 'failed', 'process.exit.code': 2 })
    expect(names).toEqual([])
  })

  it('that fetches in vain says so at its fetch', async () => {
    const { environment, faults } = await startCompany(notices(1, 4))
    const { url, received } = await startReceiver()
    faults.respond = ({ kind, id }) =>
      kind === 'analysis' && id === idOf(1) ? { status: 401, body: '{}' } : undefined
    const ended = await runCommand(['sync', '--json'], { ...environment, ...endpoint(url) })
    expect(ended.code).toBe(1)
    const { spans } = onlyTrace(received)
    expect(spans.find(({ name }) => name === 'fetch')?.status.message).toContain('API key refused (401)')
  })
})

describe('Without an endpoint', () => {
  it('nothing of OpenTelemetry is loaded; with one, but turned off, neither', async () => {
    const { environment } = await startCompany(notices(1, 3))
    const { url, received } = await startReceiver()
    const log = join(await temporaryDirectory(), 'modules')
    const watched = { ...environment, NODE_OPTIONS: `--import=${HOOK}`, TEST_MODULES: log }
    const off: Environment[] = [{}, endpoint(url, { OTEL_SDK_DISABLED: 'true' })]
    for (const given of off)
      expect(await runCommand(['sync', '--full'], { ...watched, ...given })).toMatchObject({ code: 0 })
    const modules = await readFile(log, 'utf8')
    expect(modules).toContain('/node_modules/@duckdb/')
    expect(modules).not.toContain('opentelemetry')
    // Its front alone.
    expect(modules).not.toMatch(/src\/extras\/traces\/(?!traces\.ts)/)
    expect(received).toEqual([])
    // The log of modules would have shown it.
    expect(await runCommand(['sync'], { ...watched, ...endpoint(url) })).toMatchObject({
      code: 0,
      stderr: '',
    })
    expect(await readFile(log, 'utf8')).toContain('src/extras/traces/send.ts')
    expect(received).toHaveLength(1)
  })
})

describe("OpenTelemetry's variables", () => {
  it('name the service, add to the resource, and hold headers, also in a file', async () => {
    const { environment } = await startSynced(notices(1, 3))
    const { url, received } = await startReceiver()
    const file = join(await temporaryDirectory(), 'headers')
    await writeFile(file, `authorization=Bearer%20${TOKEN}\n`, { mode: 0o600 })
    const common = endpoint(`${url}/otlp`, {
      OTEL_SERVICE_NAME: 'mirror',
      OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test,team=bids',
      OTEL_EXPORTER_OTLP_COMPRESSION: 'none',
      LOG_LEVEL: 'trace',
    })
    for (const how of [
      { OTEL_EXPORTER_OTLP_HEADERS: `authorization=Bearer%20${TOKEN}` },
      { OTEL_EXPORTER_OTLP_HEADERS_FILE: file },
    ]) {
      const ended = await runCommand(['sync', '--json'], { ...environment, ...common, ...how })
      expect(ended.code).toBe(0)
      expect(`${ended.stdout}${ended.stderr}`).not.toContain(TOKEN)
      const last = onlyTrace(received.slice(-1))
      expect(last).toMatchObject({
        path: '/otlp/v1/traces',
        headers: { authorization: `Bearer ${TOKEN}` },
        resource: { 'service.name': 'mirror', 'deployment.environment.name': 'test', team: 'bids' },
      })
      for (const secret of [TOKEN, KEY]) expect(last.body.includes(secret)).toBe(false)
    }
    expect(received).toHaveLength(2)
  })
})

describe('A collector', () => {
  it('that refuses or never answers fails no run: there is one line', async () => {
    const { environment } = await startSynced(notices(1, 3))
    const refusing = await startReceiver(response => response.writeHead(403).end(TOKEN))
    const hanging = await startReceiver(() => {})
    for (const [{ url, received }, clause] of [
      [refusing, 'the collector answered 403'],
      [hanging, 'the collector did not answer in time'],
    ] as const) {
      const quick = endpoint(url, { OTEL_EXPORTER_OTLP_TIMEOUT: '300' })
      const { line } = await unsentTrace({ ...environment, ...quick })
      expect(line).toBe(`${NOT_SENT}${clause}. The run itself is not affected.`)
      expect(received).toHaveLength(1)
    }
  })
})
