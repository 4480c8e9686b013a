import type { RouteKind } from '#src/server/contract/routes.ts'
import { computeFraction } from './random.ts'
import type { SandboxRequest } from './requests.ts'

/** Which requests a fault affects; all if no field is set. */
type FaultScope = {
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

type FaultEffect =
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
    return computeFraction(`${seed} ${fault.fault} ${question} ${times.get(question)}`)
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

/** Syntax of faults on the command line, for `--help`. */
export const FAULT_HELP = `Faults, as NAME[=VALUE][,KEY=VALUE...]:
  latency=MS or MS-MS      answer after this time, or a time in this range
  status=CODE              answer with this status; optional: retry_after=SECONDS, as=date, body=html
                           (status=404,body=html is the page of a gateway, and proves nothing about a notice)
  reset=before_headers     reset the connection before the headers; or reset=mid_body
  truncate                 200 with half of the JSON
  wrong_type=FIELD         send FIELD with the wrong type
  ignore_offset            always return the first page
  clamp_limit=MAX          return at most MAX notices a page
  total=N                  add N to the reported total; N may be negative
  hang                     never answer
  oversize=BYTES           return a JSON body of this size
  redirect=ORIGIN          redirect (302) to the same path at another origin
  pretty, bom              indent the JSON; start it with a byte order mark
Limit a fault to some requests: kind=list|notice|analysis, id=ID, company=SLUG, probability=0..1, first=N, skip=N`

type Parameters = ReadonlyMap<string, string>

const EFFECTS: Readonly<Record<string, (value: string, parameters: Parameters) => FaultEffect>> = {
  latency(value) {
    const [, from, to] = /^(\d+)(?:-(\d+))?$/u.exec(value) ?? fail(`"${value}" is not MS or MS-MS`)
    return { fault: 'latency', ms: Number(from), ...(to !== undefined && { toMs: Number(to) }) }
  },
  status(value, parameters) {
    const seconds = parameters.get('retry_after')
    return {
      fault: 'status',
      status: numberBetween(value, 200, 599),
      ...(seconds !== undefined && { retryAfterSeconds: numberBetween(seconds, 0, 86_400) }),
      retryAfterAs: parseOne(parameters.get('as') ?? 'seconds', ['seconds', 'date']),
      body: parseOne(parameters.get('body') ?? 'json', ['json', 'html']),
    }
  },
  reset: value => ({
    fault: 'reset',
    when: parseOne(value || 'before_headers', ['before_headers', 'mid_body']),
  }),
  truncate: () => ({ fault: 'truncate' }),
  wrong_type(value) {
    const field = value || fail('The fault "wrong_type" needs a field')
    return { fault: 'mutate', mutate: body => withWrongType(body, field) }
  },
  ignore_offset: () => ({ fault: 'ignore_offset' }),
  clamp_limit: value => ({ fault: 'clamp_limit', max: numberBetween(value, 1, 200) }),
  total: value => ({ fault: 'total', by: numberBetween(value, -1_000_000, 1_000_000) }),
  hang: () => ({ fault: 'hang' }),
  oversize: value => ({ fault: 'oversize', bytes: numberBetween(value, 1, 2 ** 32) }),
  redirect: value => ({
    fault: 'redirect',
    origin: URL.parse(value)?.origin ?? fail(`"${value}" is not a URL`),
  }),
  pretty: () => ({ fault: 'pretty' }),
  bom: () => ({ fault: 'bom' }),
}

const SCOPE_KEYS = ['kind', 'id', 'company', 'probability', 'first', 'skip']

/** Parses one fault as `FAULT_HELP` describes it. Throws an Error with a one-sentence message. */
export function parseFault(text: string): Fault {
  const [head = '', ...rest] = text.split(',')
  const [name, value] = splitPair(head)
  const parameters = new Map(rest.map(splitPair))
  const effect = Object.hasOwn(EFFECTS, name) ? EFFECTS[name] : undefined
  if (!effect) fail(`There is no fault "${name}"; use one of ${Object.keys(EFFECTS).join(', ')}`)
  const own = name === 'status' ? ['retry_after', 'as', 'body'] : []
  const odd = [...parameters.keys()].find(key => !SCOPE_KEYS.includes(key) && !own.includes(key))
  if (odd !== undefined) fail(`The fault "${name}" does not take "${odd}"`)
  return { ...effect(value, parameters), ...readScope(parameters) }
}

function readScope(parameters: Parameters): FaultScope {
  const read = <T>(key: string, parse: (text: string) => T): T | undefined => {
    const text = parameters.get(key)
    return text === undefined ? undefined : parse(text)
  }
  const scope = {
    kinds: read('kind', text => [parseOne<RouteKind>(text, ['list', 'notice', 'analysis'])]),
    ids: read('id', text => [text]),
    company: read('company', text => text),
    probability: read('probability', text => numberBetween(text, 0, 1, false)),
    first: read('first', text => numberBetween(text, 0, 1e9)),
    skip: read('skip', text => numberBetween(text, 0, 1e9)),
  }
  return Object.fromEntries(Object.entries(scope).filter(([, value]) => value !== undefined))
}

function splitPair(text: string): [name: string, value: string] {
  const at = text.indexOf('=')
  return at < 0 ? [text.trim(), ''] : [text.slice(0, at).trim(), text.slice(at + 1).trim()]
}

function numberBetween(text: string, min: number, max: number, whole = true): number {
  const value = Number(text)
  if (text === '' || !(value >= min && value <= max) || (whole && !Number.isInteger(value))) {
    fail(`"${text}" is not a${whole ? ' whole' : ''} number from ${min} to ${max}`)
  }
  return value
}

function parseOne<const T extends string>(text: string, allowed: readonly T[]): T {
  return allowed.find(value => value === text) ?? fail(`"${text}" is not one of ${allowed.join(', ')}`)
}

function fail(message: string): never {
  throw new Error(`${message}.`)
}

/** Turns text into a number and anything else into text, in the document or in every listed notice. */
function withWrongType(body: unknown, field: string): unknown {
  if (typeof body !== 'object' || body === null) return body
  if ('editais' in body && Array.isArray(body.editais)) {
    return { ...body, editais: body.editais.map((edital: unknown) => withWrongType(edital, field)) }
  }
  const value = (body as Record<string, unknown>)[field]
  return { ...body, [field]: typeof value === 'string' ? value.length : String(value) }
}
