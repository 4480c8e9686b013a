import { expect, test } from 'vitest'
import { requestRun } from '#jobs/queues/queue.ts'
import { errorOf, serveWorker } from '#test/support/http.ts'

test('the board shows the queues, with all of its files', async () => {
  const { ask, queues } = await serveWorker()
  const { id } = await requestRun(queues, 'sync', 'acme')
  const page = await ask('/queues')
  expect([page.status, page.headers.get('content-type')]).toEqual([200, expect.stringMatching(/^text\/html/)])
  const html = await page.text()
  expect(html).toContain('<base href="/queues/" />')
  expect(html).not.toContain('https:')
  const assets = [...html.matchAll(/(?:src|href)="([^"/][^"]+)"/g)].map(([, path]) => path)
  expect(assets).toContain('names.js')
  expect(assets.length).toBeGreaterThan(4)
  for (const path of assets) {
    const asset = await ask(`/queues/${path}`)
    expect([path, asset.status]).toEqual([path, 200])
    expect((await asset.bytes()).length).toBeGreaterThan(0)
  }
  const { queues: shown } = (await (await ask('/queues/api/queues')).json()) as { queues: { name: string }[] }
  expect(shown.map(({ name }) => name).toSorted()).toEqual(['runs', 'ticks'])
  const job = await ask(`/queues/api/queues/runs/${id}`)
  expect(await job.json()).toMatchObject({ job: { name: 'sync acme', data: { company: 'acme' } } })
  expect((await ask('/queues/queue/runs')).status).toBe(200)
})

test('jobs can be removed on the board but not added; unknown paths are not found', async () => {
  const { ask, queues } = await serveWorker()
  const added = await ask('/queues/api/queues/runs/add', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{"name": "sync acme", "data": {"company": "acme"}, "options": {}}',
  })
  expect([added.status, await added.json()]).toEqual([
    403,
    expect.objectContaining({ message: expect.stringContaining('Jobs cannot be added here') }),
  ])
  expect(await queues.runs.count()).toBe(0)
  const { id } = await requestRun(queues, 'sync', 'acme')
  expect((await ask(`/queues/api/queues/runs/${id}/clean`, { method: 'PUT' })).status).toBe(204)
  expect(await queues.runs.count()).toBe(0)
  for (const path of [
    '/queues/nowhere',
    '/queues/static/nowhere.js',
    '/queues/static/..%2f..%2fpackage.json',
  ]) {
    const response = await ask(path)
    expect([path, response.status]).toEqual([path, 404])
    expect((await errorOf(response)).error).toBe('not_found')
  }
})
