import { isDeepStrictEqual } from 'node:util'
import pRetry from 'p-retry'
import { z } from 'zod'
import type { CatalogLogin, CatalogSettings } from '#config/lake.ts'
import { closing } from '#src/lib/closing.ts'
import {
  describeRedirect,
  type HttpClient,
  type HttpReply,
  type HttpRequest,
  isRedirect,
  openHttpClient,
} from '#src/lib/http/client.ts'
import { NetworkError } from '#src/lib/http/network_error.ts'
import { RemoteError, readKeyFile } from '#src/lib/objects/objects.ts'
import type { Patience } from '#src/lib/objects/patience.ts'
import type { IcebergField, IcebergSchema } from './manifests.ts'
import { findSortOrder, MAIN, MS, type SortOrder, type TableMetadata } from './metadata.ts'

/** The changes to a table that a REST catalog is asked for; names are those of its specification. */
export type TableChange = {
  readonly table: string
  readonly requirements: readonly object[]
  readonly updates: readonly object[]
  /** The metadata after the change. */
  readonly next: TableMetadata
}

/** Returns null if nothing changes. The catalog refuses it if another program changed the table since `before`. */
export function describeChange(
  table: string,
  before: TableMetadata,
  next: TableMetadata,
): TableChange | null {
  const updates = [
    ...schemaUpdates(before, next),
    ...sortUpdates(before, next),
    ...propertyUpdates(before, next),
    ...snapshotUpdates(before, next),
    ...refUpdates(before, next),
    ...removals(before, next),
  ]
  if (updates.length === 0) return null
  const present = before.refs[MAIN]?.['snapshot-id'] ?? null
  const requirements = [
    { type: 'assert-table-uuid', uuid: before['table-uuid'] },
    { type: 'assert-ref-snapshot-id', ref: MAIN, 'snapshot-id': present },
  ]
  return { table, requirements, updates, next }
}

function schemaUpdates(before: TableMetadata, next: TableMetadata): object[] {
  const id = next['current-schema-id']
  if (id === before['current-schema-id']) return []
  const isKnown = (one: { readonly 'schema-id': number }) => one['schema-id'] === id
  const added = before.schemas.some(isKnown) ? undefined : next.schemas.find(isKnown)
  if (!added) return [{ action: 'set-current-schema', 'schema-id': id }]
  return [
    { action: 'add-schema', schema: added, 'last-column-id': next['last-column-id'] },
    // The schema that was added last, whatever number the catalog gives it.
    { action: 'set-current-schema', 'schema-id': -1 },
  ]
}

function sortUpdates(before: TableMetadata, next: TableMetadata): object[] {
  const order = findSortOrder(next)
  if (isDeepStrictEqual(findSortOrder(before).fields, order.fields)) return []
  return [
    { action: 'add-sort-order', 'sort-order': order },
    // The order that was added last.
    { action: 'set-default-sort-order', 'sort-order-id': -1 },
  ]
}

function propertyUpdates({ properties: before }: TableMetadata, { properties }: TableMetadata): object[] {
  const changed = Object.entries(properties).filter(([name, value]) => before[name] !== value)
  return changed.length === 0 ? [] : [{ action: 'set-properties', updates: Object.fromEntries(changed) }]
}

function snapshotUpdates(before: TableMetadata, next: TableMetadata): object[] {
  const known = new Set(before.snapshots.map(one => one['snapshot-id']))
  const added = next.snapshots.filter(one => !known.has(one['snapshot-id']))
  return added.map(snapshot => ({ action: 'add-snapshot', snapshot }))
}

function refUpdates({ refs: before }: TableMetadata, { refs }: TableMetadata): object[] {
  const changed = Object.entries(refs).filter(
    ([name, ref]) => before[name]?.['snapshot-id'] !== ref['snapshot-id'],
  )
  return changed.map(([name, ref]) => ({
    action: 'set-snapshot-ref',
    'ref-name': name,
    'snapshot-id': ref['snapshot-id'],
    type: ref.type,
  }))
}

function removals(before: TableMetadata, next: TableMetadata): object[] {
  const refs = Object.keys(before.refs).filter(name => !(name in next.refs))
  const kept = new Set(next.snapshots.map(one => one['snapshot-id']))
  const ids = before.snapshots.map(one => one['snapshot-id']).filter(id => !kept.has(id))
  return [
    ...refs.map(name => ({ action: 'remove-snapshot-ref', 'ref-name': name })),
    ...(ids.length === 0 ? [] : [{ action: 'remove-snapshots', 'snapshot-ids': ids }]),
  ]
}

// Requests to an Iceberg REST catalog: how they sign in, and what a refusal means.

const TIMEOUT_MS = 30_000
/** Without this limit, a catalog that hangs would hold the publish, and its slot. */
const RETRY_WITHIN_MS = 20_000
const CONNECTIONS = 8
const RETRIES = 4
/** The metadata of a table with thousands of snapshots. */
const MAX_BODY_BYTES = 64 * 1024 * 1024
const MAX_TEXT = 300

type RestClient = {
  /** Name as the subject of a sentence. */
  readonly name: string
  /** Sends a GET, again if the answer may differ the next time. */
  get(path: string): Promise<CatalogAnswer>
  /** Sends a POST once: the caller decides about an unclear answer. */
  post(path: string, body: object): Promise<CatalogAnswer>
  /** Returns the error for an answer that the caller cannot use. */
  refusal(what: string, answer: CatalogAnswer): RemoteError
  close(): void
}

type CatalogAnswer = {
  /** Null if it is unknown whether the catalog carried out the request. */
  readonly status: number | null
  /** The body if it is a JSON object. */
  readonly json: Readonly<Record<string, unknown>>
  /** Why there is no status, or what the catalog says about a refusal; a clause, or empty. */
  readonly text: string
  /** The catalog's name of the error. */
  readonly type: string
}

/**
 * Sends nothing yet.
 * @param patience once it has ended, requests reject with the reason.
 */
function openRestClient({ uri, login, retryMs }: CatalogSettings, patience: Patience): RestClient {
  const name = `The catalog at ${uri}`
  const http = openClient(uri, name, patience)
  const { pathname } = new URL(uri)
  let token: Promise<string | null> | null = null
  const send = async (method: 'GET' | 'POST', path: string, body?: object): Promise<CatalogAnswer> => {
    token ??= requestToken(login, patience)
    const known = await token
    const answer = await ask(http, name, {
      method,
      path: `${pathname === '/' ? '' : pathname}/v1/${path}`,
      headers: {
        accept: 'application/json',
        ...(known === null ? {} : { authorization: `Bearer ${known}` }),
        ...(body ? { 'content-type': 'application/json' } : {}),
      },
      ...(body ? { body: JSON.stringify(body) } : {}),
    })
    const masked = (text: string) => (known === null ? text : text.replaceAll(known, '***'))
    return { ...answer, text: masked(answer.text), type: masked(answer.type) }
  }
  /**
   * Sends a request, and repeats it with a new token if the old one has ended: one that was given for an hour may end during a
   * long upload.
   */
  const withNewToken = async (
    method: 'GET' | 'POST',
    path: string,
    body?: object,
  ): Promise<CatalogAnswer> => {
    const answer = await send(method, path, body)
    if (answer.status !== 401 || login === null || 'tokenFile' in login) return answer
    token = null
    return await send(method, path, body)
  }
  return {
    name,
    get: path => repeatedly(() => withNewToken('GET', path), retryMs, patience.ended),
    post: (path, body) => withNewToken('POST', path, body),
    refusal: (what, answer) => refusal(name, what, answer, login),
    close: () => void http.close(),
  }
}

/** @param name as the subject of a sentence. */
function openClient(uri: string, name: string, patience: Patience): HttpClient {
  const client = openHttpClient({
    signal: patience.ended,
    url: uri,
    connections: CONNECTIONS,
    silenceMs: TIMEOUT_MS,
    answerMs: TIMEOUT_MS,
    limit: `${TIMEOUT_MS / 1000} s`,
    maxBodyBytes: MAX_BODY_BYTES,
  })
  return {
    send: request => patience.attempt(null, () => client.send(request), name),
    close: () => client.close(),
  }
}

/** Sends a request to the catalog. @throws RemoteError if nothing was sent, or the catalog redirects to another server. */
async function ask(http: HttpClient, name: string, request: HttpRequest): Promise<CatalogAnswer> {
  const reply = await http.send(request).catch(error => {
    if (!(error instanceof NetworkError)) throw error
    if (error.trouble === 'untrusted')
      throw new RemoteError(`${name} cannot be trusted: ${error.message}. Check ICEBERG_CATALOG_URI.`)
    return error
  })
  if (reply instanceof NetworkError) {
    if (request.method === 'POST' && reply.trouble === 'unreached')
      throw new RemoteError(`${name} cannot be reached: ${reply.message}.`)
    return { status: null, json: {}, text: reply.message, type: '' }
  }
  if (isRedirect(reply.status))
    throw new RemoteError(`${name} ${describeRedirect(reply, 'ICEBERG_CATALOG_URI')}.`)
  return makeAnswer(reply)
}

function makeAnswer({ status, body, isCut }: HttpReply): CatalogAnswer {
  if (isCut) return { status: null, json: {}, text: 'the answer is too large', type: '' }
  const json = parseJson(body)
  const { message = '', type = '' } = (json.error ?? {}) as { message?: unknown; type?: unknown }
  const text = shortenLine(message)
  // By the specification, the state of a commit is unknown after these.
  if (status === 500 || status === 502 || status === 504)
    return {
      status: null,
      json,
      text: `it answered ${status}${text && `: ${text}`}`,
      type: shortenLine(type),
    }
  return { status, json, text, type: shortenLine(type) }
}

/** Returns a server's own words, safe for a terminal: on one line, bounded, without control characters. */
function shortenLine(text: unknown): string {
  const line = String(text).replace(/[\p{C}\s]+/gu, ' ')
  return line.trim().slice(0, MAX_TEXT).replace(/\.$/, '')
}

function parseJson(body: Buffer): Readonly<Record<string, unknown>> {
  try {
    const value = JSON.parse(body.toString()) as unknown
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
  } catch {
    return {}
  }
}

class Again extends Error {
  readonly answer: CatalogAnswer
  constructor(answer: CatalogAnswer) {
    super()
    this.answer = answer
  }
}

async function repeatedly(
  get: () => Promise<CatalogAnswer>,
  retryMs: number,
  ended: AbortSignal,
): Promise<CatalogAnswer> {
  const startedMs = performance.now()
  const attempt = async () => {
    const answer = await get()
    const { status } = answer
    if (status === null || status === 429 || status === 503) throw new Again(answer)
    return answer
  }
  return await pRetry(attempt, {
    retries: RETRIES,
    minTimeout: retryMs,
    randomize: true,
    shouldRetry: ({ error }) => error instanceof Again && performance.now() - startedMs < RETRY_WITHIN_MS,
    signal: ended,
  }).catch(error => {
    ended.throwIfAborted()
    if (error instanceof Again) return error.answer
    throw error
  })
}

function refusal(
  name: string,
  what: string,
  { status, text, type }: CatalogAnswer,
  login: CatalogLogin | null,
): RemoteError {
  if (status === null) return new RemoteError(`${name} did not ${what}: ${text}.`)
  const why = text === '' ? type : text
  const said = why === '' ? '' : `: ${why}`
  if (status === 401 || status === 403)
    return new RemoteError(`${name} did not ${what} (${status})${said}. ${loginAdvice(login)}`)
  return new RemoteError(`${name} did not ${what} (${status})${said}.`)
}

function loginAdvice(login: CatalogLogin | null): string {
  if (login === null) return 'Set ICEBERG_CREDENTIAL_FILE.'
  return 'Check the token or client in ICEBERG_CREDENTIAL_FILE and its rights; of a client, also ICEBERG_OAUTH_SCOPE.'
}

async function requestToken(login: CatalogLogin | null, patience: Patience): Promise<string | null> {
  if (login === null) return null
  const { oauthUri, credentialFile, scope, isClient } = login
  const credential = readKeyFile('ICEBERG_CREDENTIAL_FILE', credentialFile)
  // No token has a colon (RFC 6750).
  if (!credential.includes(':') && !isClient) return credential
  const [, id = '', secret = ''] = /^([^:]+):(.+)$/.exec(credential) ?? []
  if (secret === '')
    throw new RemoteError(
      `ICEBERG_CREDENTIAL_FILE (${credentialFile}) must have one line: ${isClient ? '' : 'a token, or '}CLIENT:SECRET.`,
    )
  const name = `The authorization server at ${oauthUri}`
  const form = { grant_type: 'client_credentials', client_id: id, client_secret: secret }
  await using http = closing(openClient(oauthUri, name, patience))
  const answer = await ask(http, name, {
    method: 'POST',
    path: new URL(oauthUri).pathname,
    headers: { accept: 'application/json', 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams(scope === null ? form : { ...form, scope }).toString(),
  })
  const { access_token: token, error } = answer.json
  if (answer.status === 200 && typeof token === 'string' && token !== '') return token
  const why = shortenLine(typeof error === 'string' ? error : answer.text)
  throw new RemoteError(
    `${name} returned no token (${answer.status ?? 'no answer'})${why && `: ${why.replaceAll(secret, '***')}`}. Check ICEBERG_CREDENTIAL_FILE and the ICEBERG_OAUTH settings.`,
  )
}

/** A company's namespace in an Iceberg REST catalog. */
export type RestCatalog = {
  /** Name as the subject of a sentence. */
  readonly name: string
  /** Returns a table's name, for messages. */
  readName(table: string): string
  /** Loads a table's metadata; null if there is no such table. */
  load(table: string): Promise<TableMetadata | null>
  /** Creates an empty table; one that already exists is loaded. */
  create(table: string, wanted: NewTable): Promise<TableMetadata>
  /**
   * Changes all of these tables, in one transaction if the catalog can.
   * @returns false if an answer was lost, so that it is not known which of them were changed.
   * @throws RemoteError if the catalog refuses, or a table was changed by another program.
   */
  commit(changes: readonly TableChange[]): Promise<boolean>
  close(): void
}

type NewTable = {
  readonly location: string
  readonly schema: IcebergSchema | null
  readonly order: SortOrder
  readonly properties: Readonly<Record<string, string>>
}

const TRANSACTION = 'POST /v1/{prefix}/transactions/commit'

/**
 * Opens a REST catalog.
 * @param patience of the object store that the tables are in.
 * @throws RemoteError if the catalog cannot be reached, or does not know the warehouse.
 */
export async function openRestCatalog(settings: CatalogSettings, patience: Patience): Promise<RestCatalog> {
  const client = openRestClient(settings, patience)
  try {
    const config = await readConfig(client, settings)
    return makeCatalog(client, settings.namespace, config)
  } catch (error) {
    client.close()
    throw error
  }
}

type Config = {
  /** The part of a path before the namespace: empty, or ends with a slash. */
  readonly prefix: string
  /** Separates the levels of a namespace in a path. */
  readonly separator: string
  /** False if the catalog is known to have no transactions. */
  readonly hasTransactions: boolean
}

async function readConfig(client: RestClient, { warehouse }: CatalogSettings): Promise<Config> {
  const query = warehouse === null ? '' : `?warehouse=${encodeURIComponent(warehouse)}`
  const answer = await client.get(`config${query}`)
  const { defaults, overrides, endpoints } = answer.json as {
    defaults?: Record<string, string>
    overrides?: Record<string, string>
    endpoints?: string[]
  }
  if (answer.status !== 200) throw client.refusal('return its configuration', answer)
  if (!defaults && !overrides) throw strange(client, 'its configuration')
  const known = { ...defaults, ...overrides }
  return {
    prefix: known.prefix ? `${inPath(client, known.prefix)}/` : '',
    separator: separatorIn(client, known['namespace-separator'] ?? '%1F'),
    hasTransactions: endpoints?.includes(TRANSACTION) ?? true,
  }
}

/** Encodes a part of a path, which a catalog may have encoded or not. */
function inPath(client: RestClient, part: unknown): string {
  try {
    return encodeURI(decodeURI(String(part)))
  } catch {
    throw strange(client, 'its configuration')
  }
}

/** Checks a separator, which must be written as it stands in a path. */
function separatorIn(client: RestClient, text: string): string {
  if (/^(%[0-9a-f]{2}|[\w.~-])+$/i.test(text)) return text
  throw strange(client, 'its configuration')
}

function strange({ name }: RestClient, what: string): RemoteError {
  return new RemoteError(
    `${name} does not answer as an Iceberg REST catalog (${what}). Check ICEBERG_CATALOG_URI.`,
  )
}

function makeCatalog(client: RestClient, levels: readonly string[], config: Config): RestCatalog {
  const { prefix, separator } = config
  const tables = `${prefix}namespaces/${levels.join(separator)}/tables`
  const readName = (table: string) => [...levels, table].join('.')
  const load = async (table: string) => {
    const answer = await client.get(`${tables}/${table}`)
    if (answer.status === 404) return null
    if (answer.status === 200) return readMetadata(client, answer)
    throw client.refusal(`load ${readName(table)}`, answer)
  }
  let hasTransactions = config.hasTransactions
  let namespace: Promise<void> | null = null
  return {
    name: client.name,
    readName,
    load,
    async create(table, { order, ...wanted }) {
      namespace ??= ensureNamespace(client, config, levels)
      await namespace
      // Some catalogs require all of these.
      const answer = await client.post(tables, {
        name: table,
        ...wanted,
        'partition-spec': { 'spec-id': 0, fields: [] },
        'write-order': order,
        'stage-create': false,
      })
      if (answer.status === 200) return readMetadata(client, answer)
      // It may already exist, if an earlier answer was lost.
      const found = answer.status === null || answer.status === 409 ? await load(table) : null
      if (found) return found
      throw client.refusal(`create ${readName(table)}`, answer)
    },
    async commit(changes) {
      const about = { client, levels, readName }
      if (hasTransactions && changes.length > 1) {
        const done = await commitTogether(about, `${prefix}transactions/commit`, changes)
        if (done !== 'unsupported') return done
        hasTransactions = false
      }
      return await commitEach(about, tables, changes)
    },
    close: () => client.close(),
  }
}

/** Creates it only if it does not exist: creating may need a separate right. */
async function ensureNamespace(
  client: RestClient,
  { prefix, separator }: Config,
  levels: readonly string[],
): Promise<void> {
  for (let count = 1; count <= levels.length; count += 1) {
    const namespace = levels.slice(0, count)
    const found = await client.get(`${prefix}namespaces/${namespace.join(separator)}`)
    if (found.status === 200) continue
    const answer = await client.post(`${prefix}namespaces`, { namespace, properties: {} })
    // After a lost answer, the first table shows whether it is there; 409 means that it is.
    if (answer.status !== null && answer.status !== 200 && answer.status !== 409)
      throw client.refusal(`create the namespace ${namespace.join('.')}`, answer)
  }
}

type About = {
  readonly client: RestClient
  readonly levels: readonly string[]
  readonly readName: (table: string) => string
}

/** Statuses of a catalog that does not support this request. */
const UNSUPPORTED = new Set([404, 405, 406, 501])

async function commitTogether(
  { client, levels, readName }: About,
  path: string,
  changes: readonly TableChange[],
): Promise<boolean | 'unsupported'> {
  const answer = await client.post(path, {
    'table-changes': changes.map(change => makeRequest(change, levels)),
  })
  const { status, type } = answer
  if (status === 200 || status === 204) return true
  if (status === null) return false
  if (UNSUPPORTED.has(status) && !/^NoSuch(Table|Namespace)/.test(type)) return 'unsupported'
  throw refusedCommit(client, `${readName(changes[0]?.table ?? '')} and other tables`, answer)
}

/** Commits one table after another, in the same order each time: if one is refused, the next publish does the rest. */
async function commitEach(
  { client, levels, readName }: About,
  tables: string,
  changes: readonly TableChange[],
): Promise<boolean> {
  for (const change of changes) {
    const answer = await client.post(`${tables}/${change.table}`, makeRequest(change, levels))
    if (answer.status === null) return false
    if (answer.status !== 200) throw refusedCommit(client, readName(change.table), answer)
  }
  return true
}

function makeRequest({ table, requirements, updates }: TableChange, namespace: readonly string[]): object {
  return { identifier: { namespace, name: table }, requirements, updates }
}

function refusedCommit(client: RestClient, name: string, answer: CatalogAnswer): RemoteError {
  const error = client.refusal(`commit to ${name}`, answer)
  if (answer.status !== 409) return error
  return new RemoteError(`${error.message} Another program changed it meanwhile. The next run publishes.`)
}

/** The fields that we use; the specification has the rest. */
const METADATA = z.object({
  'table-uuid': z.string(),
  'last-sequence-number': z.number(),
  'last-updated-ms': MS,
  'last-column-id': z.number(),
  'current-schema-id': z.number(),
  schemas: z.array(
    z.object({
      'schema-id': z.number(),
      fields: z.array(z.object({ id: z.number(), name: z.string(), type: z.unknown() })),
    }),
  ),
  properties: z.record(z.string(), z.string()).nullish(),
  'current-snapshot-id': z.number().nullish(),
  snapshots: z
    .array(
      z.object({
        'snapshot-id': z.number(),
        'timestamp-ms': MS,
        'manifest-list': z.string(),
        summary: z.record(z.string(), z.string()).nullish(),
      }),
    )
    .nullish(),
  refs: z.record(z.string(), z.object({ 'snapshot-id': z.number() })).nullish(),
})

/** Fields that a catalog leaves out are empty; those of a schema get the order that ours have, to be compared. */
function readMetadata(client: RestClient, { json }: CatalogAnswer): TableMetadata {
  if (!METADATA.safeParse(json.metadata).success) throw strange(client, 'the metadata of a table')
  const metadata = json.metadata as TableMetadata
  return {
    ...metadata,
    schemas: metadata.schemas.map(schema => ({ ...schema, fields: schema.fields.map(normalizeField) })),
    properties: metadata.properties ?? {},
    'current-snapshot-id': metadata['current-snapshot-id'] ?? -1,
    snapshots: (metadata.snapshots ?? []).map(one => ({ ...one, summary: one.summary ?? {} })),
    'sort-orders': metadata['sort-orders'] ?? [],
    'default-sort-order-id': metadata['default-sort-order-id'] ?? 0,
    'snapshot-log': metadata['snapshot-log'] ?? [],
    'metadata-log': metadata['metadata-log'] ?? [],
    refs: metadata.refs ?? {},
  }
}

function normalizeField({ id, name, required, type, doc }: IcebergField): IcebergField {
  return { id, name, required, type, doc: doc ?? '' }
}
