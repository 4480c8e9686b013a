import { join } from 'node:path'
import { checkpointsKey } from '#src/extras/shared_log/checkpoints.ts'
import { directoryKey } from '#src/extras/shared_log/segments.ts'
import { companyOf, startApi } from '../company/api.ts'
import { type Place, placeOf } from '../company/place.ts'
import { AT_ONCE, syncChanged, syncOnce } from '../company/runs.ts'
import { type Figure, figure, megabytes, most, sum } from '../frame/figures.ts'
import { type Bench, count, flag, situation } from '../frame/situation.ts'
import { enterHub, openHub } from '../hosts/namespaces.ts'
import { sharedNetwork } from '../hosts/network.ts'
import { measureStorm } from '../hosts/storm.ts'
import { startStore, withObjects } from '../processes/store.ts'

export const hosts = situation({
  name: 'hosts',
  about:
    'Hosts that share the raw log in an object store: how soon one with an empty disk continues a company, and whether companies stay right while workers are killed with their disks and the store is paused.',
  options: {
    notices: count('size of the company that is taken over; 0 skips this', 20_000, 0),
    latency: count('latency of each answer of the object store, in ms', 20, 0),
    companies: count('companies in the storm; 0 skips it', 40, 0),
    small: count('size of these companies', 100),
    workers: count('workers in the storm, each with a disk of its own', 3, 2),
    seconds: count('how long the storm lasts', 600),
    every: count('seconds between two losses of a host', 20),
    cut: count('longest time that a host is cut off, in seconds', 90),
    namespaces: flag(
      'each worker of the storm in a network namespace and on a mount of its own; some are also cut off for a while. Needs Linux, root, and ip (iproute2)',
    ),
  },
  needsProc: true,
  async enter({ namespaces }) {
    if (namespaces) await enterHub()
  },
  async measure(bench, options) {
    const { notices, companies, namespaces } = options
    const network = namespaces ? await openHub() : sharedNetwork()
    return [
      ...(notices > 0 ? await measureTakeover(bench, await bench.folder('takeover'), options) : []),
      ...(companies > 0 ? await measureStorm(bench, options, network) : []),
    ]
  },
})

type Options = { readonly notices: number; readonly latency: number; readonly seed: string }

/** A company that continues on another host. */
async function measureTakeover(bench: Bench, directory: string, options: Options): Promise<Figure[]> {
  const { notices, latency } = options
  bench.step(`${notices} notices: generating`)
  const company = companyOf(options)
  const api = await startApi([company])
  const store = await startStore(directory)
  await store.setLatency(latency)
  const settings = { ...store.settings, ...AT_ONCE, LOG_URL: store.url }
  const host = (name: string) => placeOf(join(directory, name), { ...company, url: api.url }, settings)
  const [first, second, third] = [await host('first'), await host('second'), await host('third')]
  const segments = () =>
    withObjects(settings, objects => Array.fromAsync(objects.list(`${directoryKey('bench')}/`)))
  bench.step('the first run')
  const full = await syncOnce(api, first, { loaded: notices, full: true })
  const counting = async <T>(work: () => Promise<T>) => {
    await store.counts()
    return { run: await work(), requests: (await store.counts()).requests }
  }
  bench.step('nothing changed')
  const nothing = await counting(() => syncOnce(api, first, { loaded: 0 }))
  bench.step('0.5 % changed')
  const own = await counting(() => syncChanged(api, first))
  /** Takes the company over, and measures the time to the first segment that this host seals. */
  const takeOver = async (place: Place) => {
    const before = (await segments()).length
    const { run, requests } = await counting(() => syncChanged(api, place))
    const sealedMs = (await segments())[before]?.modified.getTime() ?? Number.NaN
    return { run, requests, firstSegmentSeconds: (sealedMs - run.startedMs) / 1000 }
  }
  bench.step('0.5 % changed, on an empty disk')
  const taken = await takeOver(second)
  bench.step('0.5 % changed, on an empty disk, without checkpoints')
  const checkpoints = await withObjects(settings, async objects => {
    const keys = await Array.fromAsync(objects.list(`${checkpointsKey('bench')}/`))
    await objects.remove(keys.map(({ key }) => key))
    return keys.length
  })
  // A small company has none, so it was taken over from its log just now.
  const rebuilt = checkpoints > 0 ? await takeOver(third) : taken
  const logBytes = sum((await segments()).map(({ bytes }) => bytes))
  await store.close()
  await api.close()
  const size = `${notices.toLocaleString('en-US')} notices, ${latency} ms`
  const { wallSeconds } = taken.run
  const [seconds, fromLog] = [taken.firstSegmentSeconds, rebuilt.firstSegmentSeconds]
  return [
    figure('full_seconds', `${size}: first run, s`, 1, full.wallSeconds),
    figure('own_seconds', '0.5 % changed, on the same host, s', 1, own.run.wallSeconds),
    figure('taken_seconds', '0.5 % changed, on an empty disk, s', 1, wallSeconds),
    figure('first_segment_seconds', 'an empty disk: to its first segment, s', 1, seconds, most(15)),
    figure('from_log_seconds', '… the same without a checkpoint, from the log, s', 1, fromLog),
    figure('nothing_requests', 'requests to the store: nothing changed', 0, nothing.requests),
    figure('own_requests', '… 0.5 % changed', 0, own.requests),
    figure('taken_requests', '… 0.5 % changed, on an empty disk', 0, taken.requests),
    figure('log_megabytes', 'size of the log, MB', 0, megabytes(logBytes)),
  ]
}
