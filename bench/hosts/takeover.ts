import { randomBytes } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
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
  readonly logBytes: number
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
  const { settings, setLatency, close } = await startLogStore(join(directory, 'keys'))
  setLatency(latency)
  const host = async (name: string): Promise<Place> => {
    await mkdir(join(directory, name))
    return { server, apiKey, concurrency: CONCURRENCY, directory: join(directory, name), settings }
  }
  const [first, second] = [await host('first'), await host('second')]
  onStep('the first run')
  const full = await syncOnce(first, ['--full'], { loaded: notices })
  onStep('0.5 % changed')
  const own = await syncOnce(first, [], { loaded: await server.change(CHANGED) })
  onStep('0.5 % changed, on an empty disk')
  const before = (await segments(settings)).length
  const taken = await syncOnce(second, [], { loaded: await server.change(CHANGED) })
  const all = await segments(settings)
  await close()
  await server.close()
  return {
    fullSeconds: full.wallSeconds,
    ownSeconds: own.wallSeconds,
    firstSegmentSeconds: ((all[before]?.modified.getTime() ?? Number.NaN) - taken.startedMs) / 1000,
    seconds: taken.wallSeconds,
    logBytes: all.reduce((sum, { bytes }) => sum + bytes, 0),
  }
}

async function segments(settings: Readonly<Record<string, string>>) {
  return await withObjects(settings, store => Array.fromAsync(store.list(`${directoryKey('bench')}/`)))
}
