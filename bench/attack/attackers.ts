import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { REPETITIVE_PHRASE } from './hostile_notices.ts'

/**
 * Malicious clients, in a separate process.
 * Its argument is an order in JSON; prints one JSON object (Attacked) at the end.
 */

export type AttackOrder = {
  readonly attack: string
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

type Attack = {
  readonly about: string
  readonly connections: number
  /** From how many addresses they come; 1 by default. */
  readonly addresses?: number
  /** Plans what each connection does: the nth one, from its address. */
  readonly plan: (attacker: Attacker) => (address: string, n: number) => Promise<unknown>
}

const TRICKLE = { bytes: 16 * 1024, everyMs: 1000 }
const HUNDRED_MEGABYTES = 100 * 1024 * 1024
const GZIP = 'Accept-Encoding: gzip\r\n'

/** Sends requests, of which some number is given, and reads the answers. */
function asking(next: (order: AttackOrder, n: number) => string): Attack['plan'] {
  return attacker => {
    let n = 0
    return address => ask(attacker, address, () => next(attacker.order, n++))
  }
}

/** Sends one text on each connection, and reads nothing. */
function unreading(text: (order: AttackOrder, n: number) => string): Attack['plan'] {
  return attacker => (address, n) => unread(attacker, address, text(attacker.order, n))
}

export const ATTACKS: Readonly<Record<string, Attack>> = {
  static: {
    about:
      '18 connections that each request the largest file of /docs 700 times at once, without a key, and read nothing',
    connections: 18,
    plan: unreading(order => requestText(order.key, '/docs/swagger-ui-bundle.js').repeat(700)),
  },
  analyses: {
    about:
      '100 connections that each request an analysis of 9 MB 600 times at once, with a key, and read nothing',
    connections: 100,
    plan: unreading(order => requestText(order.key, order.path).repeat(600)),
  },
  reading: {
    about: '100 connections that request that analysis again and again, compressed, and read it',
    connections: 100,
    plan: asking(order => requestText(order.key, order.path, GZIP)),
  },
  pages: {
    about: '1,800 connections from 4 addresses that request compressed pages, each a different one',
    connections: 1800,
    addresses: 4,
    plan: asking(({ key, notices }, n) =>
      requestText(key, `/api/v1/editais?limit=200&offset=${n % notices}`, GZIP),
    ),
  },
  trickle: {
    about: '400 connections from 4 addresses that read that analysis at 16 kB a second',
    connections: 400,
    addresses: 4,
    plan: attacker => address => trickle(attacker, address),
  },
  metrics: {
    about: '100 connections that request /metrics again and again',
    connections: 100,
    plan: asking(order => requestText(order.key, '/metrics')),
  },
  idle: {
    about: '15,000 connections from 15 addresses that send nothing',
    connections: 15_000,
    addresses: 15,
    plan: attacker => address => open(attacker, address),
  },
  slowloris: {
    about: '1,500 connections from 3 addresses that send one header a second',
    connections: 1500,
    addresses: 3,
    plan: attacker => address => slowly(attacker, address),
  },
  large: {
    about: '40 connections that send URLs, headers and bodies of 100 MB',
    connections: 40,
    addresses: 4,
    plan: attacker => (address, n) => flood(attacker, address, LARGE_HEADS[n % 4] as string),
  },
  guesses: {
    about: '200 connections that guess keys',
    connections: 200,
    plan: asking((_, n) => requestText(`edk_${n}`, '/api/v1/editais')),
  },
  offsets: {
    about: '8 connections that request empty pages, each at a different offset',
    connections: 8,
    plan: asking((order, n) => requestText(order.key, `/api/v1/editais?offset=${1_000_001 + n}`)),
  },
  dashes: {
    about: '8 connections that open the page of a notice with 150 texts of 20,000 dashes',
    connections: 8,
    plan: asking(
      ({ key, page }) => `GET ${page} HTTP/1.1\r\nHost: x\r\nCookie: editais_chave=${key}\r\n\r\n`,
    ),
  },
  phrases: {
    about: '8 connections that search for a phrase of 32 equal words in 200 texts of 20,000',
    connections: 8,
    // Each is another one: an equal search could be remembered.
    plan: asking(({ key }, n) => requestText(key, `${PHRASE_PATH}&limit=${(n % 200) + 1}&fields=id`)),
  },
  streams: {
    about: '150 streams of events, of eight keys, that read nothing',
    connections: 150,
    plan: unreading(({ key, moreKeys }, n) => {
      const keys = [key, ...moreKeys]
      const own = keys[n % keys.length] as string
      return requestText(own, '/api/v1/mirror/changes', 'Accept: text/event-stream\r\n')
    }),
  },
}

const PHRASE_PATH = `/api/v1/mirror/editais?q=${encodeURIComponent(REPETITIVE_PHRASE)}`
const LARGE_HEADS = [
  'GET /',
  'GET / HTTP/1.1\r\nHost: x\r\nX-Large: ',
  `POST /api/v1/editais HTTP/1.1\r\nHost: x\r\nContent-Length: ${HUNDRED_MEGABYTES}\r\n\r\n`,
  `GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: ${HUNDRED_MEGABYTES}\r\n\r\n`,
]

function requestText(key: string, path: string, more = ''): string {
  return `GET ${path} HTTP/1.1\r\nHost: x\r\nX-API-Key: ${key}\r\n${more}\r\n`
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

/** Works with one connection after another, until the attack ends: whenever the server closes one, opens the next. */
async function keepOpen(
  attacker: Attacker,
  address: string,
  work: (socket: Socket, isOver: () => boolean) => Promise<void>,
): Promise<void> {
  const isEnd = () => performance.now() >= attacker.endsMs
  while (!isEnd()) {
    const socket = await open(attacker, address)
    if (socket) await work(socket, () => socket.destroyed || isEnd())
    else await sleep(50)
  }
}

/** Sends the whole text and reads nothing. */
function unread(attacker: Attacker, address: string, text: string): Promise<void> {
  return keepOpen(attacker, address, async socket => {
    socket.pause()
    socket.write(text)
    await new Promise(resolve => {
      socket.once('close', resolve)
      setTimeout(resolve, Math.max(1, attacker.endsMs - performance.now())).unref()
    })
  })
}

/** Sends one request after another, each as soon as the previous answer begins, and counts the answers. */
function ask(attacker: Attacker, address: string, next: () => string): Promise<void> {
  return keepOpen(attacker, address, async (socket, isOver) => {
    socket.on('data', chunk => {
      const [, status] = /^HTTP\/1\.1 (\d+)/.exec(chunk.toString('latin1', 0, 20)) ?? []
      if (status === undefined) return
      attacker.statuses[status] = (attacker.statuses[status] ?? 0) + 1
      if (isOver()) socket.destroy()
      else socket.write(next())
    })
    socket.write(next())
    await new Promise(resolve => socket.once('close', resolve))
  })
}

/** Reads one answer as slowly as over a bad line. */
function trickle(attacker: Attacker, address: string): Promise<void> {
  const { key, path } = attacker.order
  return keepOpen(attacker, address, async (socket, isOver) => {
    socket.pause()
    socket.write(requestText(key, path))
    while (!isOver()) {
      await sleep(TRICKLE.everyMs)
      socket.read(TRICKLE.bytes)
    }
  })
}

/** Sends `head`, then the same bytes until there are many or the server closes the connection. */
function flood(attacker: Attacker, address: string, head: string): Promise<void> {
  const chunk = Buffer.alloc(64 * 1024, 'a')
  return keepOpen(attacker, address, async socket => {
    socket.resume()
    socket.write(head)
    for (let sent = 0; sent < HUNDRED_MEGABYTES && !socket.destroyed; sent += chunk.length)
      if (!socket.write(chunk)) await sleep(5)
    socket.destroy()
  })
}

function slowly(attacker: Attacker, address: string): Promise<void> {
  return keepOpen(attacker, address, async (socket, isOver) => {
    socket.resume()
    socket.write('GET /healthz HTTP/1.1\r\nHost: x\r\n')
    while (!isOver()) {
      await sleep(1000)
      if (!socket.destroyed) socket.write('X-a: b\r\n')
    }
  })
}

if (import.meta.main) {
  const order = JSON.parse(process.argv[2] ?? '') as AttackOrder
  const endsMs = performance.now() + order.seconds * 1000
  const attacker: Attacker = { order, endsMs, statuses: {}, connections: 0 }
  const { connections, addresses = 1, plan } = ATTACKS[order.attack] as Attack
  const attack = plan(attacker)
  // The health probe uses 127.0.0.1.
  const all = Array.from({ length: connections }, (_, n) => attack(`127.0.0.${10 + (n % addresses)}`, n))
  await Promise.race([Promise.all(all), sleep(order.seconds * 1000)])
  const attacked: Attacked = { connections: attacker.connections, statuses: attacker.statuses }
  process.stdout.write(JSON.stringify(attacked), () => process.exit())
}
