import type { RouteKind } from '#src/api/server/route_of.ts'
import type { Fault, FaultEffect, FaultScope } from './faults.ts'

/** How faults are written on the command line, for `--help`. */
export const FAULT_HELP = `Faults, as NAME[=VALUE][,KEY=VALUE...]:
  latency=MS or MS-MS      answer late
  status=CODE              answer with this status; with retry_after=SECONDS, as=date, body=html
  reset=before_headers     reset the connection; or reset=mid_body
  truncate                 200 with half of the JSON
  wrong_type=FIELD         send FIELD with a value of another type
  ignore_offset            always answer with the first page
  clamp_limit=MAX          pages of at most MAX notices
  total=N                  report N notices too many (or, negative, too few)
  hang                     never answer
  oversize=BYTES           a JSON body of this size
  redirect=ORIGIN          302 to the same path at another origin
  pretty, bom              indented JSON; a byte order mark before it
Which requests: kind=list|notice|analysis, id=ID, company=SLUG, probability=0..1, first=N, skip=N`

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
      retryAfterAs: oneOf(parameters.get('as') ?? 'seconds', ['seconds', 'date']),
      body: oneOf(parameters.get('body') ?? 'json', ['json', 'html']),
    }
  },
  reset: value => ({
    fault: 'reset',
    when: oneOf(value || 'before_headers', ['before_headers', 'mid_body']),
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

/** Reads one fault in the form of `FAULT_HELP`. Throws an Error whose message is one sentence. */
export function parseFault(text: string): Fault {
  const [head = '', ...rest] = text.split(',')
  const [name, value] = splitPair(head)
  const parameters = new Map(rest.map(splitPair))
  const effect = Object.hasOwn(EFFECTS, name) ? EFFECTS[name] : undefined
  if (!effect) fail(`There is no fault "${name}"; there are ${Object.keys(EFFECTS).join(', ')}`)
  const own = name === 'status' ? ['retry_after', 'as', 'body'] : []
  const odd = [...parameters.keys()].find(key => !SCOPE_KEYS.includes(key) && !own.includes(key))
  if (odd !== undefined) fail(`The fault "${name}" knows no "${odd}"`)
  return { ...effect(value, parameters), ...scopeOf(parameters) }
}

function scopeOf(parameters: Parameters): FaultScope {
  const read = <T>(key: string, parse: (text: string) => T): T | undefined => {
    const text = parameters.get(key)
    return text === undefined ? undefined : parse(text)
  }
  const scope = {
    kinds: read('kind', text => [oneOf<RouteKind>(text, ['list', 'notice', 'analysis'])]),
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

function oneOf<const T extends string>(text: string, allowed: readonly T[]): T {
  return allowed.find(value => value === text) ?? fail(`"${text}" is none of ${allowed.join(', ')}`)
}

function fail(message: string): never {
  throw new Error(`${message}.`)
}

/** Numbers and booleans become text, text a number, objects text, in the document or in every listed notice. */
function withWrongType(body: unknown, field: string): unknown {
  if (typeof body !== 'object' || body === null) return body
  if ('editais' in body && Array.isArray(body.editais)) {
    return { ...body, editais: body.editais.map((edital: unknown) => withWrongType(edital, field)) }
  }
  const value = (body as Record<string, unknown>)[field]
  return { ...body, [field]: typeof value === 'string' ? value.length : String(value) }
}
