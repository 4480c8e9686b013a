import { mkdir, writeFile } from 'node:fs/promises'
import { ReplyError } from 'ioredis'
import { expect, test } from 'vitest'
import { requestRun } from '#jobs/queues/queue.ts'
import { createReport, noteFailure, type RunReport } from '#src/core/company/run_report.ts'
import { leaveState, NOW, serveWorker, type Worker } from '#test/support/http.ts'
import { readMetrics, type Scraped } from '#test/support/prometheus.ts'

async function scrape({ url }: Worker): Promise<Scraped> {
  const response = await fetch(`${url}/metrics`)
  expect(response.status).toBe(200)
  expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8')
  return await readMetrics(await response.text())
}

function valuesOf(scraped: Scraped, name: string): Readonly<Record<string, number>> {
  return scraped.get(name)?.values ?? {}
}

function reportOf(changes: Partial<RunReport>): RunReport {
  const finished_at = new Date(NOW.getTime() + 4000).toISOString()
  return { ...createReport('run-1', 'incremental', NOW), finished_at, ...changes }
}

test('runs are counted by company, mode and status, and notices by outcome', async () => {
  const worker = await serveWorker()
  const { metrics } = worker
  const counts = { listed: 10, added: 2, changed: 1, unchanged: 7, loaded: 2, quarantined: 1 }
  metrics.observeRun('acme', reportOf(counts))
  metrics.observeRun('acme', reportOf({ ...counts, status: 'partial' }))
  metrics.observeRun('acme', reportOf({ mode: 'full', status: 'failed' }))
  metrics.observeRun('beta', reportOf({ listed: 3, unchanged: 3 }))
  const scraped = await scrape(worker)
  expect(valuesOf(scraped, 'editais_runs_total')).toMatchObject({
    'company=acme,mode=incremental,status=ok': 1,
    'company=acme,mode=incremental,status=partial': 1,
    'company=acme,mode=incremental,status=interrupted': 0,
    'company=acme,mode=full,status=failed': 1,
    'company=beta,mode=incremental,status=ok': 1,
    'company=beta,mode=incremental,status=failed': 0,
  })
  const notices = valuesOf(scraped, 'editais_notices_total')
  expect(Object.keys(notices)).toHaveLength(2 * 13)
  expect(notices).toMatchObject({
    'company=acme,outcome=listed': 20,
    'company=acme,outcome=added': 4,
    'company=acme,outcome=changed': 2,
    'company=acme,outcome=unchanged': 14,
    'company=acme,outcome=loaded': 4,
    'company=acme,outcome=quarantined': 2,
    'company=acme,outcome=tombstoned': 0,
    'company=beta,outcome=listed': 3,
  })
  expect(valuesOf(scraped, 'editais_run_duration_seconds')).toMatchObject({
    'company=acme,mode=incremental,le=2.5': 0,
    'company=acme,mode=incremental,le=5': 2,
    'company=acme,mode=incremental,sum': 8,
    'company=acme,mode=incremental,count': 2,
    'company=acme,mode=full,count': 1,
  })
})

test('requests to the API are counted by company and status code, and timed', async () => {
  const worker = await serveWorker()
  worker.metrics.observeAnswers('acme', [
    { status: 200, seconds: 0.02 },
    { status: 200, seconds: 0.2 },
    { status: 429, seconds: 0.3 },
    { status: null, seconds: 40 },
  ])
  worker.metrics.observeAnswers('acme', [])
  const scraped = await scrape(worker)
  expect(valuesOf(scraped, 'editais_api_requests_total')).toEqual({
    'company=acme,code=200': 2,
    'company=acme,code=429': 1,
    'company=acme,code=none': 1,
  })
  expect(valuesOf(scraped, 'editais_api_request_duration_seconds')).toMatchObject({
    'company=acme,le=0.01': 0,
    'company=acme,le=0.025': 1,
    'company=acme,le=0.5': 3,
    'company=acme,le=30': 3,
    'company=acme,le=+Inf': 4,
    'company=acme,count': 4,
  })
})

test('the state after the last run is shown for each company that had one', async () => {
  const worker = await serveWorker({ companies: ['acme', 'beta', 'gamma'] })
  await leaveState(worker.company('acme'))
  await leaveState(worker.company('beta'), { last_good_at: null, quarantined: 0 })
  const scraped = await scrape(worker)
  const shown = (name: string) => valuesOf(scraped, name)
  expect(shown('editais_freshness_seconds')).toEqual({ 'company=acme': 3600 })
  expect(shown('editais_last_success_timestamp_seconds')).toEqual({
    'company=acme': Date.parse('2026-11-21T11:00:00Z') / 1000,
  })
  expect(shown('editais_quarantined_records')).toEqual({ 'company=acme': 3, 'company=beta': 0 })
  expect(shown('editais_raw_log_bytes')).toEqual({ 'company=acme': 7000, 'company=beta': 7000 })
  expect(shown('editais_raw_log_segments')).toEqual({ 'company=acme': 7, 'company=beta': 7 })
  expect(shown('editais_snapshot_bytes')).toEqual({ 'company=acme': 9000, 'company=beta': 9000 })
})

test('companies without a good run are shown, and the status of the last run', async () => {
  const worker = await serveWorker({ companies: ['acme', 'beta', 'gamma', 'delta'] })
  const partial = { ...createReport('run-1', 'incremental', NOW), status: 'partial' as const }
  await leaveState(worker.company('acme'), { last_run: partial })
  await leaveState(worker.company('beta'), { last_good_at: null })
  // Its last complete run was ok; the one after that died.
  await leaveState(worker.company('gamma'))
  await noteFailure(worker.company('gamma').paths, 'It died.', NOW)
  const scraped = await scrape(worker)
  expect(valuesOf(scraped, 'editais_without_good_run')).toEqual({
    'company=acme': 0,
    'company=beta': 1,
    'company=gamma': 0,
    'company=delta': 1,
  })
  const statuses = Object.entries(valuesOf(scraped, 'editais_last_run_status'))
  expect(statuses).toHaveLength(3 * 4)
  expect(statuses.filter(([, value]) => value === 1).map(([labels]) => labels)).toEqual([
    'company=acme,status=partial',
    'company=beta,status=ok',
    'company=gamma,status=failed',
  ])
})

test('a company removed from the configuration disappears from the metrics', async () => {
  const worker = await serveWorker()
  for (const slug of ['acme', 'beta']) {
    await leaveState(worker.company(slug))
    worker.metrics.observeRun(slug, reportOf({ listed: 1, unchanged: 1 }))
    worker.metrics.observeAnswers(slug, [{ status: 200, seconds: 1 }])
  }
  const namesOf = (scraped: Scraped, slug: string) =>
    [...scraped]
      .filter(([, { values }]) => JSON.stringify(values).includes(`company=${slug}`))
      .map(([name]) => name)
  const before = await scrape(worker)
  expect(namesOf(before, 'beta')).toHaveLength(15)
  await worker.configure(['acme'])
  const after = await scrape(worker)
  expect(namesOf(after, 'beta')).toEqual([])
  expect(namesOf(after, 'acme')).toEqual(namesOf(before, 'acme'))
})

test('jobs are counted by queue and state', async () => {
  const worker = await serveWorker()
  await requestRun(worker.queues, 'sync', 'acme')
  await requestRun(worker.queues, 'maintain', 'acme')
  await worker.queues.ticks.add('sync', { company: 'acme' }, { delay: 60_000 })
  expect(valuesOf(await scrape(worker), 'editais_queue_jobs')).toMatchObject({
    'queue=runs,state=waiting': 2,
    'queue=runs,state=active': 0,
    'queue=runs,state=failed': 0,
    'queue=ticks,state=delayed': 1,
  })
})

test('with LAKE_URL, it is shown whether the object store has the latest snapshot', async () => {
  const worker = await serveWorker({
    companies: ['acme', 'beta', 'gamma'],
    settings: { LAKE_URL: 's3://lake' },
  })
  const at = '2026-11-21T11:00:00.000Z'
  const known = {
    tried_at: at,
    snapshot: 'a',
    published_at: at,
    pending: null,
    error: null,
    behind_since: null,
    due_at: null,
  }
  const leave = async (slug: string, state: object) => {
    const { root, remote } = worker.company(slug).paths
    await mkdir(root, { recursive: true })
    await writeFile(remote, JSON.stringify({ ...known, ...state }))
  }
  await leave('acme', {})
  await leave('beta', { published_at: null, error: 'It is down.', behind_since: at })
  const scraped = await scrape(worker)
  expect(valuesOf(scraped, 'editais_object_store_current')).toEqual({ 'company=acme': 1, 'company=beta': 0 })
  expect(valuesOf(scraped, 'editais_object_store_last_success_timestamp_seconds')).toEqual({
    'company=acme': Date.parse(at) / 1000,
  })
})

test('a Redis that answers with refusals counts as down', async () => {
  const worker = await serveWorker()
  const up = async () => valuesOf(await scrape(worker), 'editais_redis_up')['']
  await expect.poll(up).toBe(1)
  worker.queues.note(new ReplyError("OOM command not allowed when used memory > 'maxmemory'."))
  expect([worker.queues.redis.status, await up()]).toEqual(['ready', 0])
})

test('every name and help text follows Prometheus, and explains how to aggregate it', async () => {
  const worker = await serveWorker()
  await leaveState(worker.company('acme'))
  const scraped = await scrape(worker)
  const own = [...scraped].filter(([name]) => name.startsWith('editais_'))
  expect(own.map(([name, { type }]) => `${type} ${name}`).toSorted()).toEqual([
    'counter editais_api_requests_total',
    'counter editais_http_abandoned_requests_total',
    'counter editais_http_connections_closed_total',
    'counter editais_log_lines_dropped_total',
    'counter editais_looks_total',
    'counter editais_notices_total',
    'counter editais_refused_credentials_total',
    'counter editais_runs_total',
    'counter editais_serve_requests_total',
    'counter editais_serve_response_bytes_total',
    'counter editais_webhook_attempts_total',
    'gauge editais_alerts',
    'gauge editais_api_key_expires_timestamp_seconds',
    'gauge editais_build_info',
    'gauge editais_configuration_ok',
    'gauge editais_disk_free_bytes',
    'gauge editais_disk_size_bytes',
    'gauge editais_entry_broken',
    'gauge editais_freshness_seconds',
    'gauge editais_http_connections',
    'gauge editais_http_unread_bytes',
    'gauge editais_http_waiting_requests',
    'gauge editais_last_run_status',
    'gauge editais_last_success_timestamp_seconds',
    'gauge editais_metabase_current',
    'gauge editais_object_store_current',
    'gauge editais_object_store_last_success_timestamp_seconds',
    'gauge editais_quarantined_records',
    'gauge editais_queue_jobs',
    'gauge editais_raw_log_bytes',
    'gauge editais_raw_log_segments',
    'gauge editais_redis_up',
    'gauge editais_run_memory_bytes',
    'gauge editais_run_started_timestamp_seconds',
    'gauge editais_served_behind_seconds',
    'gauge editais_slots',
    'gauge editais_slots_used',
    'gauge editais_snapshot_bytes',
    'gauge editais_webhook_messages',
    'gauge editais_webhook_oldest_waiting_seconds',
    'gauge editais_webhook_stopped',
    'gauge editais_without_good_run',
    'histogram editais_api_request_duration_seconds',
    'histogram editais_run_duration_seconds',
    'histogram editais_serve_request_duration_seconds',
  ])
  for (const [name, { type, help }] of own) {
    expect(help, name).toMatch(
      type === 'gauge'
        ? /Of this worker, now: sum over the workers|Of each worker|every worker shows the same/
        : /Of this worker, since it started/,
    )
  }
  expect(valuesOf(scraped, 'process_resident_memory_bytes')['']).toBeGreaterThan(1_000_000)
})

test('simultaneous scrapes are all complete', async () => {
  const companies = Array.from({ length: 20 }, (_, index) => `company-${index}`)
  const worker = await serveWorker({ companies })
  for (const slug of companies) await leaveState(worker.company(slug))
  for (const scraped of await Promise.all(Array.from({ length: 8 }, () => scrape(worker)))) {
    expect(Object.keys(valuesOf(scraped, 'editais_freshness_seconds'))).toHaveLength(companies.length)
    expect(Object.keys(valuesOf(scraped, 'editais_queue_jobs')).length).toBeGreaterThan(10)
  }
})
