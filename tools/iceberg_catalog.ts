import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

/**
 * An Iceberg REST catalog in memory, as strict as a catalog may be: it gives columns its own ids, requires that what a
 * snapshot names is in the object store, and carries out a transaction completely or not at all. `fault` decides about
 * each request before it is carried out.
 */

type Json = Record<string, unknown>
export type Table = {
  uuid: string
  location: string
  schemas: (Json & { fields?: { readonly id: number; readonly name?: string }[] })[]
  currentSchema: number
  lastColumn: number
  orders: Order[]
  defaultOrder: number
  properties: Record<string, string>
  snapshots: (Json & { 'snapshot-id': number; 'sequence-number': number; 'timestamp-ms': number })[]
  refs: Record<string, { 'snapshot-id': number; type: string }>
  sequence: number
  updated: number
}

type Order = { 'order-id': number; fields: { 'source-id': number }[] }

export type CatalogRequest = { readonly method: string; readonly path: string; readonly body: Json }
/**
 * `lose`: carried out, but the connection ends without an answer. `drop`: it ends before the request is carried out. A
 * number: this status instead of an answer. Otherwise this answer.
 */
export type CatalogFault =
  | 'lose'
  | 'drop'
  | number
  | null
  | { readonly status: number; readonly body: string }

export type CatalogServer = {
  readonly uri: string
  /** By namespace and name, with dots. */
  readonly tables: Map<string, Table>
  readonly requests: CatalogRequest[]
  fault: (request: CatalogRequest) => CatalogFault
  /** Awaited before each request. */
  gate: (request: CatalogRequest) => Promise<void>
  now: () => Date
  hasTransactions: boolean
  /** Some catalogs show only the current snapshot. */
  keepsHistory: boolean
  /** Null if none is needed. */
  token: string | null
  close(): void
}

/** The credentials that a client must send to get a token. */
export const CLIENT = { id: 'editais', secret: 'secret-of-the-client' }
const WAREHOUSE = 'bi'
const MINUTE_MS = 60_000

/** Starts a catalog. @param has whether the object store has an object at this address. */
export async function startCatalog(has: (address: string) => boolean): Promise<CatalogServer> {
  const server: CatalogServer = {
    uri: '',
    tables: new Map(),
    requests: [],
    fault: () => null,
    gate: async () => {},
    now: () => new Date(),
    hasTransactions: true,
    keepsHistory: true,
    token: null,
    close() {
      http.closeAllConnections()
      http.close()
    },
  }
  const state = { server, namespaces: new Set<string>(), has }
  const http = createServer((request, response) => void answer(state, request, response))
  await new Promise<void>(resolve => http.listen(0, '127.0.0.1', resolve))
  return Object.assign(server, { uri: `http://127.0.0.1:${(http.address() as AddressInfo).port}/api` })
}

type State = {
  readonly server: CatalogServer
  readonly namespaces: Set<string>
  readonly has: (address: string) => boolean
}

class Refusal extends Error {
  readonly status: number
  readonly type: string
  constructor(status: number, type: string, message = type) {
    super(message)
    this.status = status
    this.type = type
  }
}

async function answer(state: State, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { server } = state
  const url = new URL(request.url ?? '/', server.uri)
  const sent = await text(request)
  const body = url.pathname.endsWith('/tokens') || sent === '' ? {} : (JSON.parse(sent) as Json)
  const asked = { method: request.method ?? 'GET', path: url.pathname.replace(/^\/api\/v1\//, ''), body }
  await server.gate(asked)
  server.requests.push(asked)
  const fault = server.fault(asked)
  if (fault === 'drop') return void request.socket.destroy()
  const reply = (status: number, json?: object) =>
    response
      .writeHead(status, { 'content-type': 'application/json' })
      .end(json ? JSON.stringify(json) : undefined)
  const refuse = ({ status, type, message }: Refusal) =>
    reply(status, { error: { message, type, code: status } })
  if (typeof fault === 'number') return void refuse(new Refusal(fault, 'Injected', 'injected.'))
  if (typeof fault === 'object' && fault) return void response.writeHead(fault.status).end(fault.body)
  try {
    if (asked.path === 'oauth/tokens') return void reply(200, tokenFor(server, new URLSearchParams(sent)))
    if (server.token !== null && request.headers.authorization !== `Bearer ${server.token}`)
      throw new Refusal(401, 'NotAuthorizedException', `Not authorized: ${request.headers.authorization}`)
    const result = carryOut(state, asked, url.searchParams)
    if (fault === 'lose') return void request.socket.destroy()
    reply(result ? 200 : 204, result ?? undefined)
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    refuse(error)
  }
}

function tokenFor({ token }: CatalogServer, form: URLSearchParams): object {
  if (form.get('grant_type') !== 'client_credentials') throw new Refusal(400, 'unsupported_grant_type')
  if (form.get('client_id') !== CLIENT.id || form.get('client_secret') !== CLIENT.secret)
    throw new Refusal(401, 'invalid_client', `unknown client with ${form.get('client_secret')}`)
  return { access_token: token, token_type: 'bearer', expires_in: 3600 }
}

function carryOut(state: State, { method, path, body }: CatalogRequest, query: URLSearchParams) {
  const { server, namespaces } = state
  if (path === 'config') {
    if (query.get('warehouse') !== WAREHOUSE) throw new Refusal(404, 'NotFound', 'no such warehouse')
    return { defaults: {}, overrides: { prefix: 'of/this' } }
  }
  const [, rest = ''] = /^of\/this\/(.*)$/.exec(path) ?? []
  if (rest === 'namespaces') {
    const name = (body.namespace as string[]).join('.')
    if (namespaces.has(name)) throw new Refusal(409, 'AlreadyExistsException')
    namespaces.add(name)
    return { namespace: body.namespace }
  }
  const [, asked = ''] = /^namespaces\/([^/]+)$/.exec(rest) ?? []
  if (asked !== '') {
    if (!namespaces.has(levelsOf(asked).join('.'))) throw new Refusal(404, 'NoSuchNamespaceException')
    return { namespace: levelsOf(asked), properties: {} }
  }
  if (rest === 'transactions/commit' && server.hasTransactions) {
    commit(state, body['table-changes'] as Json[])
    return null
  }
  const [, space = '', name = ''] = /^namespaces\/([^/]+)\/tables(?:\/([^/]+))?$/.exec(rest) ?? []
  if (space === '') throw new Refusal(404, 'NotFoundException', 'no such path')
  const namespace = levelsOf(space).join('.')
  if (method === 'POST' && name === '') return create(state, namespace, body)
  const key = `${namespace}.${name}`
  if (method === 'POST') commit(state, [{ ...body, identifier: { namespace: [namespace], name } }])
  return described(server, key)
}

function levelsOf(part: string): string[] {
  return part.split('%1F')
}

function create({ server, namespaces }: State, namespace: string, body: Json): object {
  if (!namespaces.has(namespace)) throw new Refusal(404, 'NoSuchNamespaceException')
  for (const needed of ['name', 'location', 'schema', 'partition-spec', 'write-order', 'properties'])
    if (body[needed] === undefined) throw new Refusal(400, 'BadRequestException', `${needed} is missing`)
  if (body['stage-create'] !== false) throw new Refusal(400, 'BadRequestException', 'stage-create')
  const key = `${namespace}.${body.name}`
  if (server.tables.has(key)) throw new Refusal(409, 'AlreadyExistsException')
  const { fields } = body.schema as { fields: Json[] }
  // A catalog assigns its own ids.
  const own = fields.map((field, index) => ({ ...field, id: fields.length - index }))
  const wanted = body['write-order'] as Order
  const ofOrder = wanted.fields.map(field => {
    const place = fields.findIndex(({ id }) => id === field['source-id'])
    if (place === -1) throw new Refusal(400, 'BadRequestException', 'a column of write-order')
    return { ...field, 'source-id': fields.length - place }
  })
  server.tables.set(key, {
    uuid: randomUUID(),
    location: String(body.location),
    schemas: [{ type: 'struct', 'schema-id': 0, fields: own }],
    currentSchema: 0,
    lastColumn: fields.length,
    orders: [{ ...wanted, fields: ofOrder }],
    defaultOrder: wanted['order-id'],
    properties: { owner: 'catalog', ...(body.properties as Record<string, string>) },
    snapshots: [],
    refs: {},
    sequence: 0,
    updated: server.now().getTime(),
  })
  return described(server, key)
}

/** Describes a table, without its empty fields. */
function described({ tables, keepsHistory }: CatalogServer, key: string): object {
  const table = tables.get(key)
  if (!table) throw new Refusal(404, 'NoSuchTableException')
  const present = table.refs.main?.['snapshot-id']
  const isShown = (one: { 'snapshot-id': number }) => keepsHistory || one['snapshot-id'] === present
  const refs = Object.entries(table.refs).filter(([name]) => keepsHistory || name === 'main')
  const metadata = {
    'format-version': 2,
    'table-uuid': table.uuid,
    location: table.location,
    'last-sequence-number': table.sequence,
    'last-updated-ms': table.updated,
    'last-column-id': table.lastColumn,
    schemas: table.schemas,
    'current-schema-id': table.currentSchema,
    'sort-orders': table.orders,
    'default-sort-order-id': table.defaultOrder,
    properties: table.properties,
    ...(present === undefined
      ? {}
      : {
          'current-snapshot-id': present,
          snapshots: table.snapshots.filter(isShown),
          refs: Object.fromEntries(refs),
        }),
  }
  return { 'metadata-location': `${table.location}/metadata/${table.updated}.metadata.json`, metadata }
}

/** Commits all changes, or none. */
function commit({ server, has }: State, changes: readonly Json[]): void {
  const next = changes.map(({ identifier, requirements, updates }) => {
    const { namespace, name } = identifier as { namespace: string[]; name: string }
    const key = `${namespace.join('.')}.${name}`
    const table = server.tables.get(key)
    if (!table) throw new Refusal(404, 'NoSuchTableException')
    for (const requirement of requirements as Json[]) require(key, table, requirement)
    const copy = structuredClone(table)
    for (const update of updates as Json[]) apply(copy, update, has)
    return [key, copy] as const
  })
  for (const [key, table] of next) server.tables.set(key, table)
}

function require(key: string, table: Table, requirement: Json): void {
  const failed = (what: string) => new Refusal(409, 'CommitFailedException', `${key}: ${what} has changed.`)
  if (requirement.type === 'assert-table-uuid') {
    if (requirement.uuid !== table.uuid) throw failed('the UUID')
  } else if (requirement.type === 'assert-ref-snapshot-id') {
    const present = table.refs[String(requirement.ref)]?.['snapshot-id'] ?? null
    if (requirement['snapshot-id'] !== present) throw failed('main')
  } else throw new Refusal(400, 'BadRequestException', `unknown requirement ${requirement.type}`)
}

function apply(table: Table, update: Json, has: (address: string) => boolean): void {
  const bad = (why: string) => new Refusal(400, 'BadRequestException', why)
  const action = UPDATES[String(update.action)]
  if (!action) throw bad(`unknown update ${update.action}`)
  const why = action(table, update, has)
  if (why !== null) throw bad(why)
}

type Update = (table: Table, update: Json, has: (address: string) => boolean) => string | null

/** Each returns why it is refused. */
const UPDATES: Readonly<Record<string, Update>> = {
  'add-schema'(table, { schema, 'last-column-id': last }) {
    table.schemas.push({ ...(schema as Json), 'schema-id': table.schemas.length })
    table.lastColumn = Number(last)
    const ids = (schema as { fields: { id: number }[] }).fields.map(({ id }) => id)
    return new Set(ids).size === ids.length && Math.max(...ids) <= table.lastColumn ? null : 'ids of columns'
  },
  'set-current-schema'(table, { 'schema-id': id }) {
    table.currentSchema = id === -1 ? table.schemas.length - 1 : Number(id)
    return table.currentSchema < table.schemas.length ? null : 'no such schema'
  },
  'add-sort-order'(table, { 'sort-order': added }) {
    const order = added as Order
    const known = new Set(table.schemas[table.currentSchema]?.fields?.map(({ id }) => id))
    if (order.fields.some(field => !known.has(field['source-id']))) return 'a column of a sort order'
    table.orders.push({ ...order, 'order-id': Math.max(...table.orders.map(one => one['order-id'])) + 1 })
    return null
  },
  'set-default-sort-order'(table, { 'sort-order-id': id }) {
    table.defaultOrder = id === -1 ? (table.orders.at(-1)?.['order-id'] ?? 0) : Number(id)
    return table.orders.some(one => one['order-id'] === table.defaultOrder) ? null : 'no such sort order'
  },
  'set-properties'(table, { updates }) {
    Object.assign(table.properties, updates)
    return null
  },
  'add-snapshot'(table, { snapshot: added }, has) {
    const snapshot = added as Table['snapshots'][number]
    if (table.snapshots.some(one => one['snapshot-id'] === snapshot['snapshot-id'])) return 'a known snapshot'
    if (snapshot['sequence-number'] <= table.sequence) return 'an old sequence number'
    if (snapshot['timestamp-ms'] < table.updated - MINUTE_MS) return 'a time before the last change'
    if (!has(String(snapshot['manifest-list']))) return 'its manifest list is not there'
    table.snapshots.push(snapshot)
    table.sequence = snapshot['sequence-number']
    table.updated = snapshot['timestamp-ms']
    return null
  },
  'set-snapshot-ref'(table, { 'ref-name': name, 'snapshot-id': id, type }) {
    if (!table.snapshots.some(one => one['snapshot-id'] === id)) return 'a ref without its snapshot'
    table.refs[String(name)] = { 'snapshot-id': Number(id), type: String(type) }
    return null
  },
  'remove-snapshot-ref'(table, { 'ref-name': name }) {
    delete table.refs[String(name)]
    return null
  },
  'remove-snapshots'(table, { 'snapshot-ids': ids }) {
    const gone = new Set(ids as number[])
    if (Object.values(table.refs).some(ref => gone.has(ref['snapshot-id']))) return 'a snapshot with a ref'
    table.snapshots = table.snapshots.filter(one => !gone.has(one['snapshot-id']))
    return null
  },
}
