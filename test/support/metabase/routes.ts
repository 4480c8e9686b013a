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

export function add(those: Entity[], body: object, nextId: () => number): Entity {
  const made = { ...body, id: nextId(), archived: false } as Entity
  those.push(made)
  return made
}
