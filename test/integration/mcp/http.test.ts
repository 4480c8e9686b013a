import { request } from 'node:http'
import { expect, test } from 'vitest'
import { connectToUrl } from '#test/support/mcp.ts'
import { notices } from '#test/support/notices.ts'
import { serveApi } from '#test/support/serve.ts'
import { runShared } from '#test/support/shared.ts'
import { startSynced } from '#test/support/synced.ts'

const PATH = '/api/v1/mirror/mcp'

type Sent = { readonly status: number; readonly body: string; readonly headers: Record<string, unknown> }

/** Sends one message as plain HTTP. */
async function send(
  url: string,
  key: string | null,
  body: string,
  headers: Record<string, string> = {},
): Promise<Sent> {
  const response = await fetch(`${url}${PATH}`, {
    method: 'POST',
    body,
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...(key ? { authorization: `Bearer ${key}` } : {}),
      ...headers,
    },
  })
  return {
    status: response.status,
    body: await response.text(),
    headers: Object.fromEntries(response.headers),
  }
}

const message = (method: string, params: object = {}) =>
  JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })

async function startServed() {
  const { environment } = await startSynced(notices(1, 2))
  const served = await serveApi(environment)
  const create = async (...more: string[]) =>
    (await runShared(['keys', 'create', '--description', 'agent', ...more], environment)).stdout.trim()
  return { ...served, key: served.keys.acme as string, create }
}

test('messages over HTTP need a key with a scope, have bounds, and leave no session', async () => {
  const { url, key, create, lines, ask } = await startServed()
  const list = message('tools/list')
  const answered = await send(url, key, list)
  expect(answered).toMatchObject({ status: 200, headers: { 'cache-control': 'private, no-cache' } })
  expect(answered.body).toContain('search_notices')
  expect(answered.headers['mcp-session-id']).toBeUndefined()
  expect(await send(url, null, list)).toMatchObject({
    status: 401,
    headers: { 'www-authenticate': 'Bearer' },
  })
  expect(await send(url, await create('--scopes', 'sql'), list)).toMatchObject({ status: 403 })
  const slow = await create('--max-rps', '1')
  const first = await send(url, slow, list)
  expect(first.headers).toMatchObject({ ratelimit: '"key";r=0;t=1' })
  expect(await send(url, slow, list)).toMatchObject({ status: 429 })
  // A web page, even after DNS rebinding.
  for (const origin of ['https://example.com', url, 'null'])
    expect(await send(url, key, list, { origin })).toMatchObject({ status: 403 })
  expect(await send(url, key, list, { 'content-type': 'text/plain' })).toMatchObject({ status: 415 })
  expect(await send(url, key, '{"jsonrpc"')).toMatchObject({ status: 400 })
  expect(await send(url, key, `[${'['.repeat(30_000)}${']'.repeat(30_000)}]`)).toMatchObject({ status: 400 })
  expect(await send(url, key, message('tools/list', { x: 'x'.repeat(70_000) }))).toMatchObject({
    status: 413,
  })
  const many = await send(url, key, `[${list},${list}]`)
  expect(many.status).toBe(400)
  expect(many.body).toContain('Send one message at a time')
  expect(await send(url, key, message('nothing/here'))).toMatchObject({
    body: expect.stringContaining('-32601'),
  })
  expect(await ask(PATH)).toMatchObject({ status: 405, headers: { allow: 'POST' } })
  expect(await ask(PATH, { method: 'DELETE' })).toMatchObject({ status: 405 })
  // A stream of changes would stay open.
  const { client } = await connectToUrl(url, key, 'auto')
  await expect(
    client.request({ method: 'subscriptions/listen', params: { notifications: {} } } as never),
  ).rejects.toThrow()
  expect(lines.join('')).not.toContain(key.slice(13))
})

test('a client that admits JSON gets JSON, however it says so', async () => {
  const { url, key } = await startServed()
  const list = message('tools/list')
  const initialize = message('initialize', {
    protocolVersion: '2025-06-18',
    capabilities: {},
    clientInfo: { name: 'test', version: '1' },
  })
  const admitting = [
    ...['*/*', 'application/*', 'application/json', 'application/json, text/event-stream', ''],
    ...[
      'text/event-stream, */*;q=0.1',
      'Application/JSON; charset=utf-8',
      'text/html;q=0.9 , APPLICATION/*;q=0.8',
    ],
  ]
  for (const accept of admitting)
    for (const body of [initialize, list]) {
      const answered = await send(url, key, body, { accept })
      expect([accept, answered]).toMatchObject([
        accept,
        { status: 200, headers: { 'content-type': 'application/json' } },
      ])
      expect(JSON.parse(answered.body)).toMatchObject({ jsonrpc: '2.0', id: 1, result: expect.any(Object) })
    }
  for (const accept of ['text/html', 'text/event-stream', '*/*;q=0', 'application/json;q=0.000, */*', ','])
    expect([accept, await send(url, key, list, { accept })]).toMatchObject([
      accept,
      { status: 406, body: expect.stringContaining('must accept application/json') },
    ])
  // Without the header, which fetch would add.
  const status = await new Promise<number | undefined>((resolve, reject) => {
    const asked = request(`${url}${PATH}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    })
    asked.on('response', ({ statusCode }) => resolve(statusCode)).on('error', reject)
    asked.end(list)
  })
  expect(status).toBe(200)
})

test('a body of unknown length is read only up to its bound', async () => {
  const { url, key } = await startServed()
  const status = await new Promise<number | undefined>((resolve, reject) => {
    const asked = request(`${url}${PATH}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    })
    asked.on('response', ({ statusCode }) => resolve(statusCode))
    asked.on('error', reject)
    asked.write('{"x":"')
    const more = setInterval(() => asked.write('x'.repeat(10_000)), 5)
    asked.on('close', () => clearInterval(more))
  })
  expect(status).toBe(413)
})
