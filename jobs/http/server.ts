import type { Hono } from 'hono'
import { bodyLimit } from 'hono/body-limit'
import { HTTPException } from 'hono/http-exception'
import type { Logger } from 'pino'
import type { CompanyRegistry } from '#jobs/queues/company_registry.ts'
import { readKnownState } from '#jobs/queues/known_state.ts'
import type { Queues } from '#jobs/queues/queue.ts'
import { askRedis, RedisAwayError } from '#jobs/queues/redis.ts'
import { isRefusal } from '#jobs/queues/redis_problem.ts'
import { RefusedRunError } from '#jobs/queues/requests.ts'
import type { Standby } from '#jobs/queues/standby.ts'
import { shareCalls } from '#src/lib/concurrency.ts'
import { explain, FatalError, getMessage } from '#src/lib/errors.ts'
import { explainRedisRefusal } from '#src/lib/redis_refusal.ts'
import { MIRROR_EXTRAS } from '#src/server/api_extras.ts'
import { maskPath, sendError, sendFault, sendNoSuchRoute, sendRefusal } from '#src/server/contract/answers.ts'
import { createService, type Service } from '#src/server/contract/app.ts'
import type { Entrance } from '#src/server/entrance.ts'
import type { createServeRoutes } from '#src/server/mirror/app.ts'
import { HOME_PATH, routePages } from '#src/server/pages/routes.ts'
import type { ServedCompanies } from '#src/server/served_companies.ts'
import { admitOperators, OPERATOR_PATHS } from './access.ts'
import { createBoard } from './board.ts'
import { type CompanyRequests, type ReportRequests, routeCompanies, routeReports } from './company_routes.ts'
import { checkReadiness } from './health.ts'
import type { Metrics } from './metrics.ts'

const MAX_BODY_BYTES = 10_000
/** Bull Board sends many requests at once; there is no point in letting them wait for a Redis that is away. */
const BOARD_WITHIN_MS = 5000

export type HttpOptions = CompanyRequests &
  ReportRequests & {
    readonly registry: Pick<CompanyRegistry, 'companies' | 'problem' | 'broken'>
    readonly queues: Queues
    /** The companies that this worker serves. */
    readonly served: ServedCompanies
    readonly entrance: Entrance
    readonly standby: Pick<Standby, 'clocks' | 'stores'>
    readonly metrics: Pick<Metrics, 'render'>
    /** The API, served from the latest snapshots. */
    readonly api: ReturnType<typeof createServeRoutes>
    readonly log: Logger
  }

/** Returns the routes of a worker for operators, container orchestrators and Prometheus. */
export function createHttp(options: HttpOptions): Service {
  const { registry, queues, served, entrance, standby, metrics, api, log } = options
  const service = createService({ api, extras: MIRROR_EXTRAS, log, contents: CONTENTS, home: HOME_PATH })
  const app = service.pages
  app.onError((error, c) => {
    const refusal = sendRefusal(c, error)
    if (refusal) return refusal
    if (error instanceof RedisAwayError) return sendError(c, 503, `${error.message} Retry when it does.`)
    if (error instanceof RefusedRunError)
      return sendError(c, 503, `${error.message} Retry when Redis works again.`)
    if (isRefusal(error)) {
      return sendError(c, 503, `${explainRedisRefusal(getMessage(error))} Retry when Redis works again.`)
    }
    const { message } = explain(error)
    log.error({ method: c.req.method, path: maskPath(c.req.path) }, message)
    return error instanceof FatalError ? sendError(c, 500, message) : sendFault(c)
  })

  // These need no key.
  const check = shareCalls(() => checkReadiness({ registry, queues, served, standby }))
  const render = shareCalls(() => metrics.render())
  app.get('/readyz', async c => {
    const readiness = await check()
    return c.json(readiness, readiness.ready ? 200 : 503)
  })
  app.get('/metrics', async c => {
    const { contentType, body } = await render()
    return c.body(body, 200, { 'Content-Type': contentType })
  })

  const tooLarge = () => {
    throw new HTTPException(413, { message: `The body is larger than ${MAX_BODY_BYTES} bytes.` })
  }
  const readLastRun = async (slug: string) => {
    const company = registry.companies.get(slug)
    return company ? await readKnownState(queues, company) : { state: null, failure: null }
  }
  routePages(app, { served, entrance, log, operatorPaths: OPERATOR_PATHS, readLastRun })
  const access = admitOperators(entrance, log)
  for (const path of OPERATOR_PATHS)
    app.use(`${path}/*`, access, bodyLimit({ maxSize: MAX_BODY_BYTES, onError: tooLarge }))
  routeReports(app, { ...options, readLastRun })
  routeBoard(app, queues)
  routeCompanies(app, options)
  return service
}

function routeBoard(app: Hono, queues: HttpOptions['queues']): void {
  let board: Promise<Hono> | null = null
  app.use('/queues/api/*', (_, next) => askRedis(queues.redis, BOARD_WITHIN_MS, next))
  app.all('/queues/*', async c => {
    board ??= createBoard(queues, '/queues').then(made => made.notFound(sendNoSuchRoute).onError(rethrow))
    return await (await board).fetch(c.req.raw)
  })
}

/** Passes errors of the board to the handler of all other errors. */
function rethrow(error: Error): never {
  throw error
}

const CONTENTS = {
  'GET /editais/hoje': 'what to decide today, for anyone with an API key',
  'GET /editais': 'pages to browse, search and read notices, for anyone with an API key',
  'GET /api/v1/editais': 'the API, served from the latest snapshot; keys: `editais keys`',
  'GET /healthz': 'whether the worker is alive',
  'GET /readyz': 'whether it can take runs: Redis, directories, configuration',
  'GET /metrics': 'metrics for Prometheus',
  'GET /companies': 'how old the data of each company are, and what is wrong, for a browser',
  'GET /report': "the company's report, for a browser; for several companies, the same as /companies",
  'GET /queues': 'the queues, for a browser',
  'POST /companies/{company}/sync':
    'requests a run; with the body {"full": true}, one that fetches everything again',
  'GET /companies/{company}/status': 'the status of the company',
  'GET /companies/{company}/report': "the company's report, for a browser",
  operators: 'The report, /queues and /companies need a key with the scope operate or watch.',
}
