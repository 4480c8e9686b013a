import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { createServer as createTlsServer, getCACertificates, setDefaultCACertificates } from 'node:tls'
import { expect, it, onTestFinished } from 'vitest'
import { syncHere } from '#test/support/here.ts'
import { openCompany } from '#test/support/prepared.ts'
import { makeAuthority } from '#test/support/redis_states.ts'

/** A TLS record of a type that no server sends. */
const GARBAGE = Buffer.from([0x99, 3, 3, 0, 4, 1, 2, 3, 4])

/** What happens to the first connection: it is relayed, and the first bytes of the answer are changed. */
type FirstAnswer = (bytes: Buffer) => Buffer

/**
 * A company behind TLS, at one address that changes the answer on its first connection, and from then on is well.
 * This process trusts its certificate until the end of the test.
 */
async function openBehindTls(firstAnswer: FirstAnswer) {
  const company = await openCompany(3)
  const authority = await makeAuthority()
  const [key, cert] = [await readFile(authority.key), await readFile(authority.certificate)]
  const trusted = getCACertificates('default')
  setDefaultCACertificates([...trusted, cert.toString()])
  onTestFinished(() => setDefaultCACertificates(trusted))

  const api = Number(new URL(company.sandbox.url).port)
  const inside = await listen(createTlsServer({ key, cert }, secure => join(secure, dial(api))))
  let connections = 0
  const outside = await listen(
    createServer(client => {
      connections += 1
      const server = dial(inside)
      if (connections > 1) return join(client, server)
      server.once('data', bytes => client.end(firstAnswer(bytes as Buffer)))
      client.on('data', bytes => server.write(bytes))
      closeTogether(client, server)
    }),
  )
  return {
    environment: { ...company.environment, API_BASE_URL: `https://127.0.0.1:${outside}` },
    connections: () => connections,
  }
}

async function listen(server: Server): Promise<number> {
  const sockets = new Set<Socket>()
  server.on('connection', socket => sockets.add(socket))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return (server.address() as AddressInfo).port
}

function dial(port: number): Socket {
  return connect(port, '127.0.0.1')
}

function join(one: Socket, other: Socket): void {
  one.pipe(other).pipe(one)
  closeTogether(one, other)
}

function closeTogether(one: Socket, other: Socket): void {
  for (const [from, to] of [
    [one, other],
    [other, one],
  ] as const) {
    // A reset is one of the ways in which these connections end.
    from.on('error', () => to.destroy())
    from.on('close', () => to.destroy())
  }
}

it('a connection that breaks with garbage after its handshake is retried', async () => {
  const { environment, connections } = await openBehindTls(bytes => Buffer.concat([bytes, GARBAGE]))
  const { report } = await syncHere(environment)
  expect(report).toMatchObject({ status: 'ok', loaded: 3, failed: 0, requests: 5 })
  expect(connections()).toBeGreaterThan(1)
})

it('a server that answers in plain HTTP ends the run at once, even if it would be well later', async () => {
  const { environment, connections } = await openBehindTls(() =>
    Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n'),
  )
  const { report } = await syncHere(environment)
  expect(report).toMatchObject({ status: 'failed', listed: 0 })
  expect(report.error).toMatch(/^https:\/\/127\.0\.0\.1:\d+ cannot be trusted: it does not speak TLS \(/)
  expect(connections()).toBe(1)
})
