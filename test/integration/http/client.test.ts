import { readFile } from 'node:fs/promises'
import { createServer, type RequestListener } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo, Server, Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it, onTestFinished } from 'vitest'
import { InterruptedError } from '#src/lib/errors.ts'
import { type HttpClientOptions, openHttpClient } from '#src/lib/http/client.ts'
import { makeAuthority } from '#test/support/redis_states.ts'

const GET = { method: 'GET', path: '/', headers: {} } as const

async function listen(server: Server & { closeAllConnections(): void }): Promise<number> {
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return (server.address() as AddressInfo).port
}

function clientOf(url: string, options: Partial<HttpClientOptions> = {}) {
  const limits = { connections: 1, silenceMs: 5000, answerMs: 5000, limit: 'LIMIT', maxBodyBytes: 10_000 }
  const client = openHttpClient({ url, ...limits, ...options })
  onTestFinished(() => client.close())
  return client
}

async function clientFor(answer: RequestListener, options: Partial<HttpClientOptions> = {}) {
  return clientOf(`http://127.0.0.1:${await listen(createServer(answer))}`, options)
}

it('a whole answer has its status, headers and body, whatever the status', async () => {
  const seen: unknown[] = []
  const client = await clientFor(({ method, url, headers }, response) => {
    seen.push([method, url, headers['accept-encoding'], headers['user-agent']])
    response.writeHead(500, { 'x-one': '1' }).end('broken')
  })
  const reply = await client.send({ method: 'POST', path: '/a?b=c', headers: {}, body: '{}' })
  expect(reply).toMatchObject({ status: 500, headers: { 'x-one': '1' }, isCut: false })
  expect(reply.body.toString()).toBe('broken')
  expect(seen).toEqual([['POST', '/a?b=c', 'identity', 'editais-sync']])
})

it('a redirect is an answer like any other', async () => {
  let requests = 0
  const client = await clientFor((_, response) => {
    requests += 1
    response.writeHead(302, { location: '/elsewhere' }).end()
  })
  expect(await client.send(GET)).toMatchObject({ status: 302 })
  expect(requests).toBe(1)
})

it('a body over the bound is cut, and its connection is dropped', async () => {
  const sockets = new Set<Socket>()
  const client = await clientFor((request, response) => {
    sockets.add(request.socket)
    response.end('x'.repeat(request.url === '/at' ? 10_000 : 20_000_000))
  })
  const whole = await client.send({ ...GET, path: '/at' })
  expect([whole.isCut, whole.body.length]).toEqual([false, 10_000])
  const cut = await client.send({ ...GET, path: '/over' })
  expect([cut.isCut, cut.body.length]).toEqual([true, 4096])
  expect(sockets.size).toBe(1)
  await expect.poll(() => [...sockets].every(({ destroyed }) => destroyed)).toBe(true)
})

it('an answer that trickles in ends at the limit, though it is never silent for long', async () => {
  const client = await clientFor(
    async (_, response) => {
      response.writeHead(200)
      while (!response.destroyed) {
        response.write('x')
        await sleep(20)
      }
    },
    { answerMs: 300 },
  )
  const late = { name: 'NetworkError', trouble: 'late', code: null, message: 'the answer took too long' }
  await expect(client.send(GET)).rejects.toMatchObject(late)
})

it('if the status is enough, the rest of an answer may be late, lost or too long', async () => {
  const rest: Readonly<Record<string, RequestListener>> = {
    '/late': (_, response) => void response.writeHead(205).write('x'),
    '/lost': (_, response) => {
      response.writeHead(205, { 'content-length': 9 }).write('x')
      setTimeout(() => response.destroy(), 20)
    },
    '/long': (_, response) => void response.writeHead(205).end('x'.repeat(20_000)),
  }
  const client = await clientFor((request, response) => rest[request.url ?? '']?.(request, response), {
    answerMs: 300,
    isStatusEnough: true,
  })
  for (const path of Object.keys(rest)) {
    expect(await client.send({ ...GET, path }), path).toMatchObject({ status: 205, isCut: true })
  }
})

it('an aborted signal interrupts requests under way, and those to come', async () => {
  const controller = new AbortController()
  const { signal } = controller
  const client = await clientFor(() => setTimeout(() => controller.abort(), 20), { signal })
  await expect(client.send(GET)).rejects.toThrow(InterruptedError)
  await expect(client.send(GET)).rejects.toThrow(InterruptedError)
})

it('a certificate that is not trusted, and a server without TLS, are distinguished', async () => {
  const authority = await makeAuthority()
  const [key, cert] = [await readFile(authority.key), await readFile(authority.certificate)]
  const signed = await listen(createTlsServer({ key, cert }))
  await expect(clientOf(`https://127.0.0.1:${signed}`).send(GET)).rejects.toMatchObject({
    trouble: 'untrusted',
    message: 'no trusted authority signed its certificate',
  })
  const plain = await listen(createServer())
  await expect(clientOf(`https://127.0.0.1:${plain}`).send(GET)).rejects.toMatchObject({
    trouble: 'untrusted',
    message: 'it does not speak TLS',
  })
})

it.each([
  ['no HTTP', 'SSH-2.0-OpenSSH_9.9\r\n'],
  ['a broken body', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n'],
])('an answer with %s counts as lost', async (_, bytes) => {
  const client = await clientFor(({ socket }) => socket.end(bytes))
  await expect(client.send(GET)).rejects.toMatchObject({
    name: 'NetworkError',
    trouble: 'lost',
    message: 'the answer is not valid HTTP',
  })
})
