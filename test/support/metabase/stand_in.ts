import { randomUUID } from 'node:crypto'
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { onTestFinished } from 'vitest'
import { z } from 'zod'
import { Database } from '#src/core/warehouse/database.ts'
import { BODIES, PUBLIC, QUERIES } from './api.ts'
import { add, type Installation, type Routes, type TrinoAround } from './routes.ts'
import { type Entity, find, newState, Refusal, type State } from './state.ts'

/** Starts one without a user; it stops when the test ends. */
export async function startMetabase(): Promise<StandIn> {
  const standIn = new StandIn()
  await standIn.start()
  onTestFinished(() => standIn.stop())
  return standIn
}

/**
 * A stand-in for Metabase that is stricter than Metabase: it rejects everything that Metabase's API description does
 * not name with 400, and records it (`src/extras/metabase/client.ts` has the source of the description). It opens
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
  /** Whether DuckDB's driver is among its plugins. */
  hasDriver = true
  /** Whether DuckDB has its ICU extension, which the driver needs for time zones. */
  hasIcu = true
  /** Files that Metabase leaves open: one for each time that it reads a schema. */
  leftOpen: string[] = []
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
    if (!PUBLIC.has(route)) this.#checkIdentity(headers, method, url.pathname)
    const asked = (QUERIES[route] ?? z.strictObject({})).safeParse(Object.fromEntries(url.searchParams))
    if (!asked.success) throw this.violated(route, z.prettifyError(asked.error))
    if (raw !== '' && headers['content-type'] !== 'application/json') {
      throw this.violated(route, 'the body is not declared as JSON')
    }
    const sent = (BODIES[route] ?? z.undefined()).safeParse(raw === '' ? undefined : JSON.parse(raw))
    if (!sent.success) throw this.violated(route, z.prettifyError(sent.error))
    const body = (sent.data ?? {}) as Entity
    const query = asked.data as Readonly<Record<string, unknown>>
    const answer = await handler({ id, body, query, path: url.pathname, headers })
    return this.#isReader(headers) ? { ...(answer as object), details: undefined } : answer
  }

  /** Whether the key is not that of an administrator: it then sees no details of databases. */
  #isReader(headers: IncomingMessage['headers']): boolean {
    return this.state.apiKeys.some(({ key, admin }) => !admin && key === headers['x-api-key'])
  }

  #checkIdentity(headers: IncomingMessage['headers'], method: string, path: string): void {
    const { apiKeys, sessions } = this.state
    const key = apiKeys.find(one => one.key === headers['x-api-key'])
    if (!key && !sessions.has(String(headers['x-metabase-session']))) {
      throw new Refusal(401, 'Unauthenticated')
    }
    if (key && !key.admin && !(method === 'GET' && /\/user\/current$|\/database\/\d+$/.test(path))) {
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

const SETTINGS = ['anon-tracking-enabled', 'report-timezone', 'custom-formatting', 'start-of-week']

/** Setup, sessions, API keys and settings. */
function userRoutes({ state, nextId, violated }: Installation): Routes {
  return {
    'GET /api/session/properties': () => ({
      'has-user-setup': state.user !== null,
      'setup-token': state.setupToken,
      version: { tag: 'v0.63.1' },
    }),
    'POST /api/setup': ({ body }) => {
      if (state.user)
        throw new Refusal(403, 'The /api/setup route can only be used to create the first user.')
      if (body.token !== state.setupToken) throw violated('POST /api/setup', 'Token does not match')
      state.user = body.user as State['user']
      state.setupToken = null
      state.settings.set('anon-tracking-enabled', true)
      return login(state)
    },
    'POST /api/session': ({ body }) => {
      if (body.username !== state.user?.email || body.password !== state.user?.password) {
        throw new Refusal(401, { errors: { password: 'did not match stored password' } })
      }
      return login(state)
    },
    'DELETE /api/session': ({ headers }) => {
      state.sessions.delete(String(headers['x-metabase-session']))
    },
    'GET /api/user/current': ({ headers }) => {
      const key = state.apiKeys.find(({ key }) => key === headers['x-api-key'])
      return { id: key ? 1000 + key.id : 1, is_superuser: key?.admin ?? true }
    },
    'GET /api/permissions/group': () => [
      { id: 1, name: 'All Users', magic_group_type: 'all-internal-users', member_count: 1 },
      { id: 2, name: 'Administrators', magic_group_type: 'admin', member_count: 1 },
    ],
    'GET /api/api-key': () => state.apiKeys.map(({ id, name }) => ({ id, name, masked_key: 'mb_****' })),
    'POST /api/api-key': ({ body: { name, group_id } }) => {
      if (state.apiKeys.some(key => key.name === name)) throw violated('POST /api/api-key', 'name is taken')
      const made = { id: nextId(), name: String(name), key: `mb_${randomUUID()}`, admin: group_id === 2 }
      state.apiKeys.push(made)
      return { id: made.id, name, unmasked_key: made.key, masked_key: 'mb_****' }
    },
    'GET /api/setting': () =>
      SETTINGS.map(key => ({
        key,
        value: state.settings.get(key) ?? null,
        is_env_setting: false,
        env_name: '',
        default: null,
      })),
    'PUT /api/setting/:key': ({ body: { value }, path }) => {
      state.settings.set(path.slice('/api/setting/'.length), value)
    },
  }
}

function login({ sessions }: State): { id: string } {
  const id = randomUUID()
  sessions.add(id)
  return { id }
}

type Query = { database: number; native: { query: string; 'template-tags'?: object } }

/** Collections, cards and dashboards. */
function contentRoutes(installation: Installation): Routes {
  const { state } = installation
  return {
    'GET /api/collection': () => [
      { id: 'root', name: 'Our analytics' },
      ...state.collections.filter(({ archived }) => !archived),
    ],
    'POST /api/collection': ({ body }) => add(state.collections, body, installation),
    'PUT /api/collection/:id': ({ id, body }) => archiveItems(id, body, state),
    'GET /api/card': ({ query: { f, model_id } }) =>
      state.cards
        .filter(({ archived }) => archived === (f === 'archived'))
        .filter(({ dataset_query: query }) => f === 'archived' || (query as Query).database === model_id)
        .map(modern),
    'POST /api/card': ({ body, headers }) => {
      find(state.databases, (body.dataset_query as Query).database)
      return modern(add(state.cards, withoutEmptyTags(body), installation, headers))
    },
    'POST /api/card/:id/copy': ({ id, headers }) =>
      modern(copyCard(find(state.cards, id), {}, installation, headers)),
    'GET /api/card/:id': ({ id, query }) =>
      query['legacy-mbql'] ? find(state.cards, id) : modern(find(state.cards, id)),
    'PUT /api/card/:id': ({ id, body }) =>
      modern(Object.assign(find(state.cards, id), withoutEmptyTags(body), { id })),
    'GET /api/dashboard': ({ query: { f } }) =>
      state.dashboards.filter(({ archived }) => archived === (f === 'archived')),
    'POST /api/dashboard': ({ body, headers }) =>
      add(state.dashboards, { ...body, dashcards: [], tabs: [] }, installation, headers),
    'POST /api/dashboard/:id/copy': ({ id, body, headers }) => {
      const { name, description, parameters, dashcards, tabs } = find(state.dashboards, id)
      const copied = (dashcards as Entity[]).map(one => {
        const copy = () => copyCard(find(state.cards, Number(one.card_id)), body, installation, headers)
        const cardId = body.is_deep_copy && one.card_id ? copy().id : one.card_id
        const mappings = (one.parameter_mappings ?? []) as object[]
        const parameter_mappings = mappings.map(mapping => ({ ...mapping, card_id: cardId }))
        return { ...one, id: installation.nextId(), card_id: cardId, parameter_mappings }
      })
      const kept = { name: body.name ?? name, description: body.description ?? description, parameters, tabs }
      const made = { ...kept, collection_id: body.collection_id ?? null, dashcards: copied }
      return add(state.dashboards, made, installation, headers)
    },
    'GET /api/dashboard/:id': ({ id }) => {
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
    'PUT /api/dashboard/:id': ({ id, body }) => replaceDashboard(id, body, installation),
  }
}

/** The properties that a copy of a card has of the original; its creator is who copies. */
const COPIED = [
  ...['dataset_query', 'description', 'display', 'name', 'visualization_settings', 'parameters'],
  ...['collection_id', 'type'],
]

function copyCard(
  card: Entity,
  { collection_id = card.collection_id }: Record<string, unknown>,
  installation: Installation,
  headers: IncomingHttpHeaders,
): Entity {
  const kept = Object.fromEntries(COPIED.map(name => [name, structuredClone(card[name])]))
  return add(
    installation.state.cards,
    { ...kept, name: `Copy of ${card.name}`, collection_id },
    installation,
    headers,
  )
}

/** A collection goes to the trash with all that is in it. */
function archiveItems(id: number, { archived, ...body }: Entity, { collections, cards, dashboards }: State) {
  const items = [...cards, ...dashboards].filter(one => one.collection_id === id)
  if (typeof archived === 'boolean') for (const one of items) one.archived = archived
  return Object.assign(find(collections, id), body, archived === undefined ? {} : { archived }, { id })
}

function replaceDashboard(id: number, body: Entity, { state, nextId, violated }: Installation): Entity {
  const before = find(state.dashboards, id)
  if (body.dashcards && before.archived) throw new Refusal(404, 'The object has been archived.')
  if (!body.dashcards) return Object.assign(before, body, { id })
  const { dashcards = [], tabs = [] } = body as unknown as { dashcards?: Entity[]; tabs?: Entity[] }
  for (const { card_id: cardId, parameter_mappings: mappings, dashboard_tab_id: tab } of dashcards) {
    if (cardId) find(state.cards, Number(cardId))
    for (const one of (mappings ?? []) as { card_id: number; parameter_id: string }[]) {
      const known = ((body.parameters ?? []) as Entity[]).some(({ id }) => String(id) === one.parameter_id)
      if (!known || one.card_id !== cardId) throw violated('PUT /api/dashboard', 'a mapping to nothing')
    }
    if (tabs.length > 0 && !tabs.some(one => one.id === tab)) {
      throw violated('PUT /api/dashboard', 'This dashboard has tab, makes sure every card has a tab')
    }
  }
  const placed = dashcards.map(one => ({ ...one, id: one.id < 0 ? nextId() : one.id, action_id: null }))
  return Object.assign(before, body, { id, dashcards: placed, tabs })
}

/** Metabase keeps no empty map of variables. */
function withoutEmptyTags(card: Entity): Entity {
  const { database, type, native } = (card.dataset_query ?? {}) as Query & { type?: string }
  if (!native || Object.keys(native['template-tags'] ?? {}).length > 0) return card
  return { ...card, dataset_query: { database, type, native: { query: native.query } } }
}

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

type TrinoDetails = {
  readonly host: string
  readonly port: number
  readonly catalog: string
  readonly schema: string
}

/** Databases, and their tables and fields. */
function databaseRoutes(installation: Installation): Routes {
  const { state, nextId, violated } = installation
  /** After a delay: the test may have ended by then, and its snapshot be gone. */
  const sync = (database: Entity) =>
    setTimeout(() => void readSchema(database, installation).catch(() => {}), installation.syncMs)
  return {
    'GET /api/database': () => ({ data: state.databases, total: state.databases.length }),
    'POST /api/database': async ({ body }) => {
      if (body.engine === 'duckdb' && !installation.hasDriver)
        throw new Refusal(400, { engine: 'value must be a valid database engine.' })
      if (body.engine === 'duckdb' && !installation.hasIcu)
        throw new Refusal(400, { message: 'icu extension needs to be loaded' })
      await checkOpens(body, installation)
      const made = { ...body, id: nextId(), description: null, initial_sync_status: 'incomplete' }
      state.databases.push(made)
      sync(made)
      return made
    },
    'GET /api/database/:id': ({ id }) => find(state.databases, id),
    'PUT /api/database/:id': async ({ id, body }) => {
      const database = find(state.databases, id)
      if (database.is_sample) throw violated('PUT /api/database', 'The sample database cannot be edited.')
      const details = { ...(database.details as object), ...(body.details as object | undefined) }
      checkOptions(database.details as Details, details as Details)
      await checkOpens({ ...database, details }, installation)
      // A paid edition: what is not sent is cleared.
      return Object.assign(database, body, { id, details, cache_ttl: body.cache_ttl ?? null })
    },
    'POST /api/database/:id/sync_schema': ({ id }) => {
      sync(find(state.databases, id))
      return { status: 'ok' }
    },
    'GET /api/database/:id/metadata': ({ id, query }) => ({
      ...find(state.databases, id),
      tables: state.tables.filter(
        table => table.db_id === id && (query.include_hidden === true || table.visibility_type === null),
      ),
    }),
    'PUT /api/table/:id': ({ id, body }) => Object.assign(find(state.tables, id), body, { id }),
    'PUT /api/field/:id': ({ id, body }) => {
      const fields = state.tables.flatMap(table => table.fields)
      const target = body.fk_target_field_id
      if (typeof target === 'number') find(fields, target)
      if (body.semantic_type === 'type/FK' && !target) throw violated('PUT /api/field', 'FK without a target')
      return Object.assign(find(fields, id), body, { id })
    },
  }
}

type Details = Readonly<Record<string, unknown>>

/** DuckDB opens a file once, with the options that it had then. */
function checkOptions(open: Details, wanted: Details): void {
  const options = ['read_only', 'memory_limit', 'additional-options']
  if (open.database_file !== wanted.database_file || options.every(name => open[name] === wanted[name]))
    return
  const message =
    "Connection Error: Can't open a connection to same database file with a different configuration than existing connections."
  throw new Refusal(400, { message })
}

/** Metabase's driver asks Trino for the catalog, not for the schema. */
async function checkOpens({ engine, details }: Entity, { trino }: Installation): Promise<void> {
  if (engine === 'starburst') {
    const { host, port, catalog } = details as TrinoDetails
    if (trino?.at === `${host}:${port}/${catalog}`) return
    throw new Refusal(400, { message: `Error starting query at http://${host}:${port}/v1/statement` })
  }
  await Database.open((details as { database_file: string }).database_file, { readOnly: true }).then(
    db => db.close(),
    error => {
      throw new Refusal(400, { message: String(error), errors: { database_file: 'check your file' } })
    },
  )
}

/** Reads the schema with the driver's own queries. */
async function readSchema(database: Entity, installation: Installation): Promise<void> {
  const { file, schema } = catalogOf(database, installation)
  if (file === undefined) return
  installation.leftOpen.push(file)
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
  const known = knownOrNew(installation)
  for (const { table_name: name, table_comment: comment } of tables) {
    const same = { db_id: database.id, name, schema }
    const table = known(installation.state.tables, same, comment, { fields: [] })
    // Hidden tables are left as they are.
    if (table.visibility_type) continue
    for (const { column_name, column_comment } of columns.filter(column => column.table_name === name)) {
      const more = { semantic_type: null, fk_target_field_id: null, settings: null }
      known(table.fields, { name: column_name }, column_comment, more)
    }
  }
  database.initial_sync_status = 'complete'
}

/** A Trino's schema is read from the catalog of the snapshot that its tables have. */
function catalogOf({ engine, details }: Entity, { trino }: Installation) {
  if (engine !== 'starburst') {
    return { file: (details as { database_file: string }).database_file, schema: 'main' }
  }
  const { schema } = details as TrinoDetails
  return { file: trino?.schemas.get(schema), schema }
}

/** Metabase's own name of a table or column. */
const humanize = (name: string) =>
  name.replaceAll(/(?:^|_)(\w)/g, (_, letter) => ` ${letter.toUpperCase()}`).trim()

/** The entity with these properties, or a new one; a comment becomes the description of a new one. */
function knownOrNew({ nextId }: Installation) {
  return <T extends Entity>(
    those: T[],
    same: Record<string, unknown>,
    comment: string | null,
    more: object,
  ): T => {
    const known = those.find(one => Object.entries(same).every(([name, value]) => one[name] === value))
    if (known) return known
    const made = {
      id: nextId(),
      ...same,
      display_name: humanize(String(same.name)),
      visibility_type: null,
      description: comment,
      ...more,
    } as unknown as T
    those.push(made)
    return made
  }
}
