import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Hono } from 'hono'
import { cors } from 'hono/cors'
import type { Logger } from 'pino'
import type { ServeSettings } from '#config/http.ts'
import type { ServiceMetrics } from '#src/api/server/metrics.ts'
import { routeOf } from '#src/api/server/route_of.ts'
import { createRoutes } from '#src/api/server/router.ts'
import { createApiRoutes, LIST_PATH } from '#src/api/server/routes.ts'
import { shownPath } from '#src/api/server/shown_path.ts'
import { type NoticeFilter, type NoticeSource, Refusal } from '#src/api/server/source.ts'
import { createTurns } from '#src/api/server/turns.ts'
import { explain } from '#src/platform/errors.ts'
import { createAllowance, WRONG_CREDENTIALS } from '#src/platform/http/allowance.ts'
import type { Exchange, HttpBindings } from '#src/platform/http/outgoing.ts'
import { Pace } from '#src/platform/http/pace.ts'
import { requestPath } from '#src/platform/http/request_target.ts'
import { withFlatLines } from '#src/platform/log.ts'
import { createQuotas } from './quotas.ts'
import type { ServedCompanies } from './served_companies.ts'
import type { ServedSnapshot } from './snapshot.ts'

/** Valid request ids from clients. */
const REQUEST_ID = /^[\w.:-]{1,64}$/
/** Answers are the company's own, and comparing the tag shows whether they are still current. */
const HEADERS = { 'cache-control': 'private, no-cache', vary: 'Authorization, X-API-Key, Accept-Encoding' }
/** Documents read and compressed at the same time: each may have tens of megabytes, and threads are few. */
const WORKED_ON_AT_ONCE = 16
/** Time in each turn of the event loop during which new documents may begin. */
const BEGIN_WITHIN_MS = 2
/** How long the refusal of a wrong key is delayed, after the first ones from its address. */
const WRONG_KEY_DELAY_MS = 1000
/** If this many are already delayed, further ones are refused at once with 429. */
const MAX_DELAYED = 100

export type ServeRoutesOptions = {
  readonly served: ServedCompanies
  readonly settings: Pick<ServeSettings, 'maxRps' | 'corsOrigins'>
  readonly metrics: Pick<ServiceMetrics, 'answered' | 'refused'>
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
export function createServeRoutes({ served, settings, metrics, log }: ServeRoutesOptions): Hono<ServeEnv> {
  const api: Hono<ServeEnv> = createRoutes()
  const admit = createQuotas(settings.maxRps)
  const inTurn = createTurns(WORKED_ON_AT_ONCE, new Pace(BEGIN_WITHIN_MS))
  const slowDown = createSlowDown()
  const noteAnswer = createNotes({ metrics, log })
  const path = `${LIST_PATH}/*`

  api.use(path, async (context, next) => {
    const given = context.req.header('x-request-id')
    const id = given !== undefined && REQUEST_ID.test(given) ? given : randomUUID()
    context.set('requestId', id)
    const { exchange } = context.env.outgoing ?? {}
    if (exchange) {
      Object.assign(exchange.headers, HEADERS)
      exchange.headers['x-request-id'] = id
      exchange.notes.request_id = id
      exchange.onEnd = noteAnswer
    }
    await next()
    // An answer's own headers override those of its exchange: without this, only the Vary that CORS set would remain.
    const vary = settings.corsOrigins.length > 0 ? context.res.headers.get('vary') : null
    if (vary) context.header('Vary', `${HEADERS.vary}, ${vary}`)
    if (context.error && !(context.error instanceof Refusal))
      log.error({ request_id: id }, explain(context.error).message)
  })
  if (settings.corsOrigins.length > 0) {
    const origin = settings.corsOrigins.includes('*') ? '*' : [...settings.corsOrigins]
    const exposeHeaders = ['ETag', 'X-Data-As-Of', 'X-Request-Id', 'Retry-After']
    api.use(path, cors({ origin, allowMethods: ['GET', 'HEAD'], exposeHeaders, maxAge: 600 }))
  }
  api.route(
    '/',
    createApiRoutes<ServeRequest, ServeEnv>({
      companyOfKey(key, context) {
        const holder = served.whose(key)
        if (!holder) return null
        // Before any refusal, so that the log shows whose request was refused.
        const source = new ServeRequest(holder, served, context.env.outgoing?.exchange?.headers ?? {})
        context.set('source', source)
        const { notes } = context.env.outgoing?.exchange ?? {}
        if (notes) Object.assign(notes, { company: holder.company, key: holder.prefix })
        admit(holder.prefix)
        return source
      },
      async onWrongKey(context) {
        metrics.refused('key')
        await slowDown(context.env.outgoing?.exchange?.address ?? '')
      },
      // Turns are per key: a key with a thousand requests for analyses does not delay a key with one.
      inTurn: (source, context, answer) =>
        inTurn(source.prefix, () => !context.env.outgoing?.destroyed, answer),
    }),
  )
  return api
}

/** Keys are too random to guess, so a valid key is never delayed because of wrong ones from its address. */
function createSlowDown(): (address: string) => Promise<void> {
  const wrongKeys = createAllowance(WRONG_CREDENTIALS)
  let delayed = 0
  return async address => {
    const isGuessing = wrongKeys.waitSeconds(address) > 0
    wrongKeys.spend(address)
    if (!isGuessing) return
    if (delayed >= MAX_DELAYED) throw new Refusal(429, 'Too many wrong API keys from this address.', 60)
    delayed += 1
    await sleep(WRONG_KEY_DELAY_MS)
    delayed -= 1
  }
}

/** One request of a company, answered from one snapshot, with the snapshot's time in a header. */
class ServeRequest implements NoticeSource {
  readonly company: string
  readonly prefix: string
  readonly #served: ServedCompanies
  readonly #headers: Record<string, string>

  constructor(
    { company, prefix }: { company: string; prefix: string },
    served: ServedCompanies,
    headers: Record<string, string>,
  ) {
    this.company = company
    this.prefix = prefix
    this.#served = served
    this.#headers = headers
  }

  async list(filter: NoticeFilter) {
    return await this.#snapshot().list(filter)
  }

  async get(id: string) {
    return await this.#snapshot().get(id)
  }

  async analysis(id: string) {
    return await this.#snapshot().analysis(id)
  }

  #snapshot(): ServedSnapshot {
    const snapshot = this.#served.snapshotOf(this.company)
    this.#headers['x-data-as-of'] = snapshot.asOf
    return snapshot
  }
}

/** Logs each answer in the access log, and counts it for `/metrics`. */
function createNotes({ metrics, log }: Pick<ServeRoutesOptions, 'metrics' | 'log'>): Exchange['onEnd'] {
  const accessLog = withFlatLines(log)
  return ({ address, incoming, notes }, { status, isWhole, ms, bytes }) => {
    const { method, headers } = incoming
    const path = requestPath(incoming.url ?? '')
    const company = notes.company ?? ''
    metrics.answered({ route: routeOf(path).kind, status, company, seconds: ms / 1000, bytes })
    const presented = [headers.authorization, headers['x-api-key'] as string | undefined]
    accessLog.info(
      {
        address,
        method,
        path: shownPath(path, presented),
        status,
        bytes,
        ms: Math.round(ms * 10) / 10,
        ...(isWhole ? {} : { aborted: true }),
        ...notes,
      },
      'Answered',
    )
  }
}
