/** What a server needs to listen, and the bounds of what clients may take of it. */
export type HttpSettings = {
  readonly host: string
  /** 0 takes a free one. */
  readonly port: number
  /** Addresses and networks whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed. */
  readonly trustedProxies: readonly string[]
  readonly maxConnections: number
  /** Of one IPv4 address or one IPv6 network of 64 bits; trusted proxies are exempt. */
  readonly maxConnectionsPerAddress: number
  /** A request must have arrived whole by then. */
  readonly requestTimeoutMs: number
  /** An answer must have been read by then; large ones have as long again for each 2 MB. */
  readonly answerTimeoutMs: number
}

/** Of a server for this machine alone, on any free port. */
export const HTTP_DEFAULTS: HttpSettings = {
  host: '127.0.0.1',
  port: 0,
  trustedProxies: [],
  maxConnections: 2000,
  maxConnectionsPerAddress: 500,
  requestTimeoutMs: 20_000,
  answerTimeoutMs: 30_000,
}
