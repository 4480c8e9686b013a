import type { Fault, Faults } from '#src/sandbox/faults.ts'
import type { Random } from '#src/sandbox/random.ts'
import type { SandboxRequest } from '#src/sandbox/requests.ts'

/** The network faults of one run. */
export type NetworkFaults = {
  readonly plan: readonly Fault[]
  /** Whether answers of the list, or about a single notice, may be lost. */
  readonly losesAnswers: boolean
}

export const CALM: NetworkFaults = { plan: [], losesAnswers: false }

const REQUESTS = ['list', 'notice', 'analysis'] as const

/** @param pageSize the most notices that the server returns per page; null for as many as requested. */
export function drawNetworkFaults(random: Random, pageSize: number | null): NetworkFaults {
  const page: Fault[] = pageSize === null ? [] : [{ fault: 'clamp_limit', max: pageSize }]
  const latency: Fault[] = random.chance(0.3) ? [{ fault: 'latency', ms: 0, toMs: 3 }] : []
  const drawn = random.chance(0.4) ? [] : Array.from({ length: random.int(1, 3) }, () => drawFault(random))
  return { plan: [...page, ...latency, ...drawn], losesAnswers: drawn.some(losesAnswers) }
}

function losesAnswers({ fault, kinds = REQUESTS }: Fault): boolean {
  const isLost = ['status', 'reset', 'truncate', 'hang', 'redirect'].includes(fault)
  return isLost && (kinds.includes('list') || kinds.includes('notice'))
}

function drawFault(random: Random): Fault {
  const kinds = random.chance(0.4) ? [random.pick(REQUESTS)] : [...REQUESTS]
  const scope = { kinds, probability: random.pick([0.05, 0.2, 0.4]) }
  const burst = { kinds, skip: random.int(0, 20), first: random.int(1, 12) }
  const where = random.chance(0.5) ? scope : burst
  return random.weighted<Fault>([
    [{ ...where, fault: 'status', status: random.pick([500, 502, 408, 403]) }, 3],
    // For a notice itself, a 404 of the API would mean that it is deleted.
    [{ ...where, kinds: ['analysis'], fault: 'status', status: 404 }, 1],
    [{ ...where, fault: 'status', status: random.pick([429, 503]), retryAfterSeconds: 0 }, 2],
    // The 404 of a gateway proves nothing.
    [{ ...where, fault: 'status', status: where === scope ? 404 : 500, body: 'html' }, 1],
    [{ ...where, fault: 'reset', when: random.pick(['before_headers', 'mid_body']) }, 3],
    [{ kinds: ['notice'], first: random.int(4, 20), fault: 'status', status: 500 }, 1],
    [{ ...where, fault: 'truncate' }, 2],
    [{ ...where, fault: 'pretty' }, 1],
    [{ ...where, fault: 'bom' }, 1],
    [{ ...burst, kinds: ['list'], fault: 'total', by: random.int(-3, 3) }, 2],
    [{ ...burst, kinds: ['list'], fault: 'ignore_offset' }, 1],
    [{ ...burst, fault: 'redirect', origin: 'http://127.0.0.1:9' }, 0.5],
    [{ ...burst, first: 1, fault: 'hang' }, 0.5],
    [{ ...burst, first: 1, fault: 'status', status: random.pick([401, 400]) }, 0.5],
  ])
}

/**
 * Answers requests one after another, in an order that depends on what they request and not on when they arrive,
 * so the same seed gives the same simulation.
 */
export function serialise(faults: Faults, random: Random): void {
  const waiting: { request: SandboxRequest; answer: () => void }[] = []
  let _timer: NodeJS.Timeout | null = null

  function next(): void {
    _timer = null
    waiting.sort((a, b) => (key(a.request) < key(b.request) ? -1 : 1))
    const [one] = waiting.splice(random.int(0, waiting.length - 1), 1)
    one?.answer()
    if (waiting.length > 0) _timer = setTimeout(next, 1)
  }

  faults.onRequest = request =>
    new Promise(answer => {
      waiting.push({ request, answer })
      _timer ??= setTimeout(next, 1)
    })
}

function key({ kind, id, offset }: SandboxRequest): string {
  return `${kind} ${id} ${String(offset).padStart(6, '0')}`
}
