import type { IncomingMessage } from 'node:http'
import { BlockList, isIP, isIPv6 } from 'node:net'

/** The sender of a request, according to its connection and the trusted proxies. */
export type Client = {
  /** An IP address. */
  readonly address: string
  /** Whether the client uses TLS to a trusted proxy; this server itself never uses TLS. */
  readonly isSecure: boolean
}

type ClientAddresses = {
  of(incoming: IncomingMessage): Client
  isTrusted(address: string): boolean
}

/** Only the end of the header is read, which proxies write; a client may put anything before that. */
const MAX_FORWARDED_LENGTH = 1024

/**
 * Reads the client's address from the connection. If a trusted proxy opened it, reads the proxy's
 * `X-Forwarded-For` instead: the last address in it that is not itself a trusted proxy. The client can forge
 * anything before that address, so it is ignored.
 * @param trusted addresses and networks (`10.0.0.0/8`), already validated.
 */
export function createClientAddresses(trusted: readonly string[]): ClientAddresses {
  const list = new BlockList()
  for (const network of trusted) {
    const [address = '', bits] = network.split('/')
    const family = isIPv6(address) ? 'ipv6' : 'ipv4'
    if (bits === undefined) list.addAddress(address, family)
    else list.addSubnet(address, Number(bits), family)
  }
  const isTrusted = (address: string) =>
    trusted.length > 0 && list.check(address, isIPv6(address) ? 'ipv6' : 'ipv4')
  return {
    isTrusted,
    of(incoming) {
      const address = readPeerAddress(incoming.socket)
      if (!isTrusted(address)) return { address, isSecure: false }
      const forwarded = lastUntrusted(incoming.headers['x-forwarded-for'], isTrusted)
      // If there are several, the trusted proxy wrote the last one.
      const scheme = String(incoming.headers['x-forwarded-proto'] ?? '')
        .split(',')
        .at(-1)
      return { address: forwarded ?? address, isSecure: scheme?.trim().toLowerCase() === 'https' }
    },
  }
}

/** Returns the peer's address; an IPv4-mapped IPv6 address is returned as IPv4. */
export function readPeerAddress({ remoteAddress = '' }: { remoteAddress?: string | undefined }): string {
  return remoteAddress.startsWith('::ffff:') && remoteAddress.includes('.')
    ? remoteAddress.slice(7)
    : remoteAddress
}

/** Returns the network of an address: a client with one IPv6 address usually has 2^64 of them, so a /64 network counts as one. */
export function findNetwork(address: string): string {
  if (!isIPv6(address)) return address
  const [head = '', tail] = address.split('%')[0]?.split('::') ?? []
  const left = head === '' ? [] : head.split(':')
  const right = tail === undefined || tail === '' ? [] : tail.split(':')
  const zeros = tail === undefined ? 0 : 8 - left.length - right.length
  const groups = [...left, ...Array.from({ length: Math.max(0, zeros) }, () => '0'), ...right]
  return `${groups.slice(0, 4).join(':')}::/64`
}

function lastUntrusted(
  header: string | string[] | undefined,
  isTrusted: (address: string) => boolean,
): string | null {
  const text = Array.isArray(header) ? header.join(',') : (header ?? '')
  if (text === '') return null
  let last: string | null = null
  for (const part of text.slice(-MAX_FORWARDED_LENGTH).split(',').reverse()) {
    const address = readPeerAddress({ remoteAddress: withoutPort(part.trim()) })
    // Stop trusting the header at anything that is not an address.
    if (isIP(address) === 0) return last
    last = address
    if (!isTrusted(address)) return address
  }
  return last
}

/** Removes the client's port, which some proxies add: `203.0.113.7:4711`, `[2001:db8::1]:4711`. */
function withoutPort(text: string): string {
  return text.replace(/^\[([^\]]*)\](:\d+)?$/, '$1').replace(/^(\d+\.\d+\.\d+\.\d+):\d+$/, '$1')
}

/** Maximum number of remembered addresses; the least recent spender is forgotten first. */
const MAX_REMEMBERED = 10_000

type Bucket = { left: number; atMs: number }

/** A rate limit per address: a burst of `atOnce`, then one more per `refillMs`. */
type Allowance = {
  /** Seconds until this address may spend again; 0 if it may now. */
  waitSeconds(address: string): number
  spend(address: string): void
}

/** Counts by address; an IPv6 /64 network counts as one. */
export function createAllowance(
  { atOnce, refillMs }: { readonly atOnce: number; readonly refillMs: number },
  nowMs = () => performance.now(),
): Allowance {
  const buckets = new Map<string, Bucket>()
  const countLeft = (network: string): number => {
    const bucket = buckets.get(network)
    return bucket ? Math.min(atOnce, bucket.left + (nowMs() - bucket.atMs) / refillMs) : atOnce
  }
  return {
    waitSeconds(address) {
      const left = countLeft(findNetwork(address))
      return left >= 1 ? 0 : Math.ceil(((1 - left) * refillMs) / 1000)
    },
    spend(address) {
      const network = findNetwork(address)
      const left = Math.max(0, countLeft(network) - 1)
      buckets.delete(network)
      if (buckets.size >= MAX_REMEMBERED) buckets.delete(buckets.keys().next().value as string)
      buckets.set(network, { left, atMs: nowMs() })
    },
  }
}

/** For wrong credentials: ten in a row are a mistake. More are a guessing attack, and get ten attempts per minute. */
export const WRONG_CREDENTIALS = { atOnce: 10, refillMs: 6000 } as const
