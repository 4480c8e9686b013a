import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { sum } from '../frame/figures.ts'
import type { Environment } from '../processes/processes.ts'
import { startWorker, type Worker } from '../processes/worker.ts'
import type { Network, Place } from './network.ts'
import type { Cut } from './requests.ts'

/** A worker on a disk of its own, and with `Network.hasLinks` on a machine of its own, as far as it can see. */
type Host = {
  /** Which of the workers; its successor has the same. */
  readonly number: number
  readonly worker: Worker
  readonly dataDir: string
  readonly place: Place
}

type Options = {
  readonly workers: number
  readonly directory: string
  readonly network: Network
  /** Settings of each worker. */
  readonly env: Environment
}

/** Hosts that are lost and replaced, or cut off for a while. */
export class Fleet {
  readonly hosts: Host[] = []
  readonly cuts: Cut[] = []
  /** Of the workers of all hosts, lost ones too. */
  readonly logs: Worker['log'][] = []
  readonly #options: Options
  readonly #apart = new Map<Host, Promise<void>>()

  private constructor(options: Options) {
    this.#options = options
  }

  static async open(options: Options): Promise<Fleet> {
    const fleet = new Fleet(options)
    await Promise.all(Array.from({ length: options.workers }, (_, number) => fleet.#start(number)))
    return fleet
  }

  async #start(number: number): Promise<void> {
    const { directory, network, env } = this.#options
    const own = join(directory, `host-${number}-${performance.now()}`)
    await mkdir(own)
    const dataDir = join(own, 'data')
    const place = await network.addHost(dataDir)
    const settings = { ...env, DATA_DIR: dataDir, HTTP_HOST: place.address }
    const worker = await startWorker({ directory: own, env: settings, within: place.within })
    this.logs.push(worker.log)
    this.hosts[number] = { number, worker, dataDir, place }
  }

  /** Those that are not cut off. */
  connected(): Host[] {
    return this.hosts.filter(host => !this.#apart.has(host))
  }

  /** Loses the host with its disk; another one with an empty disk takes its place. */
  async lose({ number, worker, place, dataDir }: Host): Promise<void> {
    await place.unplug()
    await worker.kill()
    await place.remove()
    await rm(dataDir, { recursive: true, force: true })
    await this.#start(number)
  }

  /** Cuts the host off for a while. */
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

  /** Resolves when no host is cut off. */
  async joined(): Promise<void> {
    await Promise.all(this.#apart.values())
  }

  /** Resolves when every company had a run that began now or later, and left nothing to do. */
  async settled(companies: readonly { readonly slug: string }[]): Promise<void> {
    const { worker } = this.hosts[0] as Host
    // It may have been replaced just now.
    while (!(await fetch(`${worker.url}/readyz`)).ok) await sleep(500)
    const sinceMs = Date.now()
    for (const { slug } of companies) await worker.requestSync(slug)
    const isSettled = ({ slug }: { readonly slug: string }) =>
      this.hosts.some(host =>
        host.worker.log.runs.some(
          ({ company, status, started_at }) =>
            company === slug && status === 'ok' && Date.parse(started_at) >= sinceMs,
        ),
      )
    while (!companies.every(isSettled)) await Promise.race(this.hosts.map(host => host.worker.next()))
  }

  /** Stops all workers. */
  async stop(): Promise<void> {
    for (const { worker } of this.hosts) await worker.stop()
  }

  /** How many runs ended because another host had taken their company over. */
  takenOver(): number {
    return sum(this.logs.map(({ takenOver }) => takenOver))
  }
}
