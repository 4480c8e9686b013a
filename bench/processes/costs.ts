import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { endedChildrenCpuSeconds } from '#tools/proc.ts'
import { type Around, type Ended, type Program, run } from './processes.ts'

/** The file that `probe.mjs` writes about the process that it watches. */
type Probed = {
  /** User and system time of the process itself, until its exit handlers ran. */
  readonly cpuSeconds: number
  readonly peakRssBytes: number
  /** How much later than due a timer of 10 ms fired, p99. */
  readonly loopDelayMs: number
}

/** The cost of a whole command: CPU time with its children; elsewhere than on Linux, of the process alone. */
export type Costed = Ended &
  Probed & {
    readonly wallSeconds: number
    /** From its start until it printed its result. */
    readonly printedSeconds: number
  }

const PROBE = fileURLToPath(new URL('probe.mjs', import.meta.url))

/**
 * Runs a program and measures its cost. Only one at a time: the CPU time is that of all processes that ended meanwhile.
 * @throws Error with its stderr, unless it exits with 0.
 */
export async function runCosted(program: Program, around: Around): Promise<Costed> {
  const probeFile = join(around.directory, 'probe.json')
  const before = endedChildrenCpuSeconds()
  const ended = await run(['--import', PROBE, ...program], {
    ...around,
    env: { ...around.env, PROBE_FILE: probeFile },
  })
  const after = endedChildrenCpuSeconds()
  const probed = JSON.parse(await readFile(probeFile, 'utf8')) as Probed
  return {
    ...ended,
    ...probed,
    wallSeconds: (ended.endedMs - ended.startedMs) / 1000,
    printedSeconds: (ended.printedMs - ended.startedMs) / 1000,
    cpuSeconds: before === null || after === null ? probed.cpuSeconds : after - before,
  }
}
