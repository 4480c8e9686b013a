import { type Context, Hono } from 'hono'

import { bodyLimit } from 'hono/body-limit'
import { HTTPException } from 'hono/http-exception'
import { methodNotAllowed } from 'hono/method-not-allowed'
import { secureHeaders } from 'hono/secure-headers'
import type { ContentfulStatusCode } from 'hono/utils/http-status'
import type { Logger } from 'pino'
import { explain, FatalError } from '#src/errors.ts'
import type { createMirrorApp } from '#src/mirror/app.ts'
import type { Queues } from '../queue.ts'
import type { Roster } from '../roster.ts'
import { fromRedis, RedisAwayError } from '../within.ts'
import { adminOnly, fromOurOwnPages } from './access.ts'
import { createBoard } from './board.ts'
import { type CompanyRequests, routeCompanies } from './company_routes.ts'
import { checkReadiness } from './health.ts'
import type { Metrics } from './metrics.ts'
import { type ReportRequests, routeReports } from './report_routes.ts'

const MAX_BODY_BYTES = 10_000
/** Bull Board asks for many things at once; that it waits for a Redis that is away helps nobody. */
const BOARD_WITHIN_MS = 5000

/** What no page needs is forbidden: Bull Board asks for fonts of another server, and does without. */
const SECURITY: Parameters<typeof secureHeaders>[0] = {
  contentSecurityPolicy: {
    defaultSrc: ["'self'"],
    styleSrc: ["'self'", "'unsafe-inline'"],
    imgSrc: ["'self'", 'data:'],
    ...{ objectSrc: ["'none'"], frameAncestors: ["'none'"], baseUri: ["'self'"], formAction: ["'self'"] },
  },
  xFrameOptions: 'DENY',
  // A proxy in front of us that speaks TLS decides for its whole domain.
  strictTransportSecurity: false,
}

export type HttpOptions = CompanyRequests &
  ReportRequests & {
    readonly roster: Pick<Roster, 'companies' | 'problem'>
    readonly queues: Queues
    readonly metrics: Pick<Metrics, 'render'>
    /** The API out of the latest snapshots. */
    readonly api: ReturnType<typeof createMirrorApp> | null
    /** Null turns off all that needs it. */
    readonly adminToken: string | null
    readonly log: Logger
  }

/** What an operator, a scheduler of containers and Prometheus ask of a worker. */
export function createHttp(options: HttpOptions): Hono {
  const { roster, queues, metrics, adminToken, log } = options
  const app = new Hono({ strict: false })
  app.use(secureHeaders(SECURITY))
  app.use(methodNotAllowed({ app, onMethodNotAllowed: refuseMethod }))
  app.notFound(answerNotFound)
  app.onError((error, c) => {
    if (error instanceof HTTPException) return answerError(c, error.status, error.message)
    if (error instanceof RedisAwayError)
      return answerError(c, 503, `${error.message} Ask again when it does.`)
    const { message } = explain(error)
    log.error({ method: c.req.method, path: c.req.path }, message)
    return answerError(c, 500, error instanceof FatalError ? message : 'Something went wrong; see the log.')
  })

  app.get('/healthz', c => c.json({ alive: true }))
  app.get('/readyz', async c => {
    const readiness = await checkReadiness({ roster, queues })
    return c.json(readiness, readiness.ready ? 200 : 503)
  })
  app.get('/metrics', async c => {
    const { contentType, body } = await metrics.render()
    return c.body(body, 200, { 'Content-Type': contentType })
  })

  const tooLarge = () => {
    throw new HTTPException(413, { message: `The body is larger than ${MAX_BODY_BYTES} bytes.` })
  }
  for (const path of ['/queues/*', '/companies/*']) {
    app.use(path, adminOnly(adminToken), fromOurOwnPages)
    app.use(path, bodyLimit({ maxSize: MAX_BODY_BYTES, onError: tooLarge }))
  }
  routeReports(app, { ...options, access: adminOnly(adminToken), contents: () => contents(adminToken) })
  routeBoard(app, queues)
  routeCompanies(app, options)
  if (options.api) app.route('/', options.api)
  return app
}

function routeBoard(app: Hono, queues: HttpOptions['queues']): void {
  let board: Promise<Hono> | null = null
  app.use('/queues/api/*', (_, next) => fromRedis(queues.redis, BOARD_WITHIN_MS, next))
  app.all('/queues/*', async c => {
    board ??= createBoard(queues, '/queues').then(made => made.notFound(answerNotFound).onError(rethrow))
    return await (await board).fetch(c.req.raw)
  })
}

/** Errors of the board are answered as all others are. */
function rethrow(error: Error): never {
  throw error
}

const ERRORS: Readonly<Record<number, string>> = {
  400: 'bad_request',
  401: 'unauthorized',
  403: 'forbidden',
  404: 'not_found',
  405: 'method_not_allowed',
  409: 'conflict',
  413: 'too_large',
  415: 'unsupported_media_type',
  503: 'unavailable',
}

function answerError(c: Context, status: ContentfulStatusCode, detail: string): Response {
  return c.json({ error: ERRORS[status] ?? 'internal_error', detail }, status)
}

function answerNotFound(c: Context): Response {
  return answerError(c, 404, `There is nothing at ${c.req.path}. GET / says what there is.`)
}

function refuseMethod(c: Context, methods: readonly string[]): Response {
  const allowed = methods.join(', ')
  c.header('Allow', allowed)
  return answerError(c, 405, `${c.req.method} is not for ${c.req.path}; it takes ${allowed}.`)
}

function contents(adminToken: string | null) {
  return {
    'GET /': "the company's report, for a browser; of several companies, a list of theirs",
    'GET /healthz': 'whether the worker is alive',
    'GET /readyz': 'whether it can take runs: Redis, directories, configuration',
    'GET /metrics': 'metrics for Prometheus',
    'GET /queues': 'what is in the queues, for a browser',
    'POST /companies/{company}/sync':
      'asks for a run; the body {"full": true} for one that fetches everything again',
    'GET /companies/{company}/status': 'how the company stands',
    'GET /companies/{company}/report': 'its report, for a browser',
    'GET /api/v1/editais': 'the API, out of the latest snapshot; keys: `npm run keys`',
    token: adminToken
      ? 'The report, /queues and /companies need ADMIN_TOKEN: as bearer token, or as the password of any user.'
      : 'The report, /queues and /companies are off: ADMIN_TOKEN is not set.',
  }
}
