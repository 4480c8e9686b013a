import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { createApiClient } from '#src/core/api/client.ts'
import { until } from '#test/support/daemon.ts'

test('a request is confirmed only when a connection is free for it, and again after a wait', async () => {
  const open: ServerResponse[] = []
  const server = createServer((_, response) => void open.push(response)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const api = createApiClient({
    ...{ baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, apiKey: 'edk_test' },
    ...{ concurrency: 2, maxRps: null, retries: 0, retryMs: 10 },
    ...{ timeoutMs: 20_000, signal: new AbortController().signal, nowMs: () => Date.now() },
  })
  onTestFinished(() => api.close())
  let confirmed = 0
  api.onlyAfter(async () => {
    confirmed += 1
    // The first one had to wait, so its turn comes again.
    return confirmed === 1
  })
  const answers = ['a', 'b', 'c'].map(id => api.analysis(id))
  await until(() => open.length === 2, { what: 'two requests' })
  await new Promise(resolve => setTimeout(resolve, 100))
  expect([open.length, confirmed]).toEqual([2, 3])
  for (const count of [3, 4]) {
    open[count - 3]?.writeHead(404).end('{"error":"not_found"}')
    if (count === 3) await until(() => open.length === 3, { what: 'the third request' })
  }
  expect(confirmed).toBe(4)
  open[2]?.writeHead(404).end('{"error":"not_found"}')
  expect((await Promise.all(answers)).map(({ kind }) => kind)).toEqual(['absent', 'absent', 'absent'])
})
