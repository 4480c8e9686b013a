import { methodNotAllowed } from 'hono/method-not-allowed'
import type { Logger } from 'pino'
import { explain } from '#src/lib/errors.ts'
import type { HttpBindings } from '#src/lib/http/outgoing.ts'
import { requestPath } from '#src/lib/http/request_target.ts'
import { sendFault, sendNoSuchRoute, sendRefusal, sendWrongMethod } from './answers.ts'
import { describeApi } from './description.ts'
import type { Extras } from './openapi.ts'
import { createRoutes, type Routes } from './router.ts'
import { shownPath } from './shown_path.ts'

/** Answers requests; routes outside the API are added to `pages`. */
export type Service = {
  readonly pages: Routes
  readonly fetch: Routes['fetch']
}

type ServiceOptions = {
  /** The routes below `/api/`, by `createRoutes`. */
  readonly api: Routes
  readonly extras: Extras
  readonly log: Pick<Logger, 'error'> | null
  /** The answer of `GET /`. */
  readonly contents: object
  /** The address that `GET /` redirects browsers to, instead. */
  readonly home?: string
}

/**
 * Returns the app that is shared by sandbox, `npm run serve` and daemon: the API below `/api/`, its description, and the same
 * answers to any other request. Outside the API a trailing slash is ignored.
 */
export function createService({ api, extras, log, contents, home }: ServiceOptions): Service {
  const pages = createRoutes({ forgivesSlash: true })
  pages.use(methodNotAllowed({ app: pages, onMethodNotAllowed: sendWrongMethod }))
  pages.notFound(sendNoSuchRoute)
  pages.onError((error, context) => {
    const refusal = sendRefusal(context, error)
    if (refusal) return refusal
    log?.error({ method: context.req.method, path: shownPath(context.req.path) }, explain(error).message)
    return sendFault(context)
  })
  pages.get('/', context => {
    context.header('Vary', 'Accept')
    const isBrowser = (context.req.header('accept') ?? '').includes('text/html')
    return home !== undefined && isBrowser ? context.redirect(home, 303) : context.json(contents)
  })
  pages.get('/healthz', context => context.json({ alive: true }))
  api.notFound(sendNoSuchRoute)
  describeApi(pages, extras)
  return {
    pages,
    fetch(request, env, execution) {
      const path = requestPath((env as Partial<HttpBindings>).incoming?.url ?? request.url)
      return (isOfApi(path) ? api : pages).fetch(request, env, execution)
    },
  }
}

function isOfApi(path: string): boolean {
  return path === '/api' || path.startsWith('/api/')
}
