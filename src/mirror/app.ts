import { randomUUID } from 'node:crypto'
import { type Context, Hono } from 'hono'
import { cors } from 'hono/cors'
import type { Logger } from 'pino'
import type { ServeSettings } from '#config/serve.ts'
import { explain } from '#src/errors.ts'
import { describeApi } from '#src/service/description.ts'
import { createApi, LIST_PATH } from '#src/service/routes.ts'
import { type NoticeFilter, type NoticeSource, Refusal } from '#src/service/source.ts'
import { MIRROR_EXTRAS } from './api_extras.ts'
import type { Mirror } from './mirror.ts'
import { createQuotas } from './quotas.ts'
import type { MirrorSnapshot } from './snapshot.ts'

/** No filter and no id of the contract comes near it. */
const MAX_URL_LENGTH = 4096
/** Of a request id that a client gave. */
const REQUEST_ID = /^[\w.:-]{1,64}$/

type MirrorAppOptions = {
  readonly mirror: Mirror
  readonly settings: Pick<ServeSettings, 'maxRps' | 'corsOrigins'>
  readonly log: Logger
}

type MirrorEnv = { Variables: { source: Asked } }

/**
 * The API of the contract out of the latest snapshots, with what HTTP clients expect around it. Each request is
 * answered from one snapshot: what it finds belongs together.
 */
export function createMirrorApp({ mirror, settings, log }: MirrorAppOptions): Hono<MirrorEnv> {
  const app = new Hono<MirrorEnv>()
  const admit = createQuotas(settings.maxRps)
  const path = `${LIST_PATH}/*`

  app.use(path, async (context, next) => {
    const startedMs = performance.now()
    const given = context.req.header('x-request-id')
    const id = given !== undefined && REQUEST_ID.test(given) ? given : randomUUID()
    // All before the answer is made: one that is touched afterwards is made again, and sent by a slower way.
    context.header('X-Request-Id', id)
    // It is the company's own, and a look at the tag says whether it is still so.
    context.header('Cache-Control', 'private, no-cache')
    context.header('Vary', 'Authorization, X-API-Key, Accept-Encoding')
    if (context.req.url.length > MAX_URL_LENGTH) context.res = context.json({ error: 'url_too_long' }, 414)
    else await next()
    if (context.error && !(context.error instanceof Refusal))
      log.error({ request_id: id }, explain(context.error).message)
    log.info(aboutRequest(context, { id, ms: performance.now() - startedMs }), 'Answered')
  })
  if (settings.corsOrigins.length > 0) {
    const origin = settings.corsOrigins.includes('*') ? '*' : [...settings.corsOrigins]
    const exposeHeaders = ['ETag', 'X-Data-As-Of', 'X-Request-Id', 'Retry-After']
    app.use(path, cors({ origin, allowMethods: ['GET', 'HEAD'], exposeHeaders, maxAge: 600 }))
  }
  app.route(
    '/',
    createApi<Asked>({
      companyOfKey(key, context) {
        const who = mirror.whose(key)
        if (!who) return null
        // Before anything refuses it: the log says who was refused.
        const asked = new Asked(who, mirror, context)
        context.set('source', asked)
        admit(who.prefix)
        return asked
      },
    }),
  )
  describeApi(app, MIRROR_EXTRAS)
  // Where it is mounted, what it is mounted in answers these.
  app.notFound(context => context.json({ error: 'not_found' }, 404))
  app.onError((error, context) => {
    log.error({ path: context.req.path }, explain(error).message)
    return context.json({ error: 'internal_error' }, 500)
  })
  return app
}

/** One request of a company, answered out of one snapshot, whose time its answer tells. */
class Asked implements NoticeSource {
  readonly company: string
  readonly prefix: string
  readonly #mirror: Mirror
  readonly #context: Pick<Context, 'header'>

  constructor(
    { company, prefix }: { company: string; prefix: string },
    mirror: Mirror,
    context: Pick<Context, 'header'>,
  ) {
    this.company = company
    this.prefix = prefix
    this.#mirror = mirror
    this.#context = context
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

  #snapshot(): MirrorSnapshot {
    const snapshot = this.#mirror.snapshotOf(this.company)
    this.#context.header('X-Data-As-Of', snapshot.asOf)
    return snapshot
  }
}

function aboutRequest(
  { req, res, var: { source } }: Context<MirrorEnv>,
  { id, ms }: { id: string; ms: number },
): object {
  return {
    ...{ request_id: id, method: req.method, path: req.path.slice(0, 200), status: res.status },
    ms: Math.round(ms * 10) / 10,
    ...(source ? { company: source.company, key: source.prefix } : {}),
  }
}
