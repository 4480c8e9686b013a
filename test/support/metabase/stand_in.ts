import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { onTestFinished } from 'vitest'
import { z } from 'zod'
import { BODIES, PUBLIC, QUERIES } from './api.ts'
import { contentRoutes } from './contents.ts'
import { databaseRoutes } from './databases.ts'
import type { Routes, TrinoAround } from './routes.ts'
import { type Entity, newState, Refusal, type State } from './state.ts'
import { userRoutes } from './users.ts'

/** Starts one without a user; it stops when the test ends. */
export async function startMetabase(): Promise<StandIn> {
  const standIn = new StandIn()
  await standIn.start()
  onTestFinished(() => standIn.stop())
  return standIn
}

/**
 * A stand-in for Metabase that is stricter than Metabase: it rejects everything that Metabase's API description does
 * not name with 400, and records it (`src/extras/metabase/answers.ts` has the source of the description). It opens
 * catalogs with DuckDB and reads their schema with the driver's own queries.
 */
export class StandIn {
  url = ''
  readonly state: State = newState()
  /** Every request that was answered, as `PUT /api/card/3`. */
  readonly requests: { readonly what: string; readonly headers: IncomingMessage['headers'] }[] = []
  /** Requests that Metabase would have rejected or not understood. */
  readonly violations: string[] = []
  /** Delay before a schema is read. */
  syncMs = 0
  trino: TrinoAround | null = null
  /** Answers instead of the API if it returns true. */
  intercept: (request: IncomingMessage, response: ServerResponse) => boolean = () => false
  readonly #server: Server = createServer((request, response) => this.#answer(request, response))
  #lastId = 100
  #seen = 0

  /** Requests that changed something since the last call. */
  writes(): string[] {
    const since = this.requests.slice(this.#seen).map(({ what }) => what)
    this.#seen = this.requests.length
    return since.filter(what => !what.startsWith('GET '))
  }

  async start(): Promise<void> {
    await new Promise<void>(resolve => this.#server.listen(0, '127.0.0.1', resolve))
    this.url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections()
    if (this.#server.listening) await new Promise(resolve => this.#server.close(resolve))
  }

  readonly nextId = (): number => {
    this.#lastId += 1
    return this.#lastId
  }

  readonly violated = (what: string, problem: unknown): Refusal => {
    this.violations.push(`${what}: ${problem}`)
    return new Refusal(400, { errors: { _error: String(problem) }, 'specific-errors': {} })
  }

  // Last, because the routes take what is above from it.
  readonly #routes: Routes = { ...userRoutes(this), ...databaseRoutes(this), ...contentRoutes(this) }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (this.intercept(request, response)) return
    const body = await text(request)
    const url = new URL(request.url ?? '', 'http://metabase')
    this.requests.push({ what: `${request.method} ${url.pathname}`, headers: request.headers })
    try {
      const answer = await this.#handle(request, url, body)
      if (answer === undefined) response.writeHead(204).end()
      else response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
    } catch (error) {
      const { status, body } = error instanceof Refusal ? error : { status: 500, body: String(error) }
      if (status === 500) this.violations.push(String(error))
      response.writeHead(status).end(typeof body === 'string' ? body : JSON.stringify(body))
    }
  }

  async #handle({ method = '', headers }: IncomingMessage, url: URL, raw: string): Promise<unknown> {
    const { route, id } = routeOf(method, url.pathname)
    const handler = this.#routes[route]
    if (!handler) {
      this.violations.push(`${method} ${url.pathname} is not an endpoint`)
      throw new Refusal(404, 'API endpoint does not exist.')
    }
    if (!PUBLIC.has(route)) this.#checkIdentity(headers, url.pathname)
    const asked = (QUERIES[route] ?? z.strictObject({})).safeParse(Object.fromEntries(url.searchParams))
    if (!asked.success) throw this.violated(route, z.prettifyError(asked.error))
    if (raw !== '' && headers['content-type'] !== 'application/json') {
      throw this.violated(route, 'the body is not declared as JSON')
    }
    const sent = (BODIES[route] ?? z.undefined()).safeParse(raw === '' ? undefined : JSON.parse(raw))
    if (!sent.success) throw this.violated(route, z.prettifyError(sent.error))
    const body = (sent.data ?? {}) as Entity
    const query = asked.data as Readonly<Record<string, unknown>>
    return await handler({ id, body, query, path: url.pathname, headers })
  }

  #checkIdentity(headers: IncomingMessage['headers'], path: string): void {
    const { apiKeys, sessions } = this.state
    const key = apiKeys.find(one => one.key === headers['x-api-key'])
    if (!key && !sessions.has(String(headers['x-metabase-session']))) {
      throw new Refusal(401, 'Unauthenticated')
    }
    if (key && !key.admin && !path.endsWith('/user/current')) {
      throw new Refusal(403, "You don't have permissions to do that.")
    }
  }
}

function routeOf(method: string, path: string): { route: string; id: number } {
  const id = Number(/^\/api\/[a-z-]+\/(\d+)/.exec(path)?.[1] ?? Number.NaN)
  const pattern = path
    .replace(/^(\/api\/[a-z-]+)\/\d+/, '$1/:id')
    .replace(/^\/api\/setting\/.+/, '/api/setting/:key')
  return { route: `${method} ${pattern}`, id }
}
