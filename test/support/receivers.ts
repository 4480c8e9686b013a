import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { Ajv } from 'ajv'
import { onTestFinished } from 'vitest'

const text = (maxLength: number) => ({ type: 'string', minLength: 1, maxLength })

/** The bodies that each API documents, with the fields that we use: an unknown one would be a mistake. */
const SLACK = {
  type: 'object',
  additionalProperties: false,
  required: ['text'],
  // Raw angle brackets are links and mentions.
  properties: { text: { ...text(40_000), pattern: '^[^<>]+$' } },
}
const PAGERDUTY_KEYS = {
  routing_key: { type: 'string', pattern: '^[A-Za-z0-9]{32}$' },
  dedup_key: text(255),
}
const PAGERDUTY_TRIGGER = {
  type: 'object',
  additionalProperties: false,
  required: ['routing_key', 'event_action', 'payload'],
  properties: {
    ...PAGERDUTY_KEYS,
    event_action: { const: 'trigger' },
    client: text(255),
    payload: {
      type: 'object',
      additionalProperties: false,
      required: ['summary', 'source', 'severity'],
      properties: {
        summary: text(1024),
        source: text(255),
        severity: { enum: ['critical', 'error', 'warning', 'info'] },
        timestamp: { type: 'string', pattern: '^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z$' },
        component: text(255),
        group: text(255),
        class: text(255),
        custom_details: { type: 'object' },
      },
    },
  },
}
const PAGERDUTY_RESOLVE = {
  type: 'object',
  additionalProperties: false,
  required: ['routing_key', 'event_action', 'dedup_key'],
  properties: { ...PAGERDUTY_KEYS, event_action: { const: 'resolve' } },
}
const OPSGENIE_CREATE = {
  type: 'object',
  additionalProperties: false,
  required: ['message'],
  properties: {
    message: text(130),
    alias: text(512),
    description: text(15_000),
    tags: { type: 'array', maxItems: 20, items: text(50) },
    details: { type: 'object', additionalProperties: { type: 'string' } },
    entity: text(512),
    source: text(100),
    priority: { enum: ['P1', 'P2', 'P3', 'P4', 'P5'] },
  },
}
const OPSGENIE_CLOSE = {
  type: 'object',
  additionalProperties: false,
  properties: { user: text(100), source: text(100), note: text(25_000) },
}

const ajv = new Ajv()
const FITS = {
  slack: ajv.compile(SLACK),
  trigger: ajv.compile(PAGERDUTY_TRIGGER),
  resolve: ajv.compile(PAGERDUTY_RESOLVE),
  create: ajv.compile(OPSGENIE_CREATE),
  close: ajv.compile(OPSGENIE_CLOSE),
}

export const SLACK_PATH = '/services/T0/B0/slackS3cr3t'
export const PAGERDUTY_KEY = 'e93facc04764012d7bfb002500d5d1a6'
export const OPSGENIE_KEY = 'eb243592-faa2-4ba2-a551-1afdf565c889'

/** What a receiver understood: which of its problems is open. */
export type Understood = {
  readonly to: 'slack' | 'pagerduty' | 'opsgenie'
  readonly action: keyof typeof FITS
  /** By which its messages about one problem belong together. */
  readonly key: string
  readonly body: Record<string, unknown>
}

/** Slack, PagerDuty and Opsgenie behind one address, each with the paths, bodies and answers that it documents. */
export type ReceiversServer = {
  readonly url: string
  readonly settings: Readonly<Record<string, string>>
  /** What was accepted, in order. */
  readonly understood: Understood[]
  /** What was not, and why. */
  readonly misunderstood: string[]
  /** Keys of the problems that are open. */
  open(to: Understood['to']): string[]
  /** Answers instead, if it returns true. */
  intercept: (request: IncomingMessage, response: ServerResponse) => boolean
}

export async function startReceivers(): Promise<ReceiversServer> {
  const understood: Understood[] = []
  const misunderstood: string[] = []
  const opened = { slack: new Set<string>(), pagerduty: new Set<string>(), opsgenie: new Set<string>() }
  const server = createServer(async (request, response) => {
    const body = (await json(request).catch(() => null)) as Record<string, unknown>
    if (receivers.intercept(request, response)) return
    const read = understand(request, body)
    if (typeof read === 'string') {
      misunderstood.push(read)
      response.writeHead(400).end('no')
      return
    }
    understood.push(read)
    if (['trigger', 'create'].includes(read.action)) opened[read.to].add(read.key)
    else opened[read.to].delete(read.key)
    answer(response, read)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const receivers: ReceiversServer = {
    url,
    settings: {
      ALERT_SLACK_URL: `${url}${SLACK_PATH}`,
      ALERT_PAGERDUTY_KEY: `${url.replace('//', `//${PAGERDUTY_KEY}@`)}/pagerduty/`,
      ALERT_OPSGENIE_KEY: `${url.replace('//', `//${OPSGENIE_KEY}@`)}/opsgenie`,
    },
    understood,
    misunderstood,
    open: to => [...opened[to]],
    intercept: () => false,
  }
  return receivers
}

/** What the documentation of the API says about such a request; why not, if it is wrong. */
function understand({ method, url = '', headers }: IncomingMessage, body: Record<string, unknown>) {
  const what = `${method} ${url}`
  if (headers['content-type'] !== 'application/json') return `${what}: ${headers['content-type']}`
  const read = byPath(what, body)
  if (read === null) return `${what}: no such path`
  if (read.to === 'opsgenie' && headers.authorization !== `GenieKey ${OPSGENIE_KEY}`) return `${what}: key`
  if (body.routing_key !== undefined && body.routing_key !== PAGERDUTY_KEY) return `${what}: routing_key`
  const fits = FITS[read.action]
  return fits(body) ? { ...read, body } : `${what}: ${ajv.errorsText(fits.errors)}: ${JSON.stringify(body)}`
}

function byPath(what: string, body: Record<string, unknown>): Omit<Understood, 'body'> | null {
  if (what === `POST ${SLACK_PATH}`) return { to: 'slack', action: 'slack', key: '' }
  if (what === 'POST /pagerduty/v2/enqueue') {
    const action = body.event_action === 'resolve' ? 'resolve' : 'trigger'
    return { to: 'pagerduty', action, key: `${body.dedup_key}` }
  }
  if (what === 'POST /opsgenie/v2/alerts') return { to: 'opsgenie', action: 'create', key: `${body.alias}` }
  const [, alias] = /^POST \/opsgenie\/v2\/alerts\/([^/?]+)\/close\?identifierType=alias$/.exec(what) ?? []
  return alias === undefined ? null : { to: 'opsgenie', action: 'close', key: decodeURIComponent(alias) }
}

function answer(response: ServerResponse, { to, key }: Understood): void {
  if (to === 'slack') {
    response.end('ok')
    return
  }
  const body =
    to === 'pagerduty'
      ? { status: 'success', message: 'Event processed', dedup_key: key }
      : { result: 'Request will be processed', took: 0.1, requestId: 'c5d4f2c0' }
  response.writeHead(202, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}
