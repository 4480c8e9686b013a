import { isIP } from 'node:net'
import { z } from 'zod'
import { formatHostAndPort, HTTP_DEFAULTS, type HttpSettings } from '#src/lib/http/settings.ts'
import { commaList } from './setting_kinds.ts'
import { durationSetting, type Environment, onOff, parseSettings, wholeNumberSetting } from './settings.ts'

const origins = commaList(
  one => one === '*' || (URL.canParse(one) && new URL(one).origin === one),
  'must be origins such as https://erp.example.com, separated by commas, or *',
)

const proxies = commaList(
  isNetwork,
  'must be addresses such as 10.0.0.7 or networks such as 10.0.0.0/8, separated by commas',
)

function isNetwork(text: string): boolean {
  const [address = '', bits, ...rest] = text.split('/')
  const version = isIP(address)
  if (version === 0 || rest.length > 0) return false
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (version === 4 ? 32 : 128))
}

/** Settings of the worker's HTTP. */
export const serveShape = {
  HTTP_HOST: z.string().default(HTTP_DEFAULTS.host),
  HTTP_PORT: wholeNumberSetting(0, 65_535).default(8080),
  HTTP_TRUSTED_PROXIES: proxies.default([...HTTP_DEFAULTS.trustedProxies]),
  SERVE_MAX_RPS: wholeNumberSetting(0, 100_000).default(0),
  SERVE_CORS_ORIGINS: origins.default([]),
  SERVE_MAX_BEHIND: durationSetting.prefault('15m'),
  WEBHOOKS_ALLOW_PRIVATE: onOff.default('off'),
}

const schema = z.object(serveShape)

export type ServeSettings = HttpSettings & {
  /** Requests per second allowed to each API key; null for no limit. */
  readonly maxRps: number | null
  /** Web pages of these origins may send requests from a browser; empty for none. */
  readonly corsOrigins: readonly string[]
  /** For how long a state may be served that is known not to be the newest. */
  readonly maxBehindMs: number
  /** Whether webhooks may be sent to this machine and private networks. */
  readonly webhooksToPrivate: boolean
}

/** Settings of `editais serve`. Throws FatalError (usage) that names every wrong variable. */
export function readServeSettings(environment: Environment): ServeSettings {
  return serveSettings(parseSettings(schema, environment))
}

/** Returns the address of a server for this machine: one that listens on every address does so on this one. */
export function formatLocalAddress({ host, port }: Pick<HttpSettings, 'host' | 'port'>): string {
  return `http://${formatHostAndPort(['0.0.0.0', '::'].includes(host) ? '127.0.0.1' : host, port)}`
}

export function serveSettings(values: z.output<typeof schema>): ServeSettings {
  return {
    ...HTTP_DEFAULTS,
    host: values.HTTP_HOST,
    port: values.HTTP_PORT,
    trustedProxies: values.HTTP_TRUSTED_PROXIES,
    maxRps: values.SERVE_MAX_RPS || null,
    corsOrigins: values.SERVE_CORS_ORIGINS,
    maxBehindMs: values.SERVE_MAX_BEHIND,
    webhooksToPrivate: values.WEBHOOKS_ALLOW_PRIVATE === 'on',
  }
}
