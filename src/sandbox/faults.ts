import type { RouteKind } from '#src/server/contract/routes.ts'
import { fractionOf } from './random.ts'
import type { SandboxRequest } from './requests.ts'

/** Which requests a fault affects; all if no field is set. */
export type FaultScope = {
  readonly kinds?: readonly RouteKind[]
  readonly ids?: readonly string[]
  readonly company?: string
  /** Share of the requests, 0 to 1. Drawn by what is requested and how often, not by order of arrival. */
  readonly probability?: number
  /** Affects only the first `first` requests in scope, counted after `skip`. */
  readonly first?: number
  /** Lets this many requests in scope pass first. */
  readonly skip?: number
}

export type FaultEffect =
  /** Delays the answer: by `ms`, or by a time between `ms` and `toMs`. */
  | { readonly fault: 'latency'; readonly ms: number; readonly toMs?: number }
  /** Answers with this status, for example 429, 503 or 500. */
  | {
      readonly fault: 'status'
      readonly status: number
      readonly retryAfterSeconds?: number
      readonly retryAfterAs?: 'seconds' | 'date'
      readonly body?: 'json' | 'html'
    }
  | { readonly fault: 'reset'; readonly when: 'before_headers' | 'mid_body' }
  /** 200 and a well-formed HTTP message, but only half of the JSON. */
  | { readonly fault: 'truncate' }
  /** Changes the parsed body, for example to wrong types. */
  | { readonly fault: 'mutate'; readonly mutate: (body: unknown, request: SandboxRequest) => unknown }
  | { readonly fault: 'ignore_offset' }
  | { readonly fault: 'clamp_limit'; readonly max: number }
  /** Adds to the list's `total`. */
  | { readonly fault: 'total'; readonly by: number }
  /** Never answers; the connection stays open. */
  | { readonly fault: 'hang' }
  /** 200 and a JSON body of this many bytes, without a `content-length`. */
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
 * The faults of a sandbox; tests change them while it runs. The order of the list is not a fault but a property of the world:
 * `world.setOrder`.
 */
export type Faults = {
  /** Every fault in scope applies; if several replace the answer, the first one does. */
  plan: Fault[]
  /** Awaited before each answer, so it may change the world between two requests. */
  onRequest: ((request: SandboxRequest) => void | Promise<void>) | undefined
  /** Answers with these bytes instead of the API, unless it returns undefined. */
  respond: ((request: SandboxRequest) => RawAnswer | undefined | Promise<RawAnswer | undefined>) | undefined
}

export function noFaults(): Faults {
  return { plan: [], onRequest: undefined, respond: undefined }
}

/**
 * Returns a function that selects the planned faults for a request. Each call counts as one request.
 * The same seed affects the same requests, in whatever order they arrive.
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
