import { type Context, Hono } from 'hono'
import { LIST_LIMIT, STATUSES } from '#schema/notice.ts'
import { presentedKey } from './keys.ts'
import type { NoticeSource } from './source.ts'

export const LIST_PATH = '/api/v1/editais'

type Env = { Variables: { source: NoticeSource } }

/**
 * The API of the contract over any source of notices. Where the contract says nothing:
 *
 * - two auth headers: equal keys are accepted, different ones get 401 (section 5.7);
 * - the key is judged before anything else under `/api/v1/editais`, so that 401 hides 400, 404 and 405;
 * - `limit` is clamped to 1..200, `offset` to 0 or more; what is no integer counts as absent (4.1.4);
 * - elements of `status` are trimmed, empty ones ignored; the first unknown one is named in the 400;
 * - unknown routes get 404, other methods 405 and failures 500, all with an `error` in JSON (section 7).
 */
export function createApi({
  companyOfKey,
}: {
  companyOfKey: (key: string) => NoticeSource | null
}): Hono<Env> {
  const api = new Hono<Env>()

  api.use(`${LIST_PATH}/*`, async (context, next) => {
    const key = presentedKey({
      authorization: context.req.header('authorization'),
      xApiKey: context.req.header('x-api-key'),
    })
    const source = key === null ? null : companyOfKey(key)
    if (!source) return context.json({ error: 'unauthorized' }, 401, { 'www-authenticate': 'Bearer' })
    context.set('source', source)
    return next()
  })

  api.get(LIST_PATH, list)
  api.get(`${LIST_PATH}/:id`, async context => {
    const edital = await context.var.source.get(context.req.param('id'))
    return edital === null ? notFound(context) : context.json(edital as object)
  })
  api.get(`${LIST_PATH}/:id/analysis`, async context => {
    const analysis = await context.var.source.analysis(context.req.param('id'))
    return analysis === null ? notFound(context) : context.json(analysis as object)
  })

  for (const path of [LIST_PATH, `${LIST_PATH}/:id`, `${LIST_PATH}/:id/analysis`]) {
    api.all(path, context => context.json({ error: 'method_not_allowed' }, 405, { allow: 'GET, HEAD' }))
  }
  api.notFound(notFound)
  api.onError((_error, context) => context.json({ error: 'internal_error' }, 500))
  return api
}

async function list(context: Context<Env>): Promise<Response> {
  const statuses = statusFilter(context.req.queries('status') ?? [])
  const unknown = statuses?.find(status => !(STATUSES as readonly string[]).includes(status))
  if (unknown !== undefined) {
    return context.json({ error: 'invalid_status', detail: `unknown status: ${unknown}` }, 400)
  }
  const requested = integer(context.req.query('limit')) ?? LIST_LIMIT.default
  const limit = Math.min(LIST_LIMIT.max, Math.max(LIST_LIMIT.min, requested))
  const offset = Math.max(0, integer(context.req.query('offset')) ?? 0)
  const { editais, total } = await context.var.source.list({ statuses, limit, offset })
  return context.json({ editais, count: editais.length, total, limit, offset })
}

function statusFilter(values: readonly string[]): string[] | null {
  const statuses = values
    .flatMap(value => value.split(','))
    .map(status => status.trim())
    .filter(status => status !== '')
  return statuses.length > 0 ? statuses : null
}

function integer(text: string | undefined): number | null {
  const number = text !== undefined && /^[+-]?\d+$/u.test(text.trim()) ? Number(text) : Number.NaN
  return Number.isNaN(number) ? null : Math.min(number, Number.MAX_SAFE_INTEGER)
}

function notFound(context: Context): Response {
  return context.json({ error: 'not_found' }, 404)
}
