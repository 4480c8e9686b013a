import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Settings } from '#config/settings.ts'
import { createRandom, type Random } from '#src/sandbox/random.ts'
import { type CatalogRequest, type CatalogServer, startCatalog } from '#tools/iceberg_catalog.ts'
import { BUCKET, type S3Request, type S3Server, startS3, writeCredentials } from '#tools/s3_server.ts'
import { Dead } from '../crash_point.ts'
import type { RemoteStep } from './steps.ts'

/** An object store, and perhaps a catalog, of a simulated company: their requests are steps at which a run may die. */

const PREFIX = 'simulated'
/** Keys of the company's objects begin with it. */
export const LAKE = `${PREFIX}/acme/lake`

/** How the store and the catalog behave during one operation. */
export type StoreFaults = 'none' | 'flaky' | 'down later' | 'down'

export type SimulatedStore = {
  readonly s3: S3Server
  readonly catalog: CatalogServer | null
  readonly environment: Readonly<Record<string, string>>
  faults: StoreFaults
  /** How wrong the catalog's clock is. */
  readonly catalogAheadMs: number
  /** Called before and after each write; throws Dead if the process died there. */
  reach: (step: RemoteStep, when: 'before' | 'after') => void
  /** Between two requests, when nothing is under way: what a reader sees then. */
  look: (step: RemoteStep | null) => Promise<void>
  close(): void
}

/** Four worlds in five have none. */
export async function openStore(
  seed: string,
  place: string,
  now: () => Date,
): Promise<SimulatedStore | null> {
  const random = createRandom(`store ${seed}`)
  if (!random.chance(0.2)) return null
  const s3 = await startS3()
  const has = (address: string) => s3.objects.has(address.slice(`s3://${BUCKET}/`.length))
  const catalog = random.chance(0.35) ? await startCatalog(has) : null
  const formats = random.pick(['iceberg', 'delta', 'iceberg,delta'])
  const store: SimulatedStore = {
    s3,
    catalog,
    environment: {
      LAKE_URL: `s3://${BUCKET}/${PREFIX}`,
      LAKE_FORMATS: catalog ? 'iceberg' : formats,
      LAKE_KEEP: random.pick(['0s', '24h']),
      LAKE_PUBLISH_INTERVAL: random.pick(['0s', '0s', '2h']),
      S3_ENDPOINT: s3.url,
      S3_CREDENTIALS_FILE: await writeCredentials(join(place, 'credentials'), 'simulated'),
      ...(catalog ? { ICEBERG_CATALOG_URI: catalog.uri, ICEBERG_WAREHOUSE: 'bi' } : {}),
    },
    faults: 'none',
    catalogAheadMs: createRandom(`clock ${seed}`).pick([0, 0, 5 * 60_000, 26 * 3_600_000]),
    reach: () => {},
    look: async () => {},
    close() {
      s3.close()
      catalog?.close()
    },
  }
  if (catalog) catalog.hasTransactions = random.chance(0.6)
  connect(store, random, now)
  return store
}

/** Without waiting between retries. */
export function inNoTime(settings: Settings): Settings {
  const { remoteLake, remoteLog } = settings
  const catalog = remoteLake?.catalog && { ...remoteLake.catalog, retryMs: 0 }
  return {
    ...settings,
    remoteLake: remoteLake && { ...remoteLake, catalog: catalog ?? null, retryMs: 0 },
    remoteLog: remoteLog && { ...remoteLog, retryMs: 0 },
  }
}

function connect(store: SimulatedStore, random: Random, now: () => Date): void {
  const { s3, catalog } = store
  const gate = oneByOne(createRandom(random.hex(16)))
  let last: RemoteStep | null = null
  let seen = 0
  const faultOf = (step: RemoteStep | null) => {
    seen = store.faults === 'none' ? 0 : seen + 1
    last = step
    try {
      if (step) store.reach(step, 'before')
    } catch (error) {
      return droppedIf(error, 'drop')
    }
    const fault = drawFault(random, store.faults, seen)
    try {
      // What was carried out before the process died no longer gets an answer.
      if (step && typeof fault !== 'number' && fault !== 'drop') store.reach(step, 'after')
    } catch (error) {
      return droppedIf(error, 'lose')
    }
    return fault
  }
  s3.now = now
  s3.gate = async request => {
    await gate(`${request.method} ${request.key}`)
    const before = last
    last = null
    await store.look(before)
  }
  s3.fault = request => faultOf(stepOf(request))
  if (!catalog) return
  catalog.now = () => new Date(now().getTime() + store.catalogAheadMs)
  catalog.gate = async ({ method, path }) => {
    await gate(`${method} ${path}`)
    const before = last
    last = null
    await store.look(before)
  }
  catalog.fault = request => {
    const fault = faultOf(commitOf(request))
    // A catalog does not answer 409 without a reason.
    return fault === 409 ? 503 : fault
  }
}

/** The connections of a dead process end. */
function droppedIf(error: unknown, fault: 'drop' | 'lose') {
  if (error instanceof Dead) return fault
  throw error
}

/** How many requests a store answers before it goes down later. */
const UNTIL_DOWN = 60

function drawFault(random: Random, faults: StoreFaults, seen: number) {
  // Drawn each time, so that the sequence does not depend on it.
  const fault = random.pick(['lose', 'lose', 'drop', 500, 503, 409] as const)
  const isNow = random.chance(0.08)
  if (faults === 'down' || (faults === 'down later' && seen > UNTIL_DOWN)) return 503
  return faults === 'flaky' && isNow ? fault : null
}

function stepOf({ method, key }: S3Request): RemoteStep | null {
  if (method !== 'PUT') return null
  if (key.endsWith('/latest.json')) return 'remote.latest'
  if (/\/data\/[^/]+$/.test(key)) return 'remote.upload'
  return /\/v\d+\.metadata\.json$|\/_delta_log\/\d+\.json$/.test(key) ? 'remote.commit' : 'remote.metadata'
}

function commitOf({ method, path }: CatalogRequest): RemoteStep | null {
  if (method !== 'POST') return null
  return path.endsWith('/transactions/commit') || /\/tables\/[^/]+$/.test(path)
    ? 'remote.commit'
    : 'remote.metadata'
}

/**
 * Lets requests pass one after another, in an order that depends on what they request and not on when they arrive, so
 * that the same seed gives the same simulation.
 */
function oneByOne(random: Random): (what: string) => Promise<void> {
  const waiting: { what: string; pass: () => void }[] = []
  let isOpen = false
  const run = async () => {
    isOpen = true
    for (;;) {
      await sleep(1)
      if (waiting.length === 0) break
      waiting.sort((a, b) => (a.what < b.what ? -1 : 1))
      const [one] = waiting.splice(random.int(0, waiting.length - 1), 1)
      one?.pass()
    }
    isOpen = false
  }
  return what =>
    new Promise(pass => {
      waiting.push({ what, pass })
      if (!isOpen) void run()
    })
}
