import { randomUUID } from 'node:crypto'
import type { Context, Hono, MiddlewareHandler } from 'hono'
import { cors } from 'hono/cors'
import type { ContentfulStatusCode } from 'hono/utils/http-status'
import type { Logger } from 'pino'
import { z } from 'zod'
import type { ServeSettings } from '#config/http.ts'
import { explain } from '#src/lib/errors.ts'
import type { HttpBindings } from '#src/lib/http/outgoing.ts'
import { sendFault, sendRefusal } from '#src/server/contract/answers.ts'
import {
  createApiRoutes,
  createRoutes,
  type KeyCheck,
  LIST_PATH,
  requireKey,
} from '#src/server/contract/routes.ts'
import { type NoticeFilter, type NoticeSource, Refusal } from '#src/server/contract/source.ts'
import { type Entrance, QuotaExceeded } from '#src/server/entrance.ts'
import { type KeyHolder, readsNotices } from '#src/server/key_file.ts'
import type { McpClient } from '#src/server/mcp/http.ts'
import type { ServedCompanies } from '#src/server/served_companies.ts'
import type { ServedSnapshot } from '#src/server/snapshot.ts'
import { CHANGES_ROUTE } from './changes.ts'
import { EXPORT_ROUTE } from './export.ts'
import {
  announce,
  createMirrorDescription,
  createMirrorRoutes,
  MIRROR_PATH,
  type MirrorRoute,
  type MirrorSource,
  mirrorRoute,
  noteRoutes,
  watchForEnd,
} from './routes.ts'
import { SEARCH_ROUTE } from './search.ts'
import { createWebhookRoutes, type WebhookOptions } from './webhooks.ts'

/** Valid request ids from clients. */
const REQUEST_ID = /^[\w.:-]{1,64}$/
/** Answers are the company's own, and comparing the tag shows whether they are still current. */
const HEADERS = { 'cache-control': 'private, no-cache', vary: 'Authorization, X-API-Key, Accept-Encoding' }
export type ServeRoutesOptions = {
  readonly served: ServedCompanies
  readonly settings: Pick<ServeSettings, 'corsOrigins'>
  readonly entrance: Entrance
  readonly log: Logger
}

type ServeEnv = {
  Bindings: Partial<HttpBindings>
  Variables: { source: ServeRequest; requestId: string }
}

/**
 * Serves the API of the contract from the latest snapshots, with the usual HTTP features around it. Each request is
 * answered from one snapshot, so its answer is consistent.
 */
export function createServeRoutes({ served, settings, entrance, log }: ServeRoutesOptions): Hono<ServeEnv> {
  const api: Hono<ServeEnv> = createRoutes()
  const mirror = mirrorRoutes({ findLake: company => served.findLake(company), dataDir: served.dataDir, log })
  const paths = [`${LIST_PATH}/*`, `${MIRROR_PATH}/*`]

  const begin: MiddlewareHandler<ServeEnv> = async (context, next) => {
    const given = context.req.header('x-request-id')
    const id = given !== undefined && REQUEST_ID.test(given) ? given : randomUUID()
    context.set('requestId', id)
    const { exchange } = context.env.outgoing ?? {}
    if (exchange) {
      Object.assign(exchange.headers, HEADERS)
      exchange.headers['x-request-id'] = id
      exchange.notes.request_id = id
      exchange.onEnd = entrance.noteAnswer
    }
    await next()
    // An answer's own headers override those of its exchange: without this, only the Vary that CORS set would remain.
    const vary = settings.corsOrigins.length > 0 ? context.res.headers.get('vary') : null
    if (vary) context.header('Vary', `${HEADERS.vary}, ${vary}`)
    if (context.error && !(context.error instanceof Refusal))
      log.error({ request_id: id }, explain(context.error).message)
  }
  for (const path of paths) api.use(path, begin)
  if (settings.corsOrigins.length > 0) {
    const origin = settings.corsOrigins.includes('*') ? '*' : [...settings.corsOrigins]
    const exposeHeaders = [
      ...['ETag', 'X-Data-As-Of', 'X-Request-Id', 'Retry-After', 'RateLimit', 'RateLimit-Policy'],
      ...['Content-Range', 'Accept-Ranges'],
    ]
    const allow = cors({ origin, allowMethods: ['GET', 'HEAD'], exposeHeaders, maxAge: 600 })
    for (const path of paths) api.use(path, allow)
  }
  const check: KeyCheck<ServeRequest, ServeEnv> = {
    companyOfKey(key, context) {
      const holder = entrance.whose(key)
      if (!holder) return null
      // Before any refusal, so that the log shows whose request was refused.
      const isStillValid = () => isValid(entrance, key)
      const headers = context.env.outgoing?.exchange?.headers ?? {}
      const source = new ServeRequest(holder, served, { headers, isStillValid })
      context.set('source', source)
      const { notes } = context.env.outgoing?.exchange ?? {}
      if (notes) Object.assign(notes, { company: holder.company, key: holder.prefix })
      if (!readsNotices(holder)) {
        const has = holder.scopes.join(', ') || 'no scope'
        throw new Refusal(403, `${holder.prefix} has ${has}, and may not read notices.`)
      }
      const announced = context.req.path.startsWith(MIRROR_PATH) ? headers : {}
      admit(entrance, holder, announced)
      return source
    },
    onWrongKey: context => entrance.refuseLate(context.env.outgoing?.exchange?.address ?? ''),
  }
  // Turns are per key: a key with a thousand requests for analyses does not delay a key with one.
  const whenItIsTheirTurn = <T>(
    holder: Pick<KeyHolder, 'prefix'>,
    context: Context,
    work: () => Promise<T>,
  ) => entrance.inTurn(holder, () => !context.env.outgoing?.destroyed, work)
  api.route('/', createApiRoutes<ServeRequest, ServeEnv>({ ...check, inTurn: whenItIsTheirTurn }))
  api.route('/', createMirrorDescription(mirror))
  noteRoutes(api, mirror)
  api.use(`${MIRROR_PATH}/*`, requireKey(check))
  api.route('/', createMirrorRoutes(mirror, whenItIsTheirTurn))
  api.onError((error, context) => sendRefusal(context, error) ?? sendFault(context))
  return api
}

/** Counts the request, and shows what is left of the key's quota. */
function admit(entrance: Entrance, holder: KeyHolder, headers: Record<string, string>): void {
  try {
    const quota = entrance.admit(holder)
    if (quota) announce(headers, quota)
  } catch (error) {
    if (error instanceof QuotaExceeded) announce(headers, error.quota)
    throw error
  }
}

/** Returns whether the key of an answer under way is still valid. While the keys cannot be read, it counts as valid. */
function isValid(entrance: Entrance, key: string): boolean {
  try {
    return entrance.whose(key) !== null
  } catch (error) {
    if (error instanceof Refusal) return true
    throw error
  }
}

/** One request of a company, answered from one snapshot, with the snapshot's time in a header. */
class ServeRequest implements NoticeSource, MirrorSource {
  readonly company: string
  readonly prefix: string
  readonly scopes: KeyHolder['scopes']
  readonly maxRps: number | null
  readonly isStillValid: () => boolean
  readonly #served: ServedCompanies
  readonly #headers: Record<string, string>

  constructor(
    { company, prefix, scopes, maxRps }: KeyHolder,
    served: ServedCompanies,
    about: { headers: Record<string, string>; isStillValid: () => boolean },
  ) {
    this.company = company
    this.prefix = prefix
    this.scopes = scopes
    this.maxRps = maxRps
    this.#served = served
    this.#headers = about.headers
    this.isStillValid = about.isStillValid
  }

  async list(filter: NoticeFilter) {
    return await this.snapshot().list(filter)
  }

  async get(id: string) {
    return await this.snapshot().get(id)
  }

  async analysis(id: string) {
    return await this.snapshot().analysis(id)
  }

  get waiting() {
    return this.#served.waiting
  }

  feed() {
    return this.#served.getFeed(this.company)
  }

  snapshot(): ServedSnapshot {
    return this.#announced(this.#served.getSnapshot(this.company))
  }

  findSnapshot(isWanted: (snapshot: ServedSnapshot) => boolean): ServedSnapshot | null {
    const found = this.#served.getReadable(this.company).find(isWanted)
    return found ? this.#announced(found) : null
  }

  #announced(snapshot: ServedSnapshot): ServedSnapshot {
    this.#headers['x-data-as-of'] = snapshot.asOf
    return snapshot
  }
}

/** The route that shows what a key is for, and how current the data is: the first request of someone who has a key. */
const ABOUT_ROUTE = mirrorRoute({
  method: 'GET',
  path: '',
  name: 'about',
  scope: 'read',
  summary: 'The key and the snapshot',
  description: 'What the key may do, whose data it reads, and the snapshot that answers come from.',
  query: z.object({}),
  responses: {
    '200': {
      description: 'About this key.',
      content: {
        'application/json': {
          schema: {
            type: 'object',
            required: ['company', 'key', 'scopes', 'max_rps', 'snapshot', 'as_of'],
            properties: {
              company: { type: 'string' },
              key: { type: 'string', description: "The key's prefix." },
              scopes: { type: 'array', items: { type: 'string' } },
              max_rps: {
                type: ['integer', 'null'],
                description: "The key's own limit; null for that of all keys.",
              },
              snapshot: { type: 'string', description: 'The name of the snapshot.' },
              as_of: { type: 'string', format: 'date-time', description: 'When it was published.' },
            },
          },
        },
      },
    },
  },
  async answer({ context, source }) {
    const { name: snapshot, asOf: as_of } = source.snapshot()
    const { company, prefix: key, scopes, maxRps: max_rps } = source
    return context.json({ company, key, scopes, max_rps, snapshot, as_of })
  },
})

const MESSAGE = {
  type: 'object',
  description: 'A message of JSON-RPC 2.0.',
  required: ['jsonrpc'],
  properties: { jsonrpc: { const: '2.0' }, method: { type: 'string' }, params: { type: 'object' } },
}

const refusal = (description: string) => ({
  description,
  content: { 'application/json': { schema: MESSAGE } },
})

type McpOptions = {
  /** Returns the directory of a company's snapshots. */
  readonly findLake: (company: string) => string
  readonly log: Logger
}

/** Creates the route of MCP's streamable HTTP, without sessions: each request is answered by itself. */
function mcpRoute({ findLake, log }: McpOptions) {
  let endpoint: Promise<(request: Request, client: McpClient) => Promise<Response>> | null = null
  return mirrorRoute({
    method: 'POST',
    path: '/mcp',
    name: 'mcp',
    scope: 'read',
    ownTurns: true,
    summary: 'Messages of the Model Context Protocol',
    description:
      'Tools, resources and prompts for AI agents, over streamable HTTP without sessions. The tool `query` needs the scope `sql` as well. A message has at most 64 KiB. Requests from web pages (with an `Origin`) are refused: 403.',
    query: z.object({}),
    body: { required: true, content: { 'application/json': { schema: MESSAGE } } },
    responses: {
      '200': {
        description: 'The answer.',
        content: { 'application/json': { schema: MESSAGE } },
      },
      '400': {
        description: 'A parameter is wrong, or the body is no message.',
        content: {
          'application/json': { schema: { anyOf: [{ $ref: '#/components/schemas/Error' }, MESSAGE] } },
        },
      },
      '202': { description: 'A notification was received.' },
      '406': refusal('The client does not accept `application/json`.'),
      '413': refusal('The message is too long.'),
      '415': refusal('The message is not JSON.'),
    },
    async answer({ context, source }) {
      // Loaded with the first request, because most servers get none.
      endpoint ??= import('#src/server/mcp/http.ts').then(({ createMcpEndpoint }) => createMcpEndpoint(log))
      const { notes } = context.env.outgoing?.exchange ?? {}
      const { company, prefix, scopes } = source
      const response = await (await endpoint)(context.req.raw, {
        ...{ prefix, scopes, lake: findLake(company), searched: source },
        gone: watchForEnd(context),
        isStillValid: () => source.isStillValid(),
        onCall(tool) {
          if (notes) notes.tool = tool
        },
      })
      // Through the context, which has headers of its own. No answer is endless.
      const body = await response.arrayBuffer()
      const type = response.headers.get('content-type')
      const headers = type === null ? {} : { 'content-type': type }
      if (body.byteLength === 0) return context.body(null, response.status as 202, headers)
      return context.body(body, response.status as ContentfulStatusCode, headers)
    },
  })
}

/** Returns all routes of the mirror's own API. */
export function mirrorRoutes(options: McpOptions & WebhookOptions): readonly MirrorRoute[] {
  return [
    ABOUT_ROUTE,
    CHANGES_ROUTE,
    SEARCH_ROUTE,
    EXPORT_ROUTE,
    mcpRoute(options),
    ...createWebhookRoutes(options),
  ]
}
