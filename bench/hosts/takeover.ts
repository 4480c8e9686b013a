import { randomBytes } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { checkpointsKey } from '#src/store/shared_log/checkpoints.ts'
import { directoryKey } from '#src/store/shared_log/segments.ts'
import { startServer } from '../processes.ts'
import { type Place, syncOnce } from '../sync_run.ts'
import type { HostsOptions } from './bench.ts'
import { startLogStore, withObjects } from './store.ts'

/** A company that continues on another host; seconds. */
export type Takeover = {
  /** The first run, on the first host. */
  readonly fullSeconds: number
  /** A run on that host, 0.5 % changed. */
  readonly ownSeconds: number
  /** Of the same kind, on a host with an empty disk: to its first sealed segment, and to its end. */
  readonly firstSegmentSeconds: number
  readonly seconds: number
  /** To the first sealed segment if there is no checkpoint: the warehouse is rebuilt from the log. */
  readonly fromLogSeconds: number
  readonly logBytes: number
  /** Requests to the store by a run that finds nothing, one with 0.5 % changed, and that one on an empty disk. */
  readonly requests: { readonly nothing: number; readonly own: number; readonly taken: number }
}

const CONCURRENCY = 16
const CHANGED = 0.005

export async function measureTakeover(
  { notices, latency, seed }: HostsOptions,
  directory: string,
  onStep: (step: string) => void,
): Promise<Takeover> {
  onStep(`${notices} notices: generating`)
  const apiKey = randomBytes(16).toString('hex')
  const server = await startServer({ companies: [{ notices, seed, apiKey }], latencyMs: 0 })
  const { settings, setLatency, counts, close } = await startLogStore(join(directory, 'keys'))
  setLatency(latency)
  const host = async (name: string): Promise<Place> => {
    await mkdir(join(directory, name))
    return { server, apiKey, concurrency: CONCURRENCY, directory: join(directory, name), settings }
  }
  const [first, second, third] = [await host('first'), await host('second'), await host('third')]
  onStep('the first run')
  const full = await syncOnce(first, ['--full'], { loaded: notices })
  const counting = async <T>(work: Promise<T>) => {
    const done = await work
    return { done, requests: (await counts()).requests }
  }
  onStep('nothing changed')
  await counts()
  const nothing = await counting(syncOnce(first, [], { loaded: 0 }))
  onStep('0.5 % changed')
  const own = await counting(syncOnce(first, [], { loaded: await server.change(CHANGED) }))
  const untilFirst = async (place: Place) => {
    const before = (await segments(settings)).length
    await counts()
    const { done: run, requests } = await counting(
      syncOnce(place, [], { loaded: await server.change(CHANGED) }),
    )
    const all = await segments(settings)
    const sealedMs = all[before]?.modified.getTime() ?? Number.NaN
    return { run, firstSegmentSeconds: (sealedMs - run.startedMs) / 1000, all, requests }
  }
  onStep('0.5 % changed, on an empty disk')
  const taken = await untilFirst(second)
  onStep('0.5 % changed, on an empty disk, without checkpoints')
  await withObjects(settings, async store => {
    const keys = await Array.fromAsync(store.list(`${checkpointsKey('bench')}/`))
    if (keys.length === 0) throw new Error('There was no checkpoint to continue from.')
    await store.remove(keys.map(({ key }) => key))
  })
  const rebuilt = await untilFirst(third)
  await close()
  await server.close()
  return {
    fullSeconds: full.wallSeconds,
    ownSeconds: own.done.wallSeconds,
    firstSegmentSeconds: taken.firstSegmentSeconds,
    seconds: taken.run.wallSeconds,
    fromLogSeconds: rebuilt.firstSegmentSeconds,
    requests: { nothing: nothing.requests, own: own.requests, taken: taken.requests },
    logBytes: rebuilt.all.reduce((sum, { bytes }) => sum + bytes, 0),
  }
}

async function segments(settings: Readonly<Record<string, string>>) {
  return await withObjects(settings, store => Array.fromAsync(store.list(`${directoryKey('bench')}/`)))
}
