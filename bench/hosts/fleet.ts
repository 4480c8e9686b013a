import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Run, startWorker, type Worker } from '../daemon/worker.ts'
import type { Network, Place } from './network.ts'

/** A worker on a disk of its own, and with `Network.hasLinks` on a machine of its own, as far as it can see. */
export type Host = {
  /** Which of the workers; its successor has the same. */
  readonly number: number
  readonly worker: Worker
  readonly dataDir: string
  readonly place: Place
}

/** When a host was cut off. */
export type Cut = { readonly address: string; readonly fromMs: number; readonly toMs: number }

export type Fleet = {
  readonly hosts: readonly Host[]
  readonly cuts: readonly Cut[]
  /** Those that are not cut off. */
  connected(): Host[]
  /** Loses the host with its disk; another one with an empty disk takes its place. */
  lose(host: Host): Promise<void>
  /** Cuts the host off for a while. */
  cut(host: Host, ms: number): Promise<void>
  /** Resolves when no host is cut off. */
  joined(): Promise<void>
  /** Stops all workers. */
  stop(): Promise<void>
  /** Those that ended on any host, lost ones too, in the order of their start. */
  runs(): Run[]
  /** How many runs ended because another host had taken their company over. */
  takenOver(): number
}

/** @param env settings of each worker. */
export async function openFleet(options: {
  workers: number
  directory: string
  network: Network
  env: Readonly<Record<string, string>>
}): Promise<Fleet> {
  const { workers, directory, network, env } = options
  let disks = 0
  const start = async (number: number): Promise<Host> => {
    const own = join(directory, `host-${number}-${disks++}`)
    await mkdir(own)
    const dataDir = join(own, 'data')
    const place = await network.addHost(dataDir)
    const settings = { ...env, DATA_DIR: dataDir, HTTP_HOST: place.address }
    const worker = await startWorker({ directory: own, env: settings, within: place.within })
    return { number, worker, dataDir, place }
  }
  const numbers = Array.from({ length: workers }, (_, index) => index)
  return new Hosts(await Promise.all(numbers.map(start)), start)
}

class Hosts implements Fleet {
  readonly hosts: Host[]
  readonly cuts: Cut[] = []
  readonly #start: (number: number) => Promise<Host>
  readonly #apart = new Map<Host, Promise<void>>()
  readonly #runs: Run[] = []
  #takenOver = 0

  constructor(hosts: Host[], start: (number: number) => Promise<Host>) {
    this.hosts = hosts
    this.#start = start
  }

  connected(): Host[] {
    return this.hosts.filter(host => !this.#apart.has(host))
  }

  async lose({ number, worker, place, dataDir }: Host): Promise<void> {
    await place.unplug()
    await worker.kill()
    await place.remove()
    await rm(dataDir, { recursive: true, force: true })
    this.#count(worker)
    this.hosts[number] = await this.#start(number)
  }

  async cut(host: Host, ms: number): Promise<void> {
    const { address, cut, join } = host.place
    const fromMs = Date.now()
    await cut()
    const over = sleep(ms).then(async () => {
      await join()
      this.cuts.push({ address, fromMs, toMs: Date.now() })
      this.#apart.delete(host)
    })
    this.#apart.set(host, over)
  }

  async joined(): Promise<void> {
    await Promise.all(this.#apart.values())
  }

  async stop(): Promise<void> {
    for (const { worker } of this.hosts) {
      await worker.stop()
      this.#count(worker)
    }
  }

  #count({ runs, takenOver }: Worker): void {
    this.#runs.push(...runs)
    this.#takenOver += takenOver()
  }

  takenOver(): number {
    return this.#takenOver
  }

  runs(): Run[] {
    return this.#runs.sort((a, b) => Date.parse(a.started_at) - Date.parse(b.started_at))
  }
}
