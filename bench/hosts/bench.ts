import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Verdict } from '../bars.ts'
import { checkProc } from '../daemon/proc.ts'
import { type Machine, thisMachine } from '../result.ts'
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
}

export type HostsBench = {
  readonly machine: Machine
  readonly settings: HostsOptions
  readonly takeover: Takeover | null
  readonly storm: Storm | null
  readonly bars: readonly Verdict[]
}

/** Progress goes to stderr. */
export async function benchHosts(options: HostsOptions, directory: string): Promise<HostsBench> {
  checkProc()
  const onStep = (step: string) => void process.stderr.write(`${step}\n`)
  const place = async (name: string) => {
    const path = join(directory, name)
    await mkdir(path)
    return path
  }
  const takeover =
    options.notices > 0 ? await measureTakeover(options, await place('takeover'), onStep) : null
  const storm = options.companies > 0 ? await measureStorm(options, await place('storm'), onStep) : null
  return { machine: thisMachine(), settings: options, takeover, storm, bars: judgeHosts(takeover, storm) }
}
