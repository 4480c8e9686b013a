import { execFile } from 'node:child_process'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual, promisify } from 'node:util'
import { RUN_COUNTERS } from '#schema/sync_runs.ts'
import type { RunReport } from '#src/core/company/run_report.ts'
import type { Servers } from '#test/api/servers.ts'
import { buildGoProgram } from '#test/support/go_programs.ts'
import { freePort } from '#tools/redis_process.ts'
import type { Result } from '../result.ts'

/** Traces of runs, as an OpenTelemetry Collector writes them into a file. */

const ROOT = join(import.meta.dirname, '../../..')
const MAIN = join(ROOT, 'src/cli/main.js')
const PAGE = join(ROOT, 'docs/operating/traces.md')
const WRITTEN_WITHIN_MS = 10_000
const POLL_MS = 100
const ERROR = 2

type Value = { stringValue?: string; intValue?: string; doubleValue?: number; boolValue?: boolean }
type Attribute = { readonly key: string; readonly value: Value }
type Span = {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  readonly attributes?: readonly Attribute[]
  readonly status: { readonly code?: number; readonly message?: string }
}
type Export = {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly Attribute[] }
    readonly scopeSpans: readonly { readonly spans: readonly Span[] }[]
  }[]
}

export async function* testTraces(servers: Servers, directory: string): AsyncGenerator<Result> {
  const collector = await buildGoProgram('collector', join(import.meta.dirname, 'collector'))
  yield await testPage(collector, directory)
  const { url, file } = await startCollector(servers, collector, directory)
  const sandbox = await servers.startSandbox()
  const environment = {
    API_BASE_URL: sandbox.url,
    API_KEY: sandbox.key,
    COMPANY: 'traced',
    DATA_DIR: join(directory, 'traced'),
    LOG_LEVEL: 'warn',
    OTEL_EXPORTER_OTLP_ENDPOINT: url,
    OTEL_EXPORTER_OTLP_COMPRESSION: 'gzip',
    OTEL_RESOURCE_ATTRIBUTES: 'team=bids',
  }
  const runs = [
    { title: 'a run', environment, stages: ['fetch', 'load', 'look', 'open', 'publish', 'scan'] },
    { title: 'a run that finds nothing new', environment, stages: ['look'] },
    {
      title: 'a run whose key is refused',
      environment: { ...environment, API_KEY: 'edk_wrong' },
      stages: ['load', 'look', 'open', 'publish', 'scan'],
    },
  ]
  for (const [index, run] of runs.entries()) {
    const { report, output } = await sync(run.environment)
    const exports = await exportsIn(file, index + 1)
    const wrong = [...output, ...wrongIn(exports.at(-1), report, run.stages)]
    if (exports.length !== index + 1) wrong.push(`${exports.length} traces, not ${index + 1}`)
    yield { title: `the collector has the trace of ${run.title}`, wrong: wrong.map(line => `  ${line}\n`) }
  }
}

/** The configuration of the documents is one that a collector accepts. */
async function testPage(collector: string, directory: string): Promise<Result> {
  const [, yaml = ''] = /```yaml\n(.*?)```/s.exec(await readFile(PAGE, 'utf8')) ?? []
  const path = join(directory, 'documented.yaml')
  await writeFile(path, yaml)
  const wrong = await promisify(execFile)(collector, ['validate', '--config', path]).then(
    () => [],
    error => [`  ${String(error.stderr)}\n`],
  )
  return { title: 'the collector accepts the configuration in docs/operating/traces.md', wrong }
}

async function startCollector(
  servers: Servers,
  collector: string,
  directory: string,
): Promise<{ url: string; file: string }> {
  await mkdir(join(directory, 'collector'))
  const file = join(directory, 'collector/traces.json')
  const config = join(directory, 'collector/config.json')
  const port = await freePort()
  await writeFile(
    config,
    JSON.stringify({
      receivers: { otlp: { protocols: { http: { endpoint: `127.0.0.1:${port}` } } } },
      exporters: { file: { path: file, flush_interval: '100ms' } },
      service: {
        telemetry: { metrics: { level: 'none' } },
        pipelines: { traces: { receivers: ['otlp'], exporters: ['file'] } },
      },
    }),
  )
  const url = `http://127.0.0.1:${port}`
  await servers.startProgram(collector, ['--config', config], url)
  return { url, file }
}

/** The report of a run, and what it printed beside it. */
async function sync(
  environment: Readonly<Record<string, string>>,
): Promise<{ report: RunReport; output: string[] }> {
  const { PATH = '', HOME = '' } = process.env
  const env = { PATH, HOME, ...environment }
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [MAIN, 'sync', '--json'], {
    env,
  }).catch(error => error as { stdout: string; stderr: string })
  const output = stderr.split('\n').filter(line => line.includes('The trace was not sent'))
  return { report: JSON.parse(stdout) as RunReport, output }
}

/** One line each, once there are `count`. */
async function exportsIn(file: string, count: number): Promise<Export[]> {
  for (let waitedMs = 0; ; waitedMs += POLL_MS) {
    const text = await readFile(file, 'utf8').catch(() => '')
    const lines = text.split('\n').slice(0, -1)
    if (lines.length >= count || waitedMs >= WRITTEN_WITHIN_MS)
      return lines.map(line => JSON.parse(line) as Export)
    await sleep(POLL_MS)
  }
}

function wrongIn(received: Export | undefined, report: RunReport, stages: readonly string[]): string[] {
  const [resource, ...others] = received?.resourceSpans ?? []
  const spans = resource?.scopeSpans.flatMap(scope => scope.spans) ?? []
  const roots = spans.filter(({ parentSpanId }) => !parentSpanId)
  const [root] = roots
  if (!resource || others.length > 0 || roots.length !== 1 || !root) return ['not one trace']
  const about = valuesOf(resource.resource.attributes)
  const attributes = valuesOf(root.attributes)
  const figures = Object.keys(RUN_COUNTERS) as (keyof typeof RUN_COUNTERS)[]
  const children = spans.filter(span => span !== root)
  const isFailed = report.error !== null
  const checks: readonly (readonly [string, unknown, unknown])[] = [
    ['service', about['service.name'], 'editais-sync'],
    ['team', about.team, 'bids'],
    ['run', attributes['editais.run_id'], report.run_id],
    ['company', attributes['editais.company'], 'traced'],
    ['status', attributes['editais.status'], report.status],
    ['figures', figures.map(name => attributes[`editais.${name}`]), figures.map(name => report[name])],
    ['error', root.status.message ?? null, report.error],
    ['code of the error', root.status.code === ERROR, isFailed],
    ['stages', [...new Set(children.map(({ name }) => name))].sort(), stages],
    ['parents', children.every(({ parentSpanId }) => parentSpanId === root.spanId), true],
    ['trace', children.every(({ traceId }) => traceId === root.traceId), true],
  ]
  return checks.flatMap(([what, found, expected]) =>
    isDeepStrictEqual(found, expected)
      ? []
      : [`${what}: ${JSON.stringify(found)}, not ${JSON.stringify(expected)}`],
  )
}

function valuesOf(attributes: readonly Attribute[] = []): Record<string, string | number | boolean | null> {
  return Object.fromEntries(
    attributes.map(({ key, value: { stringValue, intValue, doubleValue, boolValue } }) => [
      key,
      stringValue ?? boolValue ?? doubleValue ?? (intValue === undefined ? null : Number(intValue)),
    ]),
  )
}
