import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Verdict } from '../bars.ts'
import { checkProc } from '../daemon/proc.ts'
import { type Machine, thisMachine } from '../result.ts'
import { openHub } from './namespaces.ts'
import { sharedNetwork } from './network.ts'
import { judgeHosts } from './result.ts'
import { measureStorm, type Storm } from './storm.ts'
import { measureTakeover, type Takeover } from './takeover.ts'

export type HostsOptions = {
  readonly notices: number
  readonly latency: number
  readonly companies: number
  readonly small: number
  readonly workers: number
  readonly seconds: number
  readonly every: number
  readonly seed: string
  /** The longest time that a worker is cut off, in seconds. */
  readonly cut: number
  /** Each worker in a network namespace of its own; Linux, for root. */
  readonly namespaces?: true
}

export type HostsBench = {
  readonly machine: Machine
  readonly settings: HostsOptions
  readonly takeover: Takeover | null
  readonly storm: Storm | null
  readonly bars: readonly Verdict[]
}

/** Progress goes to stderr. With namespaces, the caller is in a hub: see enterHub. */
export async function benchHosts(options: HostsOptions, directory: string): Promise<HostsBench> {
  checkProc()
  const onStep = (step: string) => void process.stderr.write(`${step}\n`)
  const place = async (name: string) => {
    const path = join(directory, name)
    await mkdir(path)
    return path
  }
  const network = options.namespaces ? await openHub() : sharedNetwork()
  const takeover =
    options.notices > 0 ? await measureTakeover(options, await place('takeover'), onStep) : null
  const storm =
    options.companies > 0 ? await measureStorm(options, await place('storm'), network, onStep) : null
  return { machine: thisMachine(), settings: options, takeover, storm, bars: judgeHosts(takeover, storm) }
}
