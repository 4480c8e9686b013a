import { join } from 'node:path'
import { type Api, companyOf, startApi } from '../company/api.ts'
import { type Place, placeOf, runAt } from '../company/place.ts'
import { AT_ONCE, CHANGED_SHARE, syncOnce } from '../company/runs.ts'
import { type Figure, figure, median, most } from '../frame/figures.ts'
import { type Bench, count, type Given, ROUNDS, situation } from '../frame/situation.ts'
import { type Store, startStore } from '../processes/store.ts'

/** A run may take this much longer if there is an object store; and so may the last one of many. */
const MAX_RATIO = 1.2
const MAX_FILES_RATIO = 1.2
/** For each table, besides its data files. */
const MAX_OBJECTS_PER_TABLE = 3
const MOST_OBJECTS = `${MAX_FILES_RATIO} times the data files and ${MAX_OBJECTS_PER_TABLE} per table`
/** Runs at the beginning and at the end that are compared. */
const ENDS = 20

const OPTIONS = {
  notices: count('size of the company that is compared', 20_000),
  latency: count('latency of each answer of the object store, in ms', 20, 0),
  snapshots: count('snapshots of the second company; 0 skips it', 300, 0),
  small: count('size of the second company', 400),
  ...ROUNDS,
}
type Options = Given<typeof OPTIONS>

export const lake = situation({
  name: 'lake',
  about:
    'Runs that also publish to an object store in another process, as Iceberg and Delta tables: how much longer a run takes with 0.5 % changed, how many objects it writes, and whether that stays so over many snapshots.',
  options: OPTIONS,
  async measure(bench, options) {
    const compared = await compare(options, bench)
    return [...compared, ...(options.snapshots > 1 ? await repeat(options, bench) : [])]
  },
})

type Published = {
  readonly api: Api
  readonly store: Store
  /** Without the store, and with it. */
  readonly plain: Place
  readonly published: Place
}

async function prepare({ seed }: Options, notices: number, directory: string): Promise<Published> {
  const company = companyOf({ notices, seed })
  const api = await startApi([company])
  const store = await startStore(join(directory, 'keys'))
  const remote = { ...store.settings, LAKE_URL: store.url, LAKE_FORMATS: 'iceberg,delta' }
  const about = { ...company, url: api.url }
  return {
    ...{ api, store },
    plain: await placeOf(join(directory, 'plain'), about, AT_ONCE),
    published: await placeOf(join(directory, 'published'), about, { ...AT_ONCE, ...remote }),
  }
}

async function compare(options: Options, bench: Bench): Promise<Figure[]> {
  const { notices, latency } = options
  bench.step(`${notices} notices: generating`)
  const { api, store, plain, published } = await prepare(options, notices, await bench.folder('compared'))
  await store.setLatency(latency)
  bench.step('first runs')
  const first = await syncOnce(api, plain, { loaded: notices, full: true })
  const firstPublished = await syncOnce(api, published, { loaded: notices, full: true })
  await store.counts()
  const changed = await bench.rounds(async (within, round) => {
    within.step('0.5 % changed')
    return await compareOnce({ api, store, plain, published }, round)
  })
  await store.close()
  await api.close()
  return [
    figure('first_seconds', 'full run, s', 1, first.printedSeconds),
    figure('first_with_store_seconds', 'full run with an object store, s', 1, firstPublished.printedSeconds),
    figure('first_published_seconds', '… until the store has it, s', 1, firstPublished.wallSeconds),
    ...changed,
  ]
}

/** Both runs in turn, because a machine slows down for moments. */
async function compareOnce({ api, store, plain, published }: Published, round: number): Promise<Figure[]> {
  const loaded = await api.change(CHANGED_SHARE)
  const one = () => syncOnce(api, plain, { loaded })
  const other = () => syncOnce(api, published, { loaded })
  const before = round % 2 === 1 ? await one() : null
  const withStore = await other()
  const without = before ?? (await one())
  const { requests, written, objects } = await store.counts()
  const dataFiles = written.filter(key => /\/data\//.test(key)).length
  const tables = new Set(objects.flatMap(({ key }) => /\/lake\/([^/]+)\//.exec(key)?.[1] ?? [])).size
  const mostObjects = Math.floor(MAX_FILES_RATIO * dataFiles + MAX_OBJECTS_PER_TABLE * tables)
  const ratio = withStore.printedSeconds / without.printedSeconds
  return [
    figure('seconds', '0.5 % changed, s', 2, without.printedSeconds),
    figure('with_store_seconds', '0.5 % changed, with an object store, s', 2, withStore.printedSeconds),
    figure('ratio', '0.5 % changed: a run with an object store, of one without', 2, ratio, most(MAX_RATIO)),
    figure('published_seconds', '… until the store has it, s', 2, withStore.wallSeconds),
    figure('requests', '… requests to the store', 0, requests),
    figure('written', '… objects written', 0, written.length),
    figure('data_files', '… of these data files', 0, dataFiles),
    figure('tables', 'tables', 0, tables),
    figure('written_ratio', `objects written, of ${MOST_OBJECTS}`, 2, written.length / mostObjects, most(1)),
  ]
}

/** Many snapshots of a small company. */
async function repeat(options: Options, bench: Bench): Promise<Figure[]> {
  const { snapshots, small } = options
  const { api, store, published } = await prepare(options, small, await bench.folder('repeated'))
  await syncOnce(api, published, { loaded: small, full: true })
  const seconds: number[] = []
  for (let count = 1; count < snapshots; count += 1) {
    if (count % 50 === 0) bench.step(`${count} snapshots`)
    const loaded = await api.change(1 / small)
    seconds.push((await syncOnce(api, published, { loaded })).wallSeconds)
  }
  bench.step('vacuum')
  const before = await store.counts()
  const verify = await runAt(published, 'lake', ['verify'])
  const keepingNone = { ...published, env: { ...published.env, LAKE_KEEP: '0s' } }
  const vacuum = await runAt(keepingNone, 'lake', ['vacuum'])
  const after = await store.counts()
  await runAt(published, 'lake', ['verify'])
  await store.close()
  await api.close()
  const [first, last] = [median(seconds.slice(0, ENDS)), median(seconds.slice(-ENDS))]
  const kilobytes = (bytes: number) => bytes / 1000
  return [
    figure('repeated_first_seconds', `${small} notices, ${snapshots} snapshots: first runs, s`, 2, first),
    figure('repeated_last_seconds', '… last runs, s', 2, last),
    figure('repeated_ratio', 'the last publishes, of the first ones', 2, last / first, most(MAX_RATIO)),
    figure(
      'metadata_kilobytes',
      '… largest metadata.json, kB',
      0,
      kilobytes(largestMetadata(before.objects)),
    ),
    figure('metadata_after_kilobytes', '… after a vacuum, kB', 0, kilobytes(largestMetadata(after.objects))),
    figure('verify_seconds', '… verify, s', 1, verify.wallSeconds),
    figure('vacuum_seconds', '… vacuum, s', 1, vacuum.wallSeconds),
  ]
}

/** The largest of the newest `metadata.json` of each table. */
function largestMetadata(objects: readonly { readonly key: string; readonly bytes: number }[]): number {
  const newest = new Map<string, { version: number; bytes: number }>()
  for (const { key, bytes } of objects) {
    const [, table, version] = /\/lake\/([^/]+)\/metadata\/v(\d+)\.metadata\.json$/.exec(key) ?? []
    if (table === undefined || Number(version) <= (newest.get(table)?.version ?? 0)) continue
    newest.set(table, { version: Number(version), bytes })
  }
  return Math.max(0, ...[...newest.values()].map(({ bytes }) => bytes))
}
