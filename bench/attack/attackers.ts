import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { REPETITIVE_PHRASE } from './hostile_notices.ts'

/**
 * Malicious clients, in a separate process.
 * Usage: node attackers.ts '{"attack": ...}'; prints one JSON object at the end.
 */
export const ATTACKS = {
  static:
    '18 connections that each request the largest file of /docs 700 times at once, without a key, and read nothing',
  analyses:
    '100 connections that each request an analysis of 9 MB 600 times at once, with a key, and read nothing',
  reading: '100 connections that request that analysis again and again, compressed, and read it',
  pages: '1,800 connections from 4 addresses that request compressed pages, each a different one',
  trickle: '400 connections from 4 addresses that read that analysis at 16 kB a second',
  metrics: '100 connections that request /metrics again and again',
  idle: '15,000 connections from 15 addresses that send nothing',
  slowloris: '1,500 connections from 3 addresses that send one header a second',
  large: '40 connections that send URLs, headers and bodies of 100 MB',
  guesses: '200 connections that guess keys',
  offsets: '8 connections that request empty pages, each at a different offset',
  dashes: '8 connections that open the page of a notice with 150 texts of 20,000 dashes',
  phrases: '8 connections that search for a phrase of 32 equal words in 200 texts of 20,000',
  streams: '150 streams of events, of eight keys, that read nothing',
} as const
export type Attack = keyof typeof ATTACKS

export type AttackOrder = {
  readonly attack: Attack
  readonly port: number
  readonly key: string
  /** Further keys of its company. */
  readonly moreKeys: readonly string[]
  /** Path of a large analysis. */
  readonly path: string
  /** Path of a notice's page with long texts. */
  readonly page: string
  /** Number of notices. */
  readonly notices: number
  readonly seconds: number
}

/** The server's behaviour, as the attackers saw it. */
export type Attacked = {
  readonly connections: number
  /** Answers by the status in their first line. */
  readonly statuses: Readonly<Record<string, number>>
}

type Attacker = {
  readonly order: AttackOrder
  readonly endsMs: number
  readonly statuses: Record<string, number>
  connections: number
}

/** The address of the nth attacker; the health probe uses 127.0.0.1. */
function addressOf(n: number): string {
  return `127.0.0.${10 + n}`
}

/** @returns null if no connection can be opened. */
function open(attacker: Attacker, address: string): Promise<Socket | null> {
  return new Promise(resolve => {
    const socket = connect({ port: attacker.order.port, host: '127.0.0.1', localAddress: address })
    socket.on('error', () => resolve(null))
    socket.on('close', () => resolve(null))
    socket.once('connect', () => {
      attacker.connections += 1
      resolve(socket)
    })
  })
}

function times<T>(count: number, work: (n: number) => Promise<T>): Promise<T[]> {
  return Promise.all(Array.from({ length: count }, (_, n) => work(n)))
}

function requestText({ key }: AttackOrder, path: string, more = ''): string {
  return `GET ${path} HTTP/1.1\r\nHost: x\r\nX-API-Key: ${key}\r\n${more}\r\n`
}

/** Sends the whole text and reads nothing; repeats this on a new connection whenever the server closes it. */
async function unread(attacker: Attacker, text: string): Promise<void> {
  while (performance.now() < attacker.endsMs) {
    const socket = await open(attacker, addressOf(0))
    if (!socket) {
      await sleep(50)
      continue
    }
    socket.pause()
    socket.write(text)
    await new Promise(resolve => {
      socket.once('close', resolve)
      setTimeout(resolve, Math.max(1, attacker.endsMs - performance.now())).unref()
    })
  }
}

/** Sends one request after another, each as soon as the previous answer begins, and counts the answers. */
async function ask(attacker: Attacker, address: string, next: () => string): Promise<void> {
  while (performance.now() < attacker.endsMs) {
    const socket = await open(attacker, address)
    if (!socket) {
      await sleep(50)
      continue
    }
    await new Promise<void>(resolve => {
      socket.on('data', chunk => {
        const [, status] = /^HTTP\/1\.1 (\d+)/.exec(chunk.toString('latin1', 0, 20)) ?? []
        if (status === undefined) return
        attacker.statuses[status] = (attacker.statuses[status] ?? 0) + 1
        if (performance.now() < attacker.endsMs) socket.write(next())
        else socket.destroy()
      })
      socket.once('close', () => resolve())
      socket.write(next())
    })
  }
}

/** Reads one answer as slowly as over a bad line. */
async function trickle(attacker: Attacker, address: string, text: string): Promise<void> {
  while (performance.now() < attacker.endsMs) {
    const socket = await open(attacker, address)
    if (!socket) {
      await sleep(50)
      continue
    }
    socket.pause()
    socket.write(text)
    while (!socket.destroyed && performance.now() < attacker.endsMs) {
      await sleep(TRICKLE.everyMs)
      socket.read(TRICKLE.bytes)
    }
  }
}

/** Sends `head`, then the same bytes until `bytes` are sent or the server closes the connection. */
async function flood(attacker: Attacker, address: string, head: string, bytes: number): Promise<void> {
  const chunk = Buffer.alloc(64 * 1024, 'a')
  while (performance.now() < attacker.endsMs) {
    const socket = await open(attacker, address)
    if (!socket) {
      await sleep(50)
      continue
    }
    socket.resume()
    socket.write(head)
    for (let sent = 0; sent < bytes && !socket.destroyed; sent += chunk.length) {
      if (!socket.write(chunk)) await new Promise(resolve => setTimeout(resolve, 5))
    }
    socket.destroy()
  }
}

async function slowly(attacker: Attacker, address: string): Promise<void> {
  while (performance.now() < attacker.endsMs) {
    const socket = await open(attacker, address)
    if (!socket) {
      await sleep(1000)
      continue
    }
    socket.resume()
    socket.write('GET /healthz HTTP/1.1\r\nHost: x\r\n')
    while (!socket.destroyed && performance.now() < attacker.endsMs) {
      await sleep(1000)
      if (!socket.destroyed) socket.write('X-a: b\r\n')
    }
  }
}

const TRICKLE = { bytes: 16 * 1024, everyMs: 1000 }
const HUNDRED_MEGABYTES = 100 * 1024 * 1024

const PLANS: Readonly<Record<Attack, (attacker: Attacker) => Promise<unknown>>> = {
  static: attacker =>
    times(18, () => unread(attacker, requestText(attacker.order, '/docs/swagger-ui-bundle.js').repeat(700))),
  analyses: attacker =>
    times(100, () => unread(attacker, requestText(attacker.order, attacker.order.path).repeat(600))),
  reading: attacker => {
    const { order } = attacker
    return times(100, () =>
      ask(attacker, addressOf(0), () => requestText(order, order.path, 'Accept-Encoding: gzip\r\n')),
    )
  },
  pages: attacker => {
    const { order } = attacker
    let offset = 0
    return times(1800, n =>
      ask(attacker, addressOf(n % 4), () => {
        offset = (offset + 1) % order.notices
        return requestText(order, `/api/v1/editais?limit=200&offset=${offset}`, 'Accept-Encoding: gzip\r\n')
      }),
    )
  },
  trickle: attacker => {
    const { order } = attacker
    return times(400, n => trickle(attacker, addressOf(n % 4), requestText(order, order.path)))
  },
  metrics: attacker =>
    times(100, () => ask(attacker, addressOf(0), () => requestText(attacker.order, '/metrics'))),
  idle: attacker => times(15_000, n => open(attacker, addressOf(n % 15))),
  slowloris: attacker => times(1500, n => slowly(attacker, addressOf(n % 3))),
  large: attacker =>
    times(40, n => {
      const heads = [
        'GET /',
        'GET / HTTP/1.1\r\nHost: x\r\nX-Large: ',
        `POST /api/v1/editais HTTP/1.1\r\nHost: x\r\nContent-Length: ${HUNDRED_MEGABYTES}\r\n\r\n`,
        `GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: ${HUNDRED_MEGABYTES}\r\n\r\n`,
      ]
      return flood(attacker, addressOf(n % 4), heads[n % heads.length] as string, HUNDRED_MEGABYTES)
    }),
  guesses: attacker => {
    let guess = 0
    return times(200, () =>
      ask(attacker, addressOf(0), () => {
        guess += 1
        return requestText({ ...attacker.order, key: `edk_${guess}` }, '/api/v1/editais')
      }),
    )
  },
  offsets: attacker => {
    let offset = 1_000_000
    return times(8, () =>
      ask(attacker, addressOf(0), () => {
        offset += 1
        return requestText(attacker.order, `/api/v1/editais?offset=${offset}`)
      }),
    )
  },
  dashes: attacker => {
    const { key, page } = attacker.order
    const text = `GET ${page} HTTP/1.1\r\nHost: x\r\nCookie: editais_chave=${key}\r\n\r\n`
    return times(8, () => ask(attacker, addressOf(0), () => text))
  },
  phrases: attacker => {
    let limit = 0
    return times(8, () =>
      ask(attacker, addressOf(0), () => {
        // Each is another one: an equal search could be remembered.
        limit = (limit % 200) + 1
        const q = encodeURIComponent(REPETITIVE_PHRASE)
        return requestText(attacker.order, `/api/v1/mirror/editais?q=${q}&limit=${limit}&fields=id`)
      }),
    )
  },
  streams: attacker => {
    const { order } = attacker
    const keys = [order.key, ...order.moreKeys]
    return times(150, n => {
      const whose = { ...order, key: keys[n % keys.length] as string }
      return unread(attacker, requestText(whose, '/api/v1/mirror/changes', 'Accept: text/event-stream\r\n'))
    })
  },
}

if (import.meta.main) {
  const order = JSON.parse(process.argv[2] ?? '') as AttackOrder
  const attacker: Attacker = {
    order,
    statuses: {},
    connections: 0,
    endsMs: performance.now() + order.seconds * 1000,
  }
  await Promise.race([PLANS[order.attack](attacker), sleep(order.seconds * 1000)])
  const { connections, statuses } = attacker
  process.stdout.write(JSON.stringify({ connections, statuses } satisfies Attacked), () => process.exit())
}
