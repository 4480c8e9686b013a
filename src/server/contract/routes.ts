import { type Context, Hono, type MiddlewareHandler } from 'hono'
import { LIST_LIMIT, STATUSES } from '#schema/notice.ts'
import type { HttpBindings } from '#src/lib/http/outgoing.ts'
import { requestPath } from '#src/lib/http/request_target.ts'
import { sendJson, sendRefusal } from './answers.ts'
import { Json, type NoticeFilter, type NoticeSource } from './source.ts'

export type KeyCheck<S, E extends { Variables: { source: S } }> = {
  /** Null for an unknown key. */
  readonly companyOfKey: (key: string, context: Context<E>) => S | null
  /** Called before an unknown key is refused. */
  readonly onWrongKey?: (context: Context<E>) => Promise<void>
}

/** Far longer than any filter or id in the contract. */
const MAX_TARGET_LENGTH = 4096

/**
 * Lets a request through only with a valid key (docs/contract.md#authentication), and sets what the key stands for as `source`.
 */
export function requireKey<S, E extends { Variables: { source: S } }>({
  companyOfKey,
  onWrongKey,
}: KeyCheck<S, E>): MiddlewareHandler<E> {
  return async (context, next) => {
    if (targetLength(context) > MAX_TARGET_LENGTH) return context.json({ error: 'url_too_long' }, 414)
    const key = readPresentedKey({
      authorization: context.req.header('authorization'),
      xApiKey: context.req.header('x-api-key'),
    })
    const source = key === null ? null : companyOfKey(key, context)
    if (!source) {
      if (key !== null) await onWrongKey?.(context)
      return context.json({ error: 'unauthorized' }, 401, { 'www-authenticate': 'Bearer' })
    }
    context.set('source', source)
    return await next()
  }
}

/** Returns the length of path and query, without the host. */
function targetLength({ env, req }: Context): number {
  return (env as Partial<HttpBindings> | undefined)?.incoming?.url?.length ?? req.url.length
}

type PresentedKey = {
  readonly authorization: string | undefined
  readonly xApiKey: string | undefined
}

/**
 * Returns the key that a request sends, or null. The contract requires exactly one header (docs/contract.md#authentication). Both
 * headers with the same key are accepted; different keys are refused, as is any scheme but Bearer.
 */
export function readPresentedKey({ authorization, xApiKey }: PresentedKey): string | null {
  const bearer = authorization === undefined ? undefined : /^Bearer +(\S+) *$/iu.exec(authorization)?.[1]
  if (authorization !== undefined && bearer === undefined) return null
  if (bearer !== undefined && xApiKey !== undefined && bearer !== xApiKey) return null
  return bearer ?? xApiKey ?? null
}

// biome-ignore lint/suspicious/noExplicitAny: the routes may share any variables
export type Routes = Hono<any>

/**
 * Routes by the exact request path: dots are not resolved.
 * @param forgivesSlash whether one trailing slash is ignored.
 */
export function createRoutes({ forgivesSlash = false } = {}): Routes {
  return new Hono({
    getPath(request, around) {
      const { incoming } = (around?.env ?? {}) as Partial<HttpBindings>
      const path = requestPath(incoming?.url ?? request.url)
      return forgivesSlash && path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path
    },
  })
}

export const LIST_PATH = '/api/v1/editais'

type ServiceEnv<S extends NoticeSource = NoticeSource> = { Variables: { source: S } }

type ApiOptions<S extends NoticeSource, E extends ServiceEnv<S>> = KeyCheck<S, E> & {
  /** Answers when it is this source's turn; null if the client is gone by then. */
  readonly inTurn?: (
    source: S,
    context: Context<E>,
    answer: () => Promise<Response>,
  ) => Promise<Response | null>
}

/**
 * Creates the API of the contract over any source of notices. Where the contract is silent:
 *
 * - two auth headers: equal keys are accepted, different ones get 401 (docs/contract.md#authentication);
 * - a URL of more than 4,096 characters gets 414;
 * - the key is checked before anything else under `/api/v1/editais`, so that 401 hides 400, 404 and 405;
 * - `limit` is clamped to 1..200, `offset` to 0 or more; a value that is not an integer counts as absent (docs/contract.md#list);
 * - elements of `status` may have spaces around them; empty ones are ignored; the 400 names the first unknown one;
 * - unknown routes get 404, other methods 405 and failures 500, all with an `error` in JSON (docs/contract.md#errors).
 */
export function createApiRoutes<S extends NoticeSource, E extends ServiceEnv<S> = ServiceEnv<S>>({
  inTurn,
  ...check
}: ApiOptions<S, E>): Hono<E> {
  const api: Hono<E> = createRoutes()

  api.use(`${LIST_PATH}/*`, requireKey(check))

  /** Wraps a handler so that it runs when it is its source's turn. */
  const answering = (answer: (context: Context<E>) => Promise<Response>) => async (context: Context<E>) => {
    if (!inTurn) return await answer(context)
    return (await inTurn(context.var.source, context, () => answer(context))) ?? context.body(null)
  }
  const list = answering(async context => {
    const filter = readFilter(context)
    if ('unknown' in filter) {
      return context.json({ error: 'invalid_status', detail: `unknown status: ${filter.unknown}` }, 400)
    }
    const page = await context.var.source.list(filter)
    if (page instanceof Json) return send(context, page)
    const { editais, total } = page
    const { limit, offset } = filter
    return context.json({ editais, count: editais.length, total, limit, offset })
  })
  const notice = answering(async context => {
    const edital = await context.var.source.get(readId(context))
    return edital === null ? notFound(context) : await send(context, edital)
  })
  const analysis = answering(async context => {
    const found = await context.var.source.analysis(readId(context))
    return found === null ? notFound(context) : await send(context, found)
  })
  api.get(LIST_PATH, list)
  api.get(`${LIST_PATH}/:id`, notice)
  api.get(`${LIST_PATH}/:id/analysis`, analysis)

  for (const path of [LIST_PATH, `${LIST_PATH}/:id`, `${LIST_PATH}/:id/analysis`]) {
    api.all(path, context => context.json({ error: 'method_not_allowed' }, 405, { allow: 'GET, HEAD' }))
  }
  // A path that only resembles a notice's, such as one with a trailing slash.
  api.all(`${LIST_PATH}/*`, notFound)
  api.notFound(notFound)
  api.onError((error, context) => {
    return sendRefusal(context, error) ?? context.json({ error: 'internal_error' }, 500)
  })
  return api
}

function readId({ req }: Context): string {
  return req.param('id') ?? ''
}

/** Returns the requested filter, or the first unknown status. */
function readFilter({ req }: Context): NoticeFilter | { readonly unknown: string } {
  const statuses = statusFilter(req.queries('status') ?? [])
  const unknown = statuses?.find(status => !(STATUSES as readonly string[]).includes(status))
  if (unknown !== undefined) return { unknown }
  const requested = integer(req.query('limit')) ?? LIST_LIMIT.default
  const limit = Math.min(LIST_LIMIT.max, Math.max(LIST_LIMIT.min, requested))
  return { statuses, limit, offset: Math.max(0, integer(req.query('offset')) ?? 0) }
}

function send(context: Context, document: unknown): Response | Promise<Response> {
  return document instanceof Json ? sendJson(context, document) : context.json(document as object)
}

function statusFilter(values: readonly string[]): string[] | null {
  const statuses = values
    .flatMap(value => value.split(','))
    .map(withoutSpaces)
    .filter(status => status !== '')
  return statuses.length > 0 ? statuses : null
}

/** Trims only spaces, as the description's `pattern` says. */
function withoutSpaces(text: string): string {
  let [start, end] = [0, text.length]
  while (text[start] === ' ') start += 1
  while (end > start && text[end - 1] === ' ') end -= 1
  return text.slice(start, end)
}

function integer(text: string | undefined): number | null {
  const number = text !== undefined && /^[+-]?\d+$/u.test(text.trim()) ? Number(text) : Number.NaN
  return Number.isNaN(number) ? null : Math.min(number, Number.MAX_SAFE_INTEGER)
}

function notFound(context: Context): Response {
  return context.json({ error: 'not_found' }, 404)
}

export type RouteKind = 'list' | 'notice' | 'analysis' | 'other'

const OF_NOTICE = new RegExp(`^${LIST_PATH}/([^/]+)(/analysis)?$`, 'u')

/** Returns which API route a path belongs to, and the id in it, undecoded. */
export function matchRoute(path: string): { readonly kind: RouteKind; readonly id: string | null } {
  if (path === LIST_PATH) return { kind: 'list', id: null }
  const [, id, rest] = OF_NOTICE.exec(path) ?? []
  if (id === undefined) return { kind: 'other', id: null }
  return { kind: rest ? 'analysis' : 'notice', id }
}
