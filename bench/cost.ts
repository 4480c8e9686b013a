import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { endedChildrenCpuSeconds } from './daemon/proc.ts'
import { type Ended, run } from './processes.ts'

/** What `probe.mjs` writes about the process that it watches. */
type Probed = {
  /** User and system time of the process itself, until its exit handlers ran. */
  readonly cpuSeconds: number
  readonly peakRssBytes: number
  /** How much later than due a timer of 10 ms fired. */
  readonly loopDelayMs: { readonly p50: number; readonly p99: number; readonly max: number }
}

/** The cost of a whole command. */
export type Costed = Ended & {
  readonly wallSeconds: number
  /** From its start until it printed its result. */
  readonly printedSeconds: number
  /** User and system time of the process and its children; elsewhere than on Linux, of the process alone. */
  readonly cpuSeconds: number
  readonly peakRssBytes: number
  readonly loopDelayMs: Probed['loopDelayMs']
}

type Command = {
  readonly file: string
  readonly args: readonly string[]
  readonly nodeOptions?: readonly string[]
  readonly env?: Record<string, string>
  /** An existing directory in which it runs. */
  readonly cwd: string
  readonly onStart?: (pid: number) => void
}

const PROBE = fileURLToPath(new URL('probe.mjs', import.meta.url))

/**
 * Runs a command and measures its cost. Only one at a time: the CPU time is that of all processes that ended meanwhile.
 * @throws Error with its stderr, unless it exits with 0.
 */
export async function runCosted({
  file,
  args,
  nodeOptions = [],
  env,
  cwd,
  onStart,
}: Command): Promise<Costed> {
  const probeFile = join(cwd, 'probe.json')
  const before = endedChildrenCpuSeconds()
  const ended = await run(file, args, {
    cwd,
    nodeOptions: [...nodeOptions, '--import', PROBE],
    env: { ...env, PROBE_FILE: probeFile },
    ...(onStart ? { onStart } : {}),
  })
  const after = endedChildrenCpuSeconds()
  const { cpuSeconds, peakRssBytes, loopDelayMs } = JSON.parse(await readFile(probeFile, 'utf8')) as Probed
  return {
    ...ended,
    wallSeconds: (ended.endedMs - ended.startedMs) / 1000,
    printedSeconds: (ended.printedMs - ended.startedMs) / 1000,
    cpuSeconds: before === null || after === null ? cpuSeconds : after - before,
    peakRssBytes,
    loopDelayMs,
  }
}
