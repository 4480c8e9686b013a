import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { generateWorld } from '#src/sandbox/generate.ts'
import { deriveSandboxKey, startSandbox } from '#src/sandbox/server.ts'
import { openSandbox, START } from '#test/support/sandbox.ts'

test('the sandbox counts requests by kind, notice and answer', async () => {
  const { get, sandbox, world, other } = await openSandbox()
  const [id = '', second = ''] = world.ids()
  await Promise.all([
    ...[get(), get('?limit=5&offset=10&status=ready'), get('', {})],
    ...[get(`/${id}`), get(`/${id}/analysis`), get(`/${id}/analysis`), get(`/${second}/analysis`)],
    ...[get('/no/route'), get('/missing', { 'x-api-key': other.key })],
  ])
  const { requests } = sandbox
  expect(requests.total).toBe(9)
  expect(requests.byKind).toEqual({ list: 3, notice: 2, analysis: 3, other: 1 })
  expect(requests.byId.get(id)).toEqual({ notice: 1, analysis: 2 })
  expect(requests.byId.get(second)).toEqual({ notice: 0, analysis: 1 })
  await expect.poll(() => Object.fromEntries(requests.byStatus)).toEqual({ 200: 6, 401: 1, 404: 2 })
  expect(requests.concurrent).toBe(0)
})

test('a recorded request has its target and company, and never the key', async () => {
  const { get, sandbox, key } = await openSandbox()
  await get('?limit=5&offset=10&status=ready')
  await get('/abc', { authorization: `Bearer ${key}`, 'x-api-key': key })
  await get('/abc/analysis', { 'x-api-key': 'wrong' })
  expect(sandbox.requests.recent).toMatchObject([
    {
      kind: 'list',
      company: 'aurora',
      id: null,
      limit: 5,
      offset: 10,
      statuses: 'ready',
      headersSeen: ['authorization'],
      address: '127.0.0.1',
    },
    {
      kind: 'notice',
      company: 'aurora',
      id: 'abc',
      limit: null,
      offset: null,
      headersSeen: ['authorization', 'x-api-key'],
    },
    { kind: 'analysis', company: null, id: 'abc', headersSeen: ['x-api-key'] },
  ])
  expect(JSON.stringify(sandbox.requests.recent)).not.toContain('edk_')
})

test('the peak is the number of requests that were under way at once', async () => {
  const { get, sandbox } = await openSandbox()
  const all = Promise.withResolvers<void>()
  sandbox.faults.onRequest = () => {
    if (sandbox.requests.concurrent === 6) all.resolve()
    return all.promise
  }
  await Promise.all(Array.from({ length: 6 }, async () => (await get()).text()))
  expect(sandbox.requests.peakConcurrent).toBe(6)
  await expect.poll(() => sandbox.requests.concurrent).toBe(0)
  sandbox.requests.reset()
  expect(sandbox.requests).toMatchObject({ total: 0, peakConcurrent: 0, recent: [], byKind: { list: 0 } })
})

test('it closes at once, even with open connections and hanging requests', async () => {
  const { get, sandbox } = await openSandbox()
  await (await get()).text()
  sandbox.faults.plan = [{ fault: 'hang' }]
  const hanging = get()
  hanging.catch(() => {})
  await expect.poll(() => sandbox.requests.concurrent).toBe(1)
  const startedAt = performance.now()
  await sandbox.close()
  expect(performance.now() - startedAt).toBeLessThan(500)
  await expect(hanging).rejects.toThrow('fetch failed')
  await expect(get()).rejects.toThrow('fetch failed')
})

test('a port in use is reported in one clear sentence', async () => {
  const holder = createServer()
  await new Promise<void>(resolve => holder.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void holder.close())
  const { port } = holder.address() as AddressInfo
  await expect(startSandbox({ companies: [], port })).rejects.toMatchObject({
    name: 'FatalError',
    exitCode: 2,
    message: `Port ${port} is already in use; choose another with --port.`,
  })
})

test('it listens only on the loopback address', async () => {
  const world = generateWorld({ seed: 1, company: 'aurora', notices: 1, start: START })
  const sandbox = await startSandbox({
    companies: [{ slug: 'aurora', key: deriveSandboxKey(1, 'aurora'), world }],
  })
  onTestFinished(() => sandbox.close())
  expect(sandbox.url).toBe(`http://127.0.0.1:${sandbox.port}`)
  expect(deriveSandboxKey(1, 'aurora')).toMatch(/^edk_aurora_[0-9a-f]{32}$/)
})
