import type { RouteKind } from '#src/api/server/route_of.ts'
import { fractionOf } from './random.ts'
import type { SandboxRequest } from './requests.ts'

/** Which requests a fault strikes; without any of these, all. */
export type FaultScope = {
  readonly kinds?: readonly RouteKind[]
  readonly ids?: readonly string[]
  readonly company?: string
  /** Share of the requests, 0 to 1. Drawn by what is asked for and how often, not by order of arrival. */
  readonly probability?: number
  /** Only so many of the requests in scope, counted from the first (or from the first after `skip`). */
  readonly first?: number
  /** Lets so many requests in scope pass before. */
  readonly skip?: number
}

export type FaultEffect =
  /** Answers late: fixed, or anywhere between two bounds. */
  | { readonly fault: 'latency'; readonly ms: number; readonly toMs?: number }
  /** Answers with a status of its own, for example 429, 503 or 500. */
  | {
      readonly fault: 'status'
      readonly status: number
      readonly retryAfterSeconds?: number
      readonly retryAfterAs?: 'seconds' | 'date'
      readonly body?: 'json' | 'html'
    }
  | { readonly fault: 'reset'; readonly when: 'before_headers' | 'mid_body' }
  /** 200 and a well-formed HTTP message, but half of the JSON. */
  | { readonly fault: 'truncate' }
  /** Changes the parsed body; for example to wrong types. */
  | { readonly fault: 'mutate'; readonly mutate: (body: unknown, request: SandboxRequest) => unknown }
  | { readonly fault: 'ignore_offset' }
  | { readonly fault: 'clamp_limit'; readonly max: number }
  /** Adds to the list's `total`. */
  | { readonly fault: 'total'; readonly by: number }
  /** Never answers; the connection stays open. */
  | { readonly fault: 'hang' }
  /** 200, and a JSON body of so many bytes whose length is not announced. */
  | { readonly fault: 'oversize'; readonly bytes: number }
  /** 302 to the same path at another origin. */
  | { readonly fault: 'redirect'; readonly origin: string }
  | { readonly fault: 'pretty' }
  | { readonly fault: 'bom' }

export type Fault = FaultScope & FaultEffect

export type RawAnswer = {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body: string | Uint8Array
}

/**
 * What goes wrong in a sandbox; tests change it while it runs. How the list is ordered is no fault but a
 * property of the world: `world.setOrder`.
 */
export type Faults = {
  /** Every fault of the plan that is in scope strikes; of several that replace the answer, the first. */
  plan: Fault[]
  /** Awaited before a request is answered: may change the world between two requests. */
  onRequest: ((request: SandboxRequest) => void | Promise<void>) | undefined
  /** Answers with these bytes instead of the API, unless it returns undefined. */
  respond: ((request: SandboxRequest) => RawAnswer | undefined | Promise<RawAnswer | undefined>) | undefined
}

export function noFaults(): Faults {
  return { plan: [], onRequest: undefined, respond: undefined }
}

/**
 * Returns a function that tells which faults of the plan strike a request. Each call counts as one
 * request. With the same seed the same questions are struck, in whatever order they arrive.
 */
export function createStrikes(
  faults: Faults,
  seed: string | number = 0,
): (request: SandboxRequest) => Fault[] {
  const inScope = new WeakMap<Fault, number>()
  const asked = new WeakMap<Fault, Map<string, number>>()

  function draw(fault: Fault, { kind, company, id, offset }: SandboxRequest): number {
    const question = [kind, company, id, offset].join()
    const times = asked.get(fault) ?? new Map<string, number>()
    asked.set(fault, times.set(question, (times.get(question) ?? 0) + 1))
    return fractionOf(`${seed} ${fault.fault} ${question} ${times.get(question)}`)
  }

  return request =>
    faults.plan.filter(fault => {
      if (!isInScope(fault, request)) return false
      if (fault.probability !== undefined && draw(fault, request) >= fault.probability) return false
      const before = inScope.get(fault) ?? 0
      inScope.set(fault, before + 1)
      const skip = fault.skip ?? 0
      return before >= skip && before < skip + (fault.first ?? Number.POSITIVE_INFINITY)
    })
}

function isInScope({ kinds, ids, company }: Fault, request: SandboxRequest): boolean {
  return (
    (kinds?.includes(request.kind) ?? true) &&
    (ids === undefined || (request.id !== null && ids.includes(request.id))) &&
    (company === undefined || company === request.company)
  )
}
