/** The address of a server, and the limits for its clients. */
export type HttpSettings = {
  readonly host: string
  /** 0 picks a free port. */
  readonly port: number
  /** Addresses and networks whose `X-Forwarded-For` and `X-Forwarded-Proto` are trusted. */
  readonly trustedProxies: readonly string[]
  readonly maxConnections: number
  /** Per IPv4 address or IPv6 /64 network; trusted proxies are exempt. */
  readonly maxConnectionsPerAddress: number
  /** A request must arrive completely within this time. */
  readonly requestTimeoutMs: number
  /** The client must read an answer within this time; large answers get this long again for each 2 MB. */
  readonly answerTimeoutMs: number
}

/** Returns a host and a port as an address has them: `127.0.0.1:8080`, `[::1]:8080`. */
export function formatHostAndPort(host: string, port: number): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`
}

/** For a server that only this machine can reach, on any free port. */
export const HTTP_DEFAULTS: HttpSettings = {
  host: '127.0.0.1',
  port: 0,
  trustedProxies: [],
  // Each takes a file of the process and buffers, of which there must be some left for everything else.
  maxConnections: 2000,
  // An office behind one address: 80 browsers of six connections. A proxy for more is a trusted one.
  maxConnectionsPerAddress: 500,
  // Requests are small: one that takes longer only holds a connection.
  requestTimeoutMs: 20_000,
  // Unread answers stay in the memory of the worker.
  answerTimeoutMs: 30_000,
}
