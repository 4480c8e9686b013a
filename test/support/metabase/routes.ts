import type { IncomingHttpHeaders } from 'node:http'
import type { Entity, Refusal, State } from './state.ts'

/** A Trino, as Metabase sees it. */
export type TrinoAround = {
  /** `host:port/catalog` */
  readonly at: string
  /** The catalogs of the snapshots whose tables its schemas have. */
  readonly schemas: ReadonlyMap<string, string>
}

/** What the routes share. */
export type Installation = {
  readonly state: State
  nextId(): number
  /** Records that Metabase would reject the request, and why. */
  violated(what: string, problem: unknown): Refusal
  /** Delay before a schema is read. */
  readonly syncMs: number
  readonly hasDriver: boolean
  readonly hasIcu: boolean
  readonly leftOpen: string[]
  /** The Trino that it reaches; null for none. */
  readonly trino: TrinoAround | null
}

export type Handler = (request: {
  /** NaN if the path has none. */
  readonly id: number
  readonly body: Entity
  readonly query: Readonly<Record<string, unknown>>
  readonly path: string
  readonly headers: IncomingHttpHeaders
}) => unknown | Promise<unknown>

/** By method and path, as `GET /api/card/:id`. A handler returns the body of the answer; undefined for none (204). */
export type Routes = Readonly<Record<string, Handler>>

/** Adds an object of who sends it: the user of an API key, whose id is a thousand and that of the key, or else a person. */
export function add(
  those: Entity[],
  body: object,
  { state, nextId }: Pick<Installation, 'state' | 'nextId'>,
  headers: IncomingHttpHeaders = {},
): Entity {
  const key = state.apiKeys.find(one => one.key === headers['x-api-key'])
  const email = key ? `api-key-user-${key.id}@api-key.invalid` : state.user?.email
  const creator = { id: key ? 1000 + key.id : 1, email }
  const made = { ...body, id: nextId(), archived: false, creator, creator_id: creator.id } as Entity
  those.push(made)
  return made
}
