import { Listr, ListrLogger, type ListrTaskWrapper, ProcessOutput } from 'listr2'
import { makePrintable } from '#schema/text_key.ts'
import type { Progress } from '#src/core/pipeline/run.ts'
import type { Listener } from '#src/extras/hold.ts'
import { formatCount, formatSeconds } from '#src/lib/count.ts'
import { describeRetry, STAGES, type Stage, TITLES } from '#src/operate/open_log.ts'

/** The display of a running command's progress. */
export type Display = Listener & {
  /** Finishes the display and frees the terminal. */
  end(): Promise<void>
}

/** Creates a display of one live line per stage that has something to do, on stderr: one after another, each with its tick. */
export function createLiveDisplay(nowMs: () => number): Display {
  const stages = new Map(STAGES.map(stage => [stage, liveStage(stage, nowMs)]))
  const list = new Listr(
    // A task without a title is not shown.
    [...stages.values()].map(({ run }) => ({ task: (_context, task) => run(task) })),
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
  let countdown: NodeJS.Timeout | null = null
  const endCountdown = () => {
    if (countdown === null) return
    clearInterval(countdown)
    countdown = null
    stages.get(current)?.note('')
  }
  return {
    progress(progress) {
      endCountdown()
      current = progress.stage
      for (const earlier of STAGES.slice(0, STAGES.indexOf(current))) stages.get(earlier)?.endIfDone()
      stages.get(progress.stage)?.update(progress)
    },
    note(text) {
      endCountdown()
      stages.get(current)?.note(text)
    },
    retry(retry) {
      endCountdown()
      const atMs = nowMs() + retry.againMs
      const show = () => {
        const againMs = Math.max(0, atMs - nowMs())
        if (countdown !== null && againMs === 0) endCountdown()
        else stages.get(current)?.note(describeRetry({ ...retry, againMs }, nowMs()))
      }
      show()
      countdown = setInterval(show, 1000).unref()
    },
    async end() {
      endCountdown()
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
  let updates = 0
  const show = () => {
    if (task && last) task.title = describe(last, nowMs() - startedMs)
  }
  return {
    run(wrapper: Task) {
      task = wrapper
      show()
      return promise
    },
    update(progress: Progress) {
      startedMs ||= nowMs()
      updates += 1
      last = progress
      show()
    },
    note(text: string) {
      if (task) task.output = makePrintable(text)
    },
    endIfDone() {
      if (last && last.total > 0 && last.done >= last.total) resolve()
    },
    end() {
      // A stage that only began, or has more to do, was stopped by an error or by the user.
      if (last && (last.done < last.total || (stage === 'scan' && updates === 1)))
        task?.skip(`${TITLES[stage]}: stopped${last.done > 0 ? ` at ${count(last)}` : ''}`)
      resolve()
    },
  }
}

/** Describes progress: `Fetch analyses: 1,200 of 20,000 analyses, 310/s, 61 s left`. */
function describe({ stage, done, total, note }: Progress, elapsedMs: number): string {
  if (done === 0 && total === 0) return TITLES[stage]
  const rate = elapsedMs > 0 ? (done * 1000) / elapsedMs : 0
  const left = total > done && rate > 0 ? `, ${formatSeconds((total - done) / rate)} left` : ''
  return `${note ?? TITLES[stage]}: ${count({ stage, done, total })}, ${formatCount(Math.round(rate))}/s${left}`
}

const UNITS = { open: 'segments', scan: 'notices', fetch: 'analyses', load: 'records', publish: '' }

function count({ stage, done, total }: Pick<Progress, 'stage' | 'done' | 'total'>): string {
  return `${total > 0 ? `${formatCount(done)} of ${formatCount(total)}` : formatCount(done)} ${UNITS[stage]}`
}
