import { Agent, get } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { Hono } from 'hono'
import { expect, onTestFinished, test } from 'vitest'
import { startHttp } from '#src/lib/http/server.ts'
import { until } from '#test/support/daemon.ts'
import { exchange, parsed } from '#test/support/raw_http.ts'

async function serve(trustedProxies: readonly string[] = []) {
  const app = new Hono().get('/healthz', async c => {
    await sleep(5)
    return c.json({ alive: true })
  })
  const http = await startHttp(app, { trustedProxies })
  onTestFinished(() => http.abort())
  return http
}

const WRONG_HOSTS: readonly (readonly [what: string, headers: string])[] = [
  ['no Host', ''],
  ['an empty Host', 'Host:\r\n'],
  ['two Hosts', 'Host: a\r\nHost: a\r\n'],
  ['two different Hosts', 'Host: a\r\nHost: b\r\n'],
  ['a Host with a user', 'Host: user@a\r\n'],
  ['a Host with a path', 'Host: a/b\r\n'],
  ['a Host with white space', 'Host: a b\r\n'],
  ['a Host with an invalid port', 'Host: a:http\r\n'],
  ['a Host with an open bracket', 'Host: [::1\r\n'],
  ['a Host of 5,000 characters', `Host: ${'a'.repeat(5000)}\r\n`],
]

test.each(WRONG_HOSTS)('%s: 400, in JSON, with the same headers as any answer', async (_, headers) => {
  const { url } = await serve()
  const answer = parsed(await exchange(url, `GET /healthz HTTP/1.1\r\n${headers}Connection: close\r\n\r\n`))
  expect([answer.status, answer.headers['content-type']]).toEqual([400, 'application/json'])
  expect(JSON.parse(answer.body)).toEqual({ error: 'bad_request', detail: expect.stringMatching(/Host/) })
  expect(answer.headers).toMatchObject({ 'x-content-type-options': 'nosniff', 'x-frame-options': 'DENY' })
})

test.each([
  ['a name', 'erp.example'],
  ['a name in capitals, with a port', 'ERP.Example:8080'],
  ['an address', '127.0.0.1:1'],
  ['an IPv6 address', '[::1]:8080'],
])('%s is a valid Host', async (_, host) => {
  const { url } = await serve()
  const answer = await exchange(url, `GET /healthz HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`)
  expect(parsed(answer).status).toBe(200)
})

test("a load balancer's HTTP/1.0 check without a Host is answered", async () => {
  const { url } = await serve()
  for (const method of ['GET', 'HEAD', 'OPTIONS']) {
    const { status } = parsed(await exchange(url, `${method} /healthz HTTP/1.0\r\n\r\n`))
    expect([method, status]).toEqual([method, method === 'OPTIONS' ? 404 : 200])
  }
})

test('a request target that is not a path is refused', async () => {
  const { url } = await serve()
  for (const target of ['*', 'healthz', 'ftp://x/healthz']) {
    const answer = parsed(
      await exchange(url, `GET ${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`),
    )
    expect([target, answer.status, answer.headers['content-type']]).toEqual([target, 400, 'application/json'])
  }
  // As a proxy may send it.
  const absolute = `GET http://x/healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`
  expect(parsed(await exchange(url, absolute)).status).toBe(200)
})

test('invalid or too large requests are refused in JSON, with the same headers', async () => {
  const { url } = await serve()
  for (const [text, status] of [
    ['nonsense\r\n\r\n', 400],
    [`GET /${'a'.repeat(20_000)} HTTP/1.1\r\nHost: x\r\n\r\n`, 431],
    [`GET / HTTP/1.1\r\nHost: x\r\nX-Large: ${'a'.repeat(20_000)}\r\n\r\n`, 431],
    ['GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n', 400],
  ] as const) {
    const answer = parsed(await exchange(url, text))
    expect([text.slice(0, 20), answer.status]).toEqual([text.slice(0, 20), status])
    expect(JSON.parse(answer.body)).toEqual({ error: expect.any(String) })
    expect(answer.headers).toMatchObject({
      'content-type': 'application/json',
      'x-content-type-options': 'nosniff',
      connection: 'close',
    })
  }
})

test('HSTS is sent only if a trusted proxy speaks TLS with the client', async () => {
  const ask = async (trusted: readonly string[], proto: string) => {
    const { url } = await serve(trusted)
    const text = `GET /healthz HTTP/1.0\r\nX-Forwarded-For: 203.0.113.7\r\nX-Forwarded-Proto: ${proto}\r\n\r\n`
    return parsed(await exchange(url, text)).headers['strict-transport-security']
  }
  expect(await ask(['127.0.0.1'], 'https')).toBe('max-age=31536000')
  expect(await ask(['127.0.0.1'], 'http')).toBeUndefined()
  expect(await ask([], 'https')).toBeUndefined()
  expect(await ask(['10.0.0.0/8'], 'https')).toBeUndefined()
})

const CLIENTS = 20

test('during a shutdown every answer is the last on its connection, and no client is cut off', async () => {
  const { url, close } = await serve()
  const agent = new Agent({ keepAlive: true, maxSockets: CLIENTS })
  onTestFinished(() => agent.destroy())
  const outcomes: string[] = []
  /** Requests again and again, until the connection is announced to end or is cut. */
  const client = async () => {
    for (let isOpen = true; isOpen; ) {
      const outcome = await new Promise<string>(resolve => {
        get(`${url}/healthz`, { agent }, response => {
          response.resume()
          response.on('end', () => resolve(`${response.statusCode} ${response.headers.connection}`))
        }).on('error', error => resolve((error as NodeJS.ErrnoException).code ?? ''))
      })
      outcomes.push(outcome)
      isOpen = outcome === '200 keep-alive'
    }
  }
  const clients = Array.from({ length: CLIENTS }, client)
  await until(() => outcomes.length >= CLIENTS, { what: 'the first answers' })
  expect(new Set(outcomes)).toEqual(new Set(['200 keep-alive']))
  await Promise.all([close(), ...clients])
  // A client that opens a new connection is refused; no client loses an answer.
  const ends = outcomes.filter(outcome => outcome !== '200 keep-alive')
  expect(ends).toHaveLength(CLIENTS)
  expect(new Set(ends)).toContain('200 close')
  expect(['200 close', 'ECONNREFUSED']).toEqual(expect.arrayContaining([...new Set(ends)]))
})
