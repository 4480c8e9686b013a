import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

/** A TCP proxy that loses connections when a test wants it to. */
export type CuttingProxy = {
  readonly url: string
  /** How many connections clients have opened. */
  readonly connections: () => number
  /** Cuts all connections after so many bytes of answers, from now on; then after so many more; and so on. */
  cutAfter(...bytes: readonly number[]): void
  /** How many of these cuts are still to come. */
  readonly left: () => number
  /** Cuts all connections now. */
  cut(): void
  /** Passes new connections on to another server, and cuts the others. */
  leadTo(target: string): void
}

/** Passes connections on to a server until the test ends. */
export async function startCuttingProxy(target: string): Promise<CuttingProxy> {
  const open = new Set<Socket>()
  let [to, opened] = [new URL(target), 0]
  let cuts: readonly number[] = []
  const cut = () => {
    for (const socket of open) socket.resetAndDestroy()
  }
  const join = (client: Socket) => {
    opened += 1
    const server = connect({ host: to.hostname, port: Number(to.port) })
    for (const socket of [client, server]) {
      open.add(socket)
      // It is cut, or the other end is.
      socket.on('error', () => {})
      socket.on('close', () => {
        open.delete(socket)
        client.destroy()
        server.destroy()
      })
    }
    client.pipe(server)
    server.on('data', (bytes: Buffer) => {
      const [left = Number.POSITIVE_INFINITY, ...later] = cuts
      if (bytes.length < left) {
        cuts = cuts.length === 0 ? [] : [left - bytes.length, ...later]
        client.write(bytes)
      } else {
        cuts = later
        // What was sent before a reset may never arrive, so it ends without one.
        client.end(bytes.subarray(0, left), () => client.destroy())
        server.destroy()
      }
    })
  }
  const proxy = createServer(join).listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  onTestFinished(async () => {
    proxy.close()
    cut()
  })
  return {
    url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`,
    connections: () => opened,
    cutAfter(...bytes) {
      cuts = bytes
    },
    left: () => cuts.length,
    cut,
    leadTo(other) {
      to = new URL(other)
      cut()
    },
  }
}
