import { rename, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { makeDirectories } from '#src/core/company/company.ts'
import { createReport } from '#src/core/company/run_report.ts'
import { writeState } from '#src/core/company/state.ts'
import { leaveSnapshot, serveWorker, type Worker } from '#test/support/http.ts'

const BROWSER = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' }

async function text(worker: Worker, path: string, headers: Record<string, string> = BROWSER) {
  const response = await worker.ask(path, { headers })
  return { status: response.status, body: await response.text(), vary: response.headers.get('vary') }
}

test('operators get the report at /report; / leads browsers to the pages, and lists the paths for programs', async () => {
  const worker = await serveWorker({ companies: ['acme'] })
  await leaveSnapshot(worker.company('acme'))
  expect(await text(worker, '/report')).toMatchObject({ status: 200, body: '<h1>acme</h1>' })
  expect(await text(worker, '/companies/acme/report')).toMatchObject({ status: 200, body: '<h1>acme</h1>' })

  const stranger = await fetch(worker.url, { headers: BROWSER, redirect: 'manual' })
  expect([stranger.status, stranger.headers.get('location')]).toEqual([303, '/editais/hoje'])
  expect(stranger.headers.get('vary')).toBe('Accept')
  expect(await (await fetch(worker.url)).json()).toHaveProperty('GET /report')
})

test('with several companies it shows their health; a company without a snapshot is reported as such', async () => {
  const worker = await serveWorker({ companies: ['acme', 'beta'] })
  const { status, body } = await text(worker, '/report')
  expect(status).toBe(200)
  expect(body.match(/\/companies\/\w+\/report/g)).toEqual([
    '/companies/acme/report',
    '/companies/beta/report',
  ])
  expect(body.split('Ainda não foi lida.')).toHaveLength(3)
  const { paths } = worker.company('acme')
  const run = { ...createReport('r1', 'incremental', new Date()), status: 'ok' as const }
  const at = new Date(Date.now() - 40 * 60_000).toISOString()
  await makeDirectories(paths)
  await writeState(paths, {
    ...{ last_run: run, causes: [], last_good_at: at, quarantined: 2, quarantined_before: 0, log: null },
    ...{ raw_log: { bytes: 0, segments: 0 }, snapshot: { directory: '', bytes: 0 } },
  })
  const health = await text(worker, '/companies')
  expect(health.body).toContain('Última leitura completa há 40 min')
  expect(health.body).toContain('2 registros em quarentena')
  // What needs attention comes first.
  expect(health.body.match(/\/companies\/\w+\/report/g)?.[0]).toBe('/companies/beta/report')
  expect(await text(worker, '/companies/acme/report')).toMatchObject({
    status: 409,
    body: expect.stringContaining('acme has no snapshot yet'),
  })
  // A person gets a page, a program JSON.
  const missing = await text(worker, '/companies/other/report')
  expect([missing.status, missing.vary, missing.body]).toEqual([
    ...[404, 'Accept', expect.stringContaining('<h1>Página não encontrada</h1>')],
  ])
  const program = await text(worker, '/companies/other/report', {})
  expect(program.vary).toBe('Accept')
  const prefersJson = { accept: 'application/json, text/html;q=0.5' }
  expect(await text(worker, '/companies/other/report', prefersJson)).toEqual(program)
  const asJson = JSON.parse(program.body)
  expect(asJson).toMatchObject({
    error: 'not_found',
    detail: expect.stringContaining('other is not configured'),
  })
})

test('a report is made once per snapshot', async () => {
  let made = 0
  const worker = await serveWorker({ companies: ['acme'], report: async () => `${++made}` })
  const { paths } = worker.company('acme')
  await leaveSnapshot(worker.company('acme'))
  const bodies = await Promise.all([1, 2, 3].map(() => text(worker, '/report')))
  expect(bodies.map(({ body }) => body)).toEqual(['1', '1', '1'])
  expect((await text(worker, '/report')).body).toBe('1')
  await rename(join(paths.lake, 'latest'), join(paths.lake, 'other'))
  await symlink('other', join(paths.lake, 'latest'))
  expect((await text(worker, '/report')).body).toBe('2')
})
