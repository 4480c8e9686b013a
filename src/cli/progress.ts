import { Listr, ListrLogger, type ListrTaskWrapper, ProcessOutput } from 'listr2'
import type { Logger } from 'pino'
import type { Progress } from '#src/run.ts'

/** What a running command shows of itself. */
export type Display = {
  progress(progress: Progress): void
  note(text: string): void
  /** The display is final and the terminal free again. */
  end(): Promise<void>
}

const STAGES = ['open', 'scan', 'fetch', 'load', 'publish'] as const
type Stage = (typeof STAGES)[number]
const TITLES: Record<Stage, string> = {
  open: 'Open the warehouse',
  scan: 'Scan the list',
  fetch: 'Fetch analyses',
  load: 'Load into the warehouse',
  publish: 'Publish the snapshot',
}
/** A log needs to show that a long run lives, not each of its thousands of steps. */
const LOG_INTERVAL_MS = 5000

/** A live line per stage on a terminal, log lines elsewhere. */
export function createDisplay(options: { terminal: boolean; log: Logger; nowMs: () => number }): Display {
  return options.terminal ? liveDisplay(options.nowMs) : logDisplay(options.log, options.nowMs)
}

function logDisplay(log: Logger, nowMs: () => number): Display {
  const toldAtMs = new Map<Stage, number>()
  return {
    progress({ stage, done, total, note }) {
      const complete = total > 0 && done === total
      if (!complete && nowMs() - (toldAtMs.get(stage) ?? 0) < LOG_INTERVAL_MS) return
      toldAtMs.set(stage, nowMs())
      log.info({ stage, done, ...(total > 0 ? { total } : {}) }, note ?? TITLES[stage])
    },
    note: text => log.warn(text),
    end: async () => {},
  }
}

function liveDisplay(nowMs: () => number): Display {
  const stages = new Map(STAGES.map(stage => [stage, liveStage(stage, nowMs)]))
  const list = new Listr(
    [...stages.values()].map(({ title, run }) => ({ title, task: (_context, task) => run(task) })),
    {
      concurrent: true,
      exitOnError: false,
      registerSignalListeners: false,
      rendererOptions: {
        logger: new ListrLogger({ processOutput: new ProcessOutput(process.stderr, process.stderr) }),
        collapseErrors: false,
      },
    },
  )
  const finished = list.run()
  let current: Stage = 'open'
  return {
    progress(progress) {
      current = progress.stage
      stages.get(progress.stage)?.update(progress)
    },
    note: text => stages.get(current)?.note(text),
    async end() {
      for (const stage of stages.values()) stage.end()
      await finished
    },
  }
}

type Task = Pick<ListrTaskWrapper<unknown, never, never>, 'title' | 'output' | 'skip'>

function liveStage(stage: Stage, nowMs: () => number) {
  const { promise, resolve } = Promise.withResolvers<void>()
  let task: Task | null = null
  let startedMs = 0
  let last: Progress | null = null
  const show = () => {
    if (task && last) task.title = describe(last, nowMs() - startedMs)
  }
  return {
    title: TITLES[stage],
    run(wrapper: Task) {
      task = wrapper
      show()
      return promise
    },
    update(progress: Progress) {
      startedMs ||= nowMs()
      last = progress
      show()
    },
    note(text: string) {
      if (task) task.output = text
    },
    end() {
      if (!last) task?.skip(`${TITLES[stage]}: nothing to do`)
      resolve()
    },
  }
}

/** `Fetch analyses: 1,200 of 20,000, 310/s, 61 s left`. */
function describe({ stage, done, total, note }: Progress, elapsedMs: number): string {
  if (done === 0 && total === 0) return TITLES[stage]
  const rate = elapsedMs > 0 ? (done * 1000) / elapsedMs : 0
  const count = total > 0 ? `${formatCount(done)} of ${formatCount(total)}` : formatCount(done)
  const left = total > done && rate > 0 ? `, ${formatSeconds((total - done) / rate)} left` : ''
  return `${note ?? TITLES[stage]}: ${count}, ${formatCount(Math.round(rate))}/s${left}`
}

export function formatCount(count: number): string {
  return count.toLocaleString('en-US')
}

export function formatSeconds(seconds: number): string {
  if (seconds < 10) return `${seconds.toFixed(1)} s`
  if (seconds < 120) return `${Math.round(seconds)} s`
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`
}
