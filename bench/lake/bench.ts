import { randomBytes } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Verdict } from '../bars.ts'
import type { Costed } from '../cost.ts'
import { median } from '../figures.ts'
import { type Server, startServer } from '../processes.ts'
import { type Machine, thisMachine } from '../result.ts'
import { type Place, runLake, syncOnce } from '../sync_run.ts'
import { judgeLake } from './result.ts'
import { type Store, startStore } from './store.ts'

export type LakeOptions = {
  readonly notices: number
  readonly latency: number
  readonly formats: string
  readonly snapshots: number
  readonly small: number
  readonly runs: number
  readonly seed: string
}

/** Wall seconds of runs, until the report; and until the object store has it. Objects of one publish with 0.5 % changed. */
export type Compared = {
  readonly firstSeconds: number
  readonly firstWithStoreSeconds: number
  readonly firstPublishedSeconds: number
  readonly seconds: number
  readonly withStoreSeconds: number
  readonly publishedSeconds: number
  readonly requests: number
  readonly written: number
  readonly dataFiles: number
  readonly tables: number
}

/** Over many snapshots of a small company; seconds of a run, bytes of metadata of a table. */
export type Lasting = {
  readonly firstSeconds: number
  readonly lastSeconds: number
  readonly metadataBytes: number
  readonly metadataBytesAfterVacuum: number
  readonly vacuumSeconds: number
  readonly verifySeconds: number
}

export type LakeBench = {
  readonly machine: Machine
  readonly settings: LakeOptions
  readonly compared: Compared
  readonly lasting: Lasting | null
  readonly bars: readonly Verdict[]
}

const CONCURRENCY = 16
const CHANGED = 0.005
/** Runs at the beginning and at the end that are compared. */
const ENDS = 20

/** Progress goes to stderr. */
export async function benchLake(options: LakeOptions, directory: string): Promise<LakeBench> {
  const onStep = (step: string) => void process.stderr.write(`${step}\n`)
  const compared = await compare(options, join(directory, 'compared'), onStep)
  const lasting = options.snapshots > 0 ? await last(options, join(directory, 'lasting'), onStep) : null
  const bars = judgeLake(compared, lasting)
  return { machine: thisMachine(), settings: options, compared, lasting, bars }
}

type Company = {
  readonly server: Server
  readonly store: Store
  readonly plain: Place
  readonly published: Place
}

async function prepare(options: LakeOptions, notices: number, directory: string): Promise<Company> {
  const apiKey = randomBytes(16).toString('hex')
  const server = await startServer({ companies: [{ notices, seed: options.seed, apiKey }], latencyMs: 0 })
  const store = await startStore(join(directory, 'keys'), options.formats)
  const [plain, published] = [join(directory, 'plain'), join(directory, 'published')]
  await Promise.all([plain, published].map(path => mkdir(path, { recursive: true })))
  const place = { server, apiKey, concurrency: CONCURRENCY }
  return {
    server,
    store,
    plain: { ...place, directory: plain },
    published: { ...place, directory: published, settings: store.settings },
  }
}

async function compare(
  options: LakeOptions,
  directory: string,
  onStep: (step: string) => void,
): Promise<Compared> {
  const { notices, latency, runs } = options
  onStep(`${notices} notices: generating`)
  const { server, store, plain, published } = await prepare(options, notices, directory)
  store.setLatency(latency)
  onStep('first runs')
  const first = await syncOnce(plain, ['--full'], { loaded: notices })
  const firstWithStore = await syncOnce(published, ['--full'], { loaded: notices })
  await store.counts()
  const seconds: number[] = []
  const withStore: Costed[] = []
  let counts = await store.counts()
  for (let run = 0; run < runs; run += 1) {
    onStep(`0.5 % changed (${run + 1} of ${runs})`)
    const loaded = await server.change(CHANGED)
    const one = async () => seconds.push((await syncOnce(plain, [], { loaded })).printedSeconds)
    const other = async () => withStore.push(await syncOnce(published, [], { loaded }))
    // In turn, because a machine slows down for moments.
    for (const each of run % 2 === 0 ? [one, other] : [other, one]) await each()
    counts = await store.counts()
  }
  await store.close()
  await server.close()
  return {
    firstSeconds: first.printedSeconds,
    firstWithStoreSeconds: firstWithStore.printedSeconds,
    firstPublishedSeconds: firstWithStore.wallSeconds,
    seconds: median(seconds),
    withStoreSeconds: median(withStore.map(({ printedSeconds }) => printedSeconds)),
    publishedSeconds: median(withStore.map(({ wallSeconds }) => wallSeconds)),
    requests: counts.requests,
    written: counts.written.length,
    dataFiles: counts.written.filter(key => /\/data\//.test(key)).length,
    tables: tablesIn(counts.objects.map(({ key }) => key)).size,
  }
}

function tablesIn(keys: readonly string[]): ReadonlySet<string> {
  return new Set(keys.flatMap(key => /\/lake\/([^/]+)\//.exec(key)?.[1] ?? []))
}

async function last(
  options: LakeOptions,
  directory: string,
  onStep: (step: string) => void,
): Promise<Lasting> {
  const { snapshots, small } = options
  const { server, store, published } = await prepare(options, small, directory)
  await syncOnce(published, ['--full'], { loaded: small })
  const seconds: number[] = []
  for (let count = 1; count < snapshots; count += 1) {
    if (count % 50 === 0) onStep(`${count} snapshots`)
    const loaded = await server.change(1 / small)
    seconds.push((await syncOnce(published, [], { loaded })).wallSeconds)
  }
  onStep('vacuum')
  const before = await store.counts()
  const verify = await runLake(published, ['verify'])
  const place = { ...published, settings: { ...published.settings, LAKE_KEEP: '0s' } }
  const vacuum = await runLake(place, ['vacuum'])
  const after = await store.counts()
  await runLake(published, ['verify'])
  await store.close()
  await server.close()
  return {
    firstSeconds: median(seconds.slice(0, ENDS)),
    lastSeconds: median(seconds.slice(-ENDS)),
    metadataBytes: metadataOfATable(before.objects),
    metadataBytesAfterVacuum: metadataOfATable(after.objects),
    vacuumSeconds: vacuum.wallSeconds,
    verifySeconds: verify.wallSeconds,
  }
}

/** Of the table that has most: its newest `metadata.json`. */
function metadataOfATable(objects: readonly { readonly key: string; readonly bytes: number }[]): number {
  const newest = new Map<string, { version: number; bytes: number }>()
  for (const { key, bytes } of objects) {
    const [, table, version] = /\/lake\/([^/]+)\/metadata\/v(\d+)\.metadata\.json$/.exec(key) ?? []
    if (table === undefined || Number(version) <= (newest.get(table)?.version ?? 0)) continue
    newest.set(table, { version: Number(version), bytes })
  }
  return Math.max(0, ...[...newest.values()].map(({ bytes }) => bytes))
}
