import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { onTestFinished } from 'vitest'
import { z } from 'zod'
import { Database } from '#src/store/warehouse/database.ts'
import { BODIES, PUBLIC, QUERIES } from './metabase_api.ts'

/**
 * A stand-in for Metabase that is stricter than Metabase: it rejects everything that Metabase's API description does
 * not name with 400, and records it (`src/present/metabase/answers.ts` has the source of the description). It opens
 * catalogs with DuckDB and reads their schema with the driver's own queries.
 */
export type StandIn = {
  readonly url: string
  readonly state: State
  /** Every request that was answered, as `PUT /api/card/3`. */
  readonly requests: { readonly what: string; readonly headers: IncomingMessage['headers'] }[]
  /** Requests that Metabase would have rejected or not understood. */
  readonly violations: string[]
  /** Delay before a schema is read. */
  syncMs: number
  /** Answers instead of the API if it returns true. */
  intercept: (request: IncomingMessage, response: ServerResponse) => boolean
  /** Requests that changed something since the last call. */
  writes(): string[]
  stop(): Promise<void>
}

type Entity = { id: number } & Record<string, unknown>

export type State = {
  user: { email: string; password: string } | null
  setupToken: string | null
  sessions: Set<string>
  apiKeys: { id: number; name: string; key: string; admin: boolean }[]
  settings: Map<string, unknown>
  databases: Entity[]
  tables: (Entity & { fields: Entity[] })[]
  collections: Entity[]
  cards: Entity[]
  dashboards: Entity[]
}

class Refusal extends Error {
  override readonly name = 'Refusal'
  readonly status: number
  readonly body: unknown

  constructor(status: number, body: unknown) {
    super(String(status))
    this.status = status
    this.body = body
  }
}

/** Starts one without a user; it stops when the test ends. */
export async function startMetabase(): Promise<StandIn> {
  const state: State = {
    user: null,
    setupToken: randomUUID(),
    sessions: new Set(),
    apiKeys: [],
    settings: new Map(),
    // Every installation has these two.
    databases: [
      { id: 1, name: 'Sample Database', engine: 'h2', description: null, details: {}, is_sample: true },
    ],
    collections: [{ id: 1, name: 'Examples', description: null }],
    tables: [],
    cards: [],
    dashboards: [],
  }
  let lastId = 100
  const nextId = () => {
    lastId += 1
    return lastId
  }
  let seen = 0
  const standIn: Omit<StandIn, 'url'> & { url: string } = {
    url: '',
    state,
    requests: [],
    violations: [],
    syncMs: 0,
    intercept: () => false,
    writes() {
      const since = standIn.requests.slice(seen).map(({ what }) => what)
      seen = standIn.requests.length
      return since.filter(what => !what.startsWith('GET '))
    },
    async stop() {
      server.closeAllConnections()
      if (server.listening) await new Promise(resolve => server.close(resolve))
    },
  }
  const server: Server = createServer(async (request, response) => {
    if (standIn.intercept(request, response)) return
    const body = await text(request)
    const url = new URL(request.url ?? '', 'http://metabase')
    standIn.requests.push({ what: `${request.method} ${url.pathname}`, headers: request.headers })
    try {
      const answer = await handle(request, url, body)
      if (answer === undefined) response.writeHead(204).end()
      else response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
    } catch (error) {
      const { status, body } = error instanceof Refusal ? error : { status: 500, body: String(error) }
      if (status === 500) standIn.violations.push(String(error))
      response.writeHead(status).end(typeof body === 'string' ? body : JSON.stringify(body))
    }
  })

  function violated(what: string, problem: unknown): Refusal {
    standIn.violations.push(`${what}: ${problem}`)
    return new Refusal(400, { errors: { _error: String(problem) }, 'specific-errors': {} })
  }

  async function handle(request: IncomingMessage, url: URL, raw: string): Promise<unknown> {
    const { route, id } = routeOf(request.method ?? '', url.pathname)
    const handler = HANDLERS[route]
    if (!handler) {
      standIn.violations.push(`${request.method} ${url.pathname} is not an endpoint`)
      throw new Refusal(404, 'API endpoint does not exist.')
    }
    if (!PUBLIC.has(route)) checkIdentity(request)
    const query = Object.fromEntries(url.searchParams)
    const asked = (QUERIES[route] ?? z.strictObject({})).safeParse(query)
    if (!asked.success) throw violated(route, z.prettifyError(asked.error))
    if (raw !== '' && request.headers['content-type'] !== 'application/json') {
      throw violated(route, 'the body is not declared as JSON')
    }
    const sent = (BODIES[route] ?? z.undefined()).safeParse(raw === '' ? undefined : JSON.parse(raw))
    if (!sent.success) throw violated(route, z.prettifyError(sent.error))
    return await handler(id, (sent.data ?? {}) as Entity, asked.data as Record<string, unknown>, request)
  }

  function checkIdentity({ headers }: IncomingMessage): void {
    const key = state.apiKeys.find(one => one.key === headers['x-api-key'])
    if (!key && !state.sessions.has(String(headers['x-metabase-session']))) {
      throw new Refusal(401, 'Unauthenticated')
    }
    if (key && !key.admin && !/\/user\/current$/.test(standIn.requests.at(-1)?.what ?? '')) {
      throw new Refusal(403, "You don't have permissions to do that.")
    }
  }

  async function checkOpens(file: string): Promise<void> {
    await Database.open(file, { readOnly: true }).then(
      db => db.close(),
      error => {
        throw new Refusal(400, { message: String(error), errors: { database_file: 'check your file' } })
      },
    )
  }

  /** Reads the schema as the driver does, after a delay: the test may have ended by then, and its snapshot be gone. */
  function sync(database: Entity): void {
    setTimeout(() => void readSchema(database).catch(() => {}), standIn.syncMs)
  }

  async function readSchema(database: Entity): Promise<void> {
    const { database_file: file } = database.details as { database_file: string }
    const db = await Database.open(file, { readOnly: true })
    const tables = await db.rows<{ table_name: string; table_comment: string | null }>(
      `SELECT table_catalog, table_schema, table_name, table_comment FROM information_schema.tables
         WHERE table_catalog NOT LIKE '__ducklake_metadata%' AND table_schema NOT IN ('information_schema', 'pg_catalog')`,
    )
    const columns = await db.rows<{
      table_name: string
      column_name: string
      column_comment: string | null
    }>(`SELECT * FROM information_schema.columns WHERE table_schema = 'main'`)
    db.close()
    for (const { table_name: name, table_comment: comment } of tables) {
      const table = orNew(state.tables, { db_id: database.id, name, schema: 'main' }, comment, {
        fields: [],
      })
      for (const { column_name, column_comment } of columns.filter(column => column.table_name === name)) {
        const more = { semantic_type: null, fk_target_field_id: null, settings: null }
        orNew(table.fields, { name: column_name }, column_comment, more)
      }
    }
    database.initial_sync_status = 'complete'
  }

  /** The entity with these properties, or a new one; a comment becomes the description if there is none. */
  function orNew<T extends Entity>(
    those: T[],
    same: Record<string, unknown>,
    comment: string | null,
    more: object,
  ) {
    const known = those.find(one => Object.entries(same).every(([name, value]) => one[name] === value))
    if (known) return known
    const made = {
      id: nextId(),
      ...same,
      display_name: String(same.name),
      description: comment,
      ...more,
    } as unknown as T
    those.push(made)
    return made
  }

  const find = <T extends Entity>(those: T[], id: number): T => {
    const found = those.find(one => one.id === id)
    if (!found) throw new Refusal(404, 'Not found.')
    return found
  }

  const fields = () => state.tables.flatMap(table => table.fields)

  type Handler = (
    id: number,
    body: Entity,
    query: Record<string, unknown>,
    request: IncomingMessage,
  ) => unknown | Promise<unknown>

  const HANDLERS: Readonly<Record<string, Handler>> = {
    'GET /api/session/properties': () => ({
      'has-user-setup': state.user !== null,
      'setup-token': state.setupToken,
      version: { tag: 'v0.63.1' },
    }),
    'POST /api/setup': (_, body) => {
      if (state.user)
        throw new Refusal(403, 'The /api/setup route can only be used to create the first user.')
      if (body.token !== state.setupToken) throw violated('POST /api/setup', 'Token does not match')
      state.user = body.user as State['user']
      state.setupToken = null
      state.settings.set('anon-tracking-enabled', true)
      return login()
    },
    'POST /api/session': (_, body) => {
      if (body.username !== state.user?.email || body.password !== state.user?.password) {
        throw new Refusal(401, { errors: { password: 'did not match stored password' } })
      }
      return login()
    },
    'DELETE /api/session': (_id, _body, _query, { headers }) => {
      state.sessions.delete(String(headers['x-metabase-session']))
    },
    'GET /api/user/current': (_id, _body, _query, { headers }) => ({
      id: 1,
      is_superuser: state.apiKeys.find(({ key }) => key === headers['x-api-key'])?.admin ?? true,
    }),
    'GET /api/permissions/group': () => [
      { id: 1, name: 'All Users', magic_group_type: 'all-internal-users', member_count: 1 },
      { id: 2, name: 'Administrators', magic_group_type: 'admin', member_count: 1 },
    ],
    'GET /api/api-key': () => state.apiKeys.map(({ id, name }) => ({ id, name, masked_key: 'mb_****' })),
    'POST /api/api-key': (_, { name, group_id }) => {
      if (state.apiKeys.some(key => key.name === name)) throw violated('POST /api/api-key', 'name is taken')
      const made = { id: nextId(), name: String(name), key: `mb_${randomUUID()}`, admin: group_id === 2 }
      state.apiKeys.push(made)
      return { id: made.id, name, unmasked_key: made.key, masked_key: 'mb_****' }
    },
    'GET /api/setting': () =>
      ['anon-tracking-enabled', 'report-timezone', 'custom-formatting'].map(key => ({
        ...{
          key,
          value: state.settings.get(key) ?? null,
          is_env_setting: false,
          env_name: '',
          default: null,
        },
      })),
    'GET /api/database': () => ({ data: state.databases, total: state.databases.length }),
    'POST /api/database': async (_, body) => {
      await checkOpens((body.details as { database_file: string }).database_file)
      const made = { ...body, id: nextId(), description: null, initial_sync_status: 'incomplete' }
      state.databases.push(made)
      sync(made)
      return made
    },
    'GET /api/database/:id': id => find(state.databases, id),
    'PUT /api/database/:id': async (id, body) => {
      const database = find(state.databases, id)
      if (database.is_sample) throw violated('PUT /api/database', 'The sample database cannot be edited.')
      const details = { ...(database.details as object), ...(body.details as object | undefined) }
      await checkOpens((details as { database_file: string }).database_file)
      return Object.assign(database, body, { id, details })
    },
    'POST /api/database/:id/sync_schema': id => {
      sync(find(state.databases, id))
      return { status: 'ok' }
    },
    'GET /api/database/:id/metadata': id => ({
      ...find(state.databases, id),
      tables: state.tables.filter(table => table.db_id === id),
    }),
    'PUT /api/table/:id': (id, body) => Object.assign(find(state.tables, id), body, { id }),
    'PUT /api/field/:id': (id, body) => {
      const target = body.fk_target_field_id
      if (typeof target === 'number') find(fields(), target)
      if (body.semantic_type === 'type/FK' && !target) throw violated('PUT /api/field', 'FK without a target')
      return Object.assign(find(fields(), id), body, { id })
    },
    'GET /api/collection': () => [{ id: 'root', name: 'Our analytics' }, ...state.collections],
    'POST /api/collection': (_, body) => add(state.collections, body),
    'GET /api/collection/:id/items': (id, _, { models }) => {
      find(state.collections, id)
      const those = models === 'dashboard' ? state.dashboards : state.cards
      const data = those
        .filter(one => one.collection_id === id)
        .map(({ id, name, description }) => ({ id, name, description, model: models }))
      return { data, total: data.length }
    },
    'GET /api/card': (_id, _body, { model_id }) =>
      state.cards.filter(({ dataset_query: query }) => (query as Query).database === model_id).map(modern),
    'POST /api/card': (_, body) => {
      find(state.databases, (body.dataset_query as Query).database)
      return modern(add(state.cards, body))
    },
    'GET /api/card/:id': (id, _, query) =>
      query['legacy-mbql'] ? find(state.cards, id) : modern(find(state.cards, id)),
    'PUT /api/card/:id': (id, body) => modern(Object.assign(find(state.cards, id), body, { id })),
    'POST /api/dashboard': (_, body) => add(state.dashboards, { ...body, dashcards: [], tabs: [] }),
    'GET /api/dashboard/:id': id => {
      const dashboard = find(state.dashboards, id)
      const dashcards = dashboard.dashcards as { card_id?: number | null }[]
      return {
        ...dashboard,
        dashcards: dashcards.map(one => ({
          ...one,
          card: one.card_id ? modern(find(state.cards, one.card_id)) : null,
          series: [],
        })),
      }
    },
    'PUT /api/dashboard/:id': (id, body) => {
      const { dashcards = [], tabs = [] } = body as unknown as { dashcards?: Entity[]; tabs?: Entity[] }
      for (const { card_id: cardId, parameter_mappings: mappings, dashboard_tab_id: tab } of dashcards) {
        if (cardId) find(state.cards, Number(cardId))
        for (const one of (mappings ?? []) as { card_id: number; parameter_id: string }[]) {
          const known = ((body.parameters ?? []) as Entity[]).some(
            ({ id }) => String(id) === one.parameter_id,
          )
          if (!known || one.card_id !== cardId) throw violated('PUT /api/dashboard', 'a mapping to nothing')
        }
        if (tabs.length > 0 && !tabs.some(one => one.id === tab)) {
          throw violated('PUT /api/dashboard', 'This dashboard has tab, makes sure every card has a tab')
        }
      }
      const placed = dashcards.map(one => ({ ...one, id: one.id < 0 ? nextId() : one.id, action_id: null }))
      return Object.assign(find(state.dashboards, id), body, { id, dashcards: placed, tabs })
    },
    'PUT /api/setting/:key': (_id, { value }, _query, { url = '' }) => {
      state.settings.set(url.slice('/api/setting/'.length), value)
    },
  }

  function login(): { id: string } {
    const id = randomUUID()
    state.sessions.add(id)
    return { id }
  }

  function add(those: Entity[], body: object): Entity {
    const made = { ...body, id: nextId(), archived: false } as Entity
    those.push(made)
    return made
  }

  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  standIn.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  onTestFinished(() => standIn.stop())
  return standIn
}

type Query = { database: number; native: { query: string; 'template-tags': object } }

/** A card as Metabase returns it by default since v57: its query in MBQL 5. */
function modern(card: Entity): Entity {
  const { database, native } = card.dataset_query as Query
  const stage = {
    'lib/type': 'mbql.stage/native',
    native: native.query,
    'template-tags': native['template-tags'],
  }
  return { ...card, dataset_query: { 'lib/type': 'mbql/query', database, stages: [stage] } }
}

function routeOf(method: string, path: string): { route: string; id: number } {
  const id = Number(/^\/api\/[a-z-]+\/(\d+)/.exec(path)?.[1] ?? Number.NaN)
  const pattern = path
    .replace(/^(\/api\/[a-z-]+)\/\d+/, '$1/:id')
    .replace(/^\/api\/setting\/.+/, '/api/setting/:key')
  return { route: `${method} ${pattern}`, id }
}
