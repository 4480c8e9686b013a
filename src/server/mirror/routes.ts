import type { Context, Hono } from 'hono'
import { z } from 'zod'
import { computeTag } from '#src/lib/hash.ts'
import type { HttpBindings } from '#src/lib/http/outgoing.ts'
import { sendJson, sendNoSuchRoute, sendWrongMethod } from '#src/server/contract/answers.ts'
import { createRoutes } from '#src/server/contract/routes.ts'
import { Json, Refusal } from '#src/server/contract/source.ts'
import type { Quota } from '#src/server/entrance.ts'
import type { Feed } from '#src/server/feed/feed.ts'
import type { Waiting } from '#src/server/feed/waiting.ts'
import type { KeyHolder, Scope } from '#src/server/key_file.ts'
import type { ServedSnapshot } from '#src/server/snapshot.ts'

/** All paths of the mirror's own API begin with it; those of the contract never do. */
export const MIRROR_PATH = '/api/v1/mirror'

/** The source that a key stands for. Everything below is limited to its company. */
export type MirrorSource = KeyHolder & {
  /** Returns the company's current snapshot, and sets `X-Data-As-Of` in the answer. @throws Refusal (503) if there is none yet. */
  snapshot(): ServedSnapshot
  /** Returns the company's changes. */
  feed(): Feed
  /** Requests that wait for changes. */
  readonly waiting: Waiting
  /** Whether the key still has its rights: for answers that last longer than a moment. */
  isStillValid(): boolean
  /**
   * Finds the first snapshot that is as wanted, among the current one and replaced ones that can still be read; or null. Sets
   * `X-Data-As-Of`, too.
   */
  findSnapshot(isWanted: (snapshot: ServedSnapshot) => boolean): ServedSnapshot | null
}

/** Runs work when it is this key's turn; null, without running it, if the client is gone by then. */
type InTurn = <T>(work: () => Promise<T>) => Promise<T | null>

type Query = z.ZodObject

/** One route below `MIRROR_PATH`, with what its description needs. */
export type MirrorRoute<Q extends Query = Query> = {
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** Below `MIRROR_PATH`, with parameters as `:id`. */
  readonly path: string
  /** Its name in metrics and the access log, and its `operationId`. */
  readonly name: string
  readonly scope: Scope
  readonly summary: string
  /** Markdown. */
  readonly description: string
  /** Its query parameters, each with a description; any other is refused. */
  readonly query: Q
  /** Its request body in OpenAPI, if it reads one. */
  readonly body?: object
  /** Descriptions of the parameters in its path. */
  readonly parameters?: Readonly<Record<string, string>>
  /** Its own answers in OpenAPI, by status; those of every route are added. */
  readonly responses: Readonly<Record<string, object>>
  /**
   * It may take long, so it is not answered in one turn: it takes one for each piece of work, or bounds its work in
   * another way.
   */
  readonly ownTurns?: true
  /** @throws Refusal for whatever the client could change. */
  readonly answer: (request: {
    readonly context: Context
    readonly source: MirrorSource
    readonly query: z.output<Q>
    readonly inTurn: InTurn
  }) => Promise<Response>
}

/** Checks the types of a route's query where it is defined. */
export function mirrorRoute<Q extends Query>(route: MirrorRoute<Q>): MirrorRoute {
  return route as unknown as MirrorRoute
}

/** Creates a query parameter that is a whole number. */
export function wholeParameter({ min, max, usual }: { min: number; max: number; usual: number }) {
  const message = `must be a whole number from ${min} to ${max}`
  return z
    .string()
    .regex(/^\d{1,9}$/, message)
    .meta({ type: 'integer', minimum: min, maximum: max, pattern: undefined })
    .transform(Number)
    .refine(number => number >= min && number <= max, message)
    .prefault(String(usual))
}

const MIRROR_DESCRIPTION_PATH = `${MIRROR_PATH}/openapi.json`

type MirrorEnv = {
  Bindings: Partial<HttpBindings>
  Variables: { source: MirrorSource }
}

/** Returns the route of the description, which needs no key, like that of the contract's API. */
export function createMirrorDescription(routes: readonly MirrorRoute[]): Hono {
  const api = createRoutes()
  let description: Json | null = null
  api.get(MIRROR_DESCRIPTION_PATH, async context => {
    if (!description) {
      const bytes = Buffer.from(JSON.stringify(describeMirror(routes)))
      description = new Json(bytes, computeTag(bytes))
    }
    return await sendJson(context, description)
  })
  return api
}

/**
 * Returns the mirror's own API. The caller has checked the key and set `source`.
 * @param whenItIsTheirTurn works when it is this key's turn; null if the client is gone by then.
 */
export function createMirrorRoutes(
  routes: readonly MirrorRoute[],
  whenItIsTheirTurn: <T>(
    source: MirrorSource,
    context: Context<MirrorEnv>,
    work: () => Promise<T>,
  ) => Promise<T | null>,
): Hono<MirrorEnv> {
  const api: Hono<MirrorEnv> = createRoutes()
  for (const route of routes) {
    api.on(route.method, MIRROR_PATH + route.path, async context => {
      const { source } = context.var
      requireScope(source, route)
      const query = readQuery(context, route)
      const inTurn: InTurn = work => whenItIsTheirTurn(source, context, work)
      const answer = () => route.answer({ context, source, query, inTurn })
      return (await (route.ownTurns ? answer() : inTurn(answer))) ?? context.body(null)
    })
  }
  for (const path of new Set(routes.map(({ path }) => path))) {
    const methods = routes.filter(route => route.path === path).map(({ method }) => method)
    const allowed = methods.includes('GET') ? [...methods, 'HEAD'] : methods
    api.all(MIRROR_PATH + path, context => sendWrongMethod(context, allowed))
  }
  api.all(`${MIRROR_PATH}/*`, sendNoSuchRoute)
  return api
}

/** Names the routes in metrics and in the access log, also for requests that are refused before they reach them. */
export function noteRoutes<E extends { Bindings: Partial<HttpBindings> }>(
  api: Hono<E>,
  routes: readonly MirrorRoute[],
): void {
  for (const { method, path, name } of routes)
    api.on(method, MIRROR_PATH + path, async (context, next) => {
      const { exchange } = context.env.outgoing ?? {}
      if (exchange) exchange.notes.route = name
      await next()
    })
}

/** Sets the headers of draft-ietf-httpapi-ratelimit-headers, for whatever answer is sent. */
export function announce(headers: Record<string, string>, { limit, remaining, resetSeconds }: Quota): void {
  headers['ratelimit-policy'] = `"key";q=${limit};w=1`
  headers.ratelimit = `"key";r=${remaining};t=${resetSeconds}`
}

function requireScope({ prefix, scopes }: MirrorSource, { scope }: MirrorRoute): void {
  if (scopes.includes(scope)) return
  const has = scopes.length === 0 ? 'no scope' : scopes.join(', ')
  throw new Refusal(
    403,
    `This needs a key with the scope ${scope}; ${prefix} has ${has}. Create another one: editais keys create --description NAME --scopes ${[...scopes, scope].join(',')}.`,
  )
}

/** Reads the query of a request. @throws Refusal (400) that names every wrong parameter. */
function readQuery(context: Context, { query, name }: MirrorRoute): Record<string, unknown> {
  const given = Object.entries(context.req.queries())
  const repeated = given.find(([, values]) => values.length > 1)
  if (repeated) throw new Refusal(400, `${repeated[0]} is given more than once.`, null, 'invalid_parameter')
  const parsed = query.strict().safeParse(Object.fromEntries(given.map(([key, [value]]) => [key, value])))
  if (parsed.success) return parsed.data as Record<string, unknown>
  const known = Object.keys(query.shape)
  const problems = parsed.error.issues.map(issue => describeProblem(issue, known, name))
  throw new Refusal(400, problems.join(' '), null, 'invalid_parameter')
}

function describeProblem(issue: z.core.$ZodIssue, known: readonly string[], name: string): string {
  if (issue.code !== 'unrecognized_keys') return `${issue.path.join('.')}: ${issue.message}.`
  const which = issue.keys.map(key => key.slice(0, 40)).join(', ')
  const instead = known.length > 0 ? `It takes ${known.join(', ')}.` : 'It takes no parameters.'
  return `${name} has no parameter ${which}. ${instead}`
}

type Node = Readonly<Record<string, unknown>>

const ERROR = {
  type: 'object',
  required: ['error', 'detail'],
  properties: {
    error: { type: 'string', description: 'A code for programs.' },
    detail: { type: 'string', description: 'A sentence for people.' },
  },
}

const refusal = (description: string): Node => ({
  description,
  content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
})

/** Answers of every route. */
const RESPONSES: Readonly<Record<string, Node>> = {
  '400': refusal('A parameter is wrong: `invalid_parameter`.'),
  '401': {
    description: 'There is no valid key.',
    content: {
      'application/json': {
        schema: { type: 'object', required: ['error'], properties: { error: { const: 'unauthorized' } } },
      },
    },
  },
  '403': refusal('The key lacks the scope of this route.'),
  '404': refusal('There is no such route, or no such resource.'),
  '429': refusal('The key sent too many requests; see `Retry-After`.'),
  '503': refusal('There is no snapshot of this company yet, or it is being prepared; see `Retry-After`.'),
}

const ABOUT = `What the API of the contract does not have: changes since a point in time, search, export. Data is that of the
latest published snapshot, and of the key's company alone. Parameters that a route does not have are refused.

A key has scopes (\`editais keys create --scopes read,feed\`). If it has a quota, answers have \`RateLimit-Policy\` and \`RateLimit\`.`

/** Describes the mirror's own API in OpenAPI 3.1. */
export function describeMirror(routes: readonly MirrorRoute[]): Node {
  const paths: Record<string, Record<string, Node>> = {}
  for (const route of routes) {
    const path = MIRROR_PATH + route.path.replaceAll(/:(\w+)/g, '{$1}')
    paths[path] ??= {}
    paths[path][route.method.toLowerCase()] = makeOperation(route)
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Tender notices: mirror', version: '1.0.0', description: ABOUT },
    servers: [{ url: '/' }],
    security: [{ bearer: [] }, { apiKey: [] }],
    paths,
    components: {
      schemas: { Error: ERROR },
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer' },
        apiKey: { type: 'apiKey', in: 'header', name: 'X-API-Key' },
      },
    },
  }
}

function makeOperation(route: MirrorRoute): Node {
  const inPath = Object.entries(route.parameters ?? {}).map(([name, description]) => ({
    ...{ name, in: 'path', required: true, description },
    schema: { type: 'string', minLength: 1 },
  }))
  return {
    operationId: route.name,
    summary: route.summary,
    description: `${route.description}\n\nScope: \`${route.scope}\`.`,
    parameters: [...inPath, ...queryParameters(route.query)],
    ...(route.body ? { requestBody: route.body } : {}),
    responses: { ...RESPONSES, ...route.responses },
  }
}

function queryParameters(query: z.ZodObject): Node[] {
  const { properties = {}, required = [] } = z.toJSONSchema(query, { io: 'input', target: 'draft-2020-12' })
  return Object.entries(properties).map(([name, property]) => {
    const { description, ...schema } = property as { description?: string }
    return { name, in: 'query', required: required.includes(name), description, schema }
  })
}

/**
 * Returns a signal that is aborted when the answer is over, sent or not. The signal of a `Request` is no substitute: a clone of a
 * request holds its own only weakly, so after garbage collection no code learns that the client is gone.
 */
export function watchForEnd(context: Context): AbortSignal {
  const gone = new AbortController()
  const { outgoing } = (context.env ?? {}) as Partial<HttpBindings>
  outgoing?.once('close', () => gone.abort())
  return gone.signal
}
