import type { Logger } from 'pino'
import { z } from 'zod'
import { FatalError, getMessage } from '#src/lib/errors.ts'
import { Refusal } from '#src/server/contract/source.ts'
import type { KeyHolder } from '#src/server/key_file.ts'
import { readKeyLines, type Subscription, Subscriptions } from '#src/server/webhooks/subscriptions.ts'
import { type MirrorRoute, mirrorRoute } from './routes.ts'

/** Short, because reading the file blocks all answers. */
const WAIT_MS = 50
/** The newest of each webhook. */
const MAX_DEAD_LETTERS = 100

export type WebhookOptions = {
  /** The directory of the subscriptions. */
  readonly dataDir: string
  readonly log: Logger
}

/**
 * Returns the routes for integrators without access to the worker. Whom it posts to is decided where it runs: a key alone must
 * not make it send requests to new addresses.
 */
export function createWebhookRoutes(options: WebhookOptions): readonly MirrorRoute[] {
  return [listRoute(options), replayRoute(options)]
}

function listRoute(options: WebhookOptions): MirrorRoute {
  return mirrorRoute({
    method: 'GET',
    path: '/webhooks',
    name: 'webhooks',
    scope: 'feed',
    summary: 'Webhooks, and what they could not deliver',
    description: `The webhooks of this key, and of keys that it replaced; with the scope \`admin\`, those of the whole company. \`dead_letters\` are the newest messages that were given up, ${MAX_DEAD_LETTERS} at most. An address is shown without its path, which is often a secret.`,
    query: z.object({}),
    responses: { '200': { description: 'Oldest first.', content: json(LIST) } },
    async answer({ context, source }) {
      const webhooks = read(options, store => {
        const backlogs = new Map(store.backlogs().map(backlog => [backlog.id, backlog]))
        return listOwn(store.list(), source, options.dataDir).map(subscription => ({
          ...shown(subscription),
          waiting: backlogs.get(subscription.id)?.queued ?? 0,
          given_up: backlogs.get(subscription.id)?.dead ?? 0,
          dead_letters: store.deadLetters(subscription.id, MAX_DEAD_LETTERS),
        }))
      })
      return context.json({ webhooks: webhooks ?? [] })
    },
  })
}

function replayRoute(options: WebhookOptions): MirrorRoute {
  return mirrorRoute({
    method: 'POST',
    path: '/webhooks/:id/replay',
    name: 'webhook_replay',
    scope: 'feed',
    summary: 'Send again what was given up',
    description:
      'All messages of a webhook that were given up are queued once more, with their ids. The daemon sends them within a minute, unless the webhook is stopped.',
    query: z.object({}),
    parameters: { id: 'The id of a webhook that `GET /api/v1/mirror/webhooks` shows.' },
    responses: { '200': { description: 'How many messages will be sent again.', content: json(REPLAYED) } },
    async answer({ context, source }) {
      const id = context.req.param('id')
      const replayed = read(options, store => {
        const own = listOwn(store.list(), source, options.dataDir).find(one => one.id === id)
        return own ? store.replay(own.id, new Date()) : null
      })
      if (replayed === null)
        throw new Refusal(404, 'This key has no such webhook.', null, 'webhook_not_found')
      return context.json({ replayed })
    },
  })
}

function listOwn(
  all: readonly Subscription[],
  { company, prefix, scopes }: KeyHolder,
  dataDir: string,
): readonly Subscription[] {
  const ofCompany = all.filter(subscription => subscription.company === company)
  if (scopes.includes('admin')) return ofCompany
  const lines = readKeyLines(dataDir, WAIT_MS)
  return ofCompany.filter(({ key }) => lines?.(key).some(entry => entry.prefix === prefix))
}

function shown({ id, key, url, events, createdAt, stoppedBecause }: Subscription) {
  const { host } = new URL(url)
  return { id, key, receiver: host, events, created_at: createdAt, stopped_because: stoppedBecause }
}

/**
 * Returns null without a file of subscriptions.
 * @throws Refusal (503) if it cannot be read or written now.
 */
function read<T>({ dataDir, log }: WebhookOptions, work: (store: Subscriptions) => T): T | null {
  let store: Subscriptions | null = null
  try {
    store = Subscriptions.openIfThere(dataDir, WAIT_MS)
    return store && work(store)
  } catch (error) {
    log.error(
      error instanceof FatalError
        ? error.message
        : `The webhooks cannot be read or written: ${getMessage(error)}.`,
    )
    throw new Refusal(503, 'The webhooks cannot be read or written at the moment.', 1)
  } finally {
    store?.close()
  }
}

const json = (schema: object) => ({ 'application/json': { schema } })

const TIME = { type: 'string', format: 'date-time' }

const DEAD_LETTER = {
  type: 'object',
  required: ['id', 'at', 'because'],
  properties: {
    id: { type: 'string', description: 'Its `webhook-id`.' },
    at: { ...TIME, description: 'When it was given up.' },
    because: { type: 'string', description: 'Why the last attempt failed.' },
  },
}

const WEBHOOK = {
  type: 'object',
  required: [
    ...['id', 'key', 'receiver', 'events', 'created_at', 'stopped_because'],
    ...['waiting', 'given_up', 'dead_letters'],
  ],
  properties: {
    id: { type: 'string' },
    key: { type: 'string', description: 'The prefix of the API key that it was created for.' },
    receiver: { type: 'string', description: 'The host that messages are posted to.' },
    events: { type: ['array', 'null'], items: { type: 'string' }, description: 'Null for all.' },
    created_at: TIME,
    stopped_because: { type: ['string', 'null'], description: 'Null while it sends.' },
    waiting: { type: 'integer', description: 'Messages to be sent.' },
    given_up: { type: 'integer', description: 'Messages that were given up.' },
    dead_letters: { type: 'array', items: DEAD_LETTER },
  },
}

const LIST = {
  type: 'object',
  required: ['webhooks'],
  properties: { webhooks: { type: 'array', items: WEBHOOK } },
}

const REPLAYED = {
  type: 'object',
  required: ['replayed'],
  properties: { replayed: { type: 'integer' } },
}
