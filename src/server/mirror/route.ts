import type { Context } from 'hono'
import { z } from 'zod'
import type { Feed } from '#src/server/feed/feed.ts'
import type { Waiting } from '#src/server/feed/waiting.ts'
import type { KeyHolder, Scope } from '#src/server/key_file.ts'
import type { ServedSnapshot } from '#src/server/snapshot.ts'

/** All paths of the mirror's own API begin with it; those of the contract never do. */
export const MIRROR_PATH = '/api/v1/mirror'

/** The source that a key stands for. Everything below is limited to its company. */
export type MirrorSource = KeyHolder & {
  /** Returns the company's current snapshot; sets `X-Data-As-Of` of the answer. @throws Refusal (503) if there is none yet. */
  snapshot(): ServedSnapshot
  /** Returns the company's changes. */
  feed(): Feed
  /** Requests that wait for changes. */
  readonly waiting: Waiting
  /** Whether the key still has its rights: for answers that last longer than a moment. */
  isStillValid(): boolean
  /**
   * Finds the first snapshot that is as wanted, among the current one and replaced ones that can still be read; or null. Sets
   * `X-Data-As-Of`, too.
   */
  findSnapshot(isWanted: (snapshot: ServedSnapshot) => boolean): ServedSnapshot | null
}

/** Runs work when it is this key's turn; null, without running it, if the client is gone by then. */
export type InTurn = <T>(work: () => Promise<T>) => Promise<T | null>

type Query = z.ZodObject

/** One route below `MIRROR_PATH`, with what its description needs. */
export type MirrorRoute<Q extends Query = Query> = {
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** Below `MIRROR_PATH`, with parameters as `:id`. */
  readonly path: string
  /** Its name in metrics and the access log, and its `operationId`. */
  readonly name: string
  readonly scope: Scope
  readonly summary: string
  /** Markdown. */
  readonly description: string
  /** Its query parameters, each with a description; any other is refused. */
  readonly query: Q
  /** Its request body in OpenAPI, if it reads one. */
  readonly body?: object
  /** Descriptions of the parameters in its path. */
  readonly parameters?: Readonly<Record<string, string>>
  /** Its own answers in OpenAPI, by status; those of every route are added. */
  readonly responses: Readonly<Record<string, object>>
  /**
   * It may take long, so it is not answered in one turn: it takes one for each piece of work, or bounds its work in
   * another way.
   */
  readonly ownTurns?: true
  /** @throws Refusal for whatever the client could change. */
  readonly answer: (request: {
    readonly context: Context
    readonly source: MirrorSource
    readonly query: z.output<Q>
    readonly inTurn: InTurn
  }) => Promise<Response>
}

/** Checks the types of a route's query where it is defined. */
export function mirrorRoute<Q extends Query>(route: MirrorRoute<Q>): MirrorRoute {
  return route as unknown as MirrorRoute
}

/** Creates a query parameter that is a whole number. */
export function wholeParameter({ min, max, usual }: { min: number; max: number; usual: number }) {
  const message = `must be a whole number from ${min} to ${max}`
  return z
    .string()
    .regex(/^\d{1,9}$/, message)
    .meta({ type: 'integer', minimum: min, maximum: max, pattern: undefined })
    .transform(Number)
    .refine(number => number >= min && number <= max, message)
    .prefault(String(usual))
}
