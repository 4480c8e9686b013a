import { existsSync } from 'node:fs'
import type { CompanyPaths } from '#src/core/company/company.ts'
import { DURABLE_STEPS, type DurableStep, type Operation, observeSteps } from '#src/lib/durable.ts'
import type { Random } from '#src/sandbox/random.ts'
import type { SimulatedDisk } from './disk.ts'
import { REMOTE_STEPS, type RemoteStep } from './remote/steps.ts'

/** What happens to the process, or to its disk, the n-th time that it reaches a step. */
export type CrashPoint = {
  readonly kind: 'killed' | 'power fails' | 'disk is full' | 'disk fails' | 'interrupted'
  readonly step: DurableStep | RemoteStep
  readonly nth: number
  readonly when: 'before' | 'after'
}

/** Null in about a third of the runs: no crash. */
export function drawCrashPoint(random: Random): CrashPoint | null {
  if (random.chance(0.35)) return null
  const kind = random.weighted<CrashPoint['kind']>([
    ['killed', 4],
    ['power fails', 4],
    ['disk is full', 2],
    ['disk fails', 2],
    ['interrupted', 2],
  ])
  const when = kind.startsWith('disk') ? 'before' : random.pick(['before', 'after'] as const)
  return { kind, step: random.pick(DURABLE_STEPS), nth: random.pick([1, 1, 1, 2, 2, 5]), when }
}

/** In a run that publishes to an object store; null in about half of them. */
export function drawRemoteCrash(random: Random): CrashPoint | null {
  if (random.chance(0.5)) return null
  const kind = random.pick(['killed', 'killed', 'power fails', 'interrupted'] as const)
  const when = random.pick(['before', 'after'] as const)
  return { kind, step: random.pick(REMOTE_STEPS), nth: random.pick([1, 1, 2, 5, 12]), when }
}

/** Thrown in a dead process: it must not write to the disk any more. */
export class Dead extends Error {}

export type Watch = {
  /** Whether the run reached the crash point. */
  triggered: boolean
  /** A copy of the directory as the process left it, if it died; the directory itself must not be used any more. */
  copy: string | null
  /** A violation seen during the run; thrown after the run has ended. */
  wrong: Error | null
  readonly steps: Map<DurableStep | RemoteStep, number>
  /** A step of the object store: throws Dead if the process died there, or before. */
  reach(step: RemoteStep, when: 'before' | 'after'): void
}

export type WatchOptions = {
  readonly crashPoint: CrashPoint | null
  readonly disk: SimulatedDisk
  readonly paths: CompanyPaths
  readonly random: Random
  readonly interrupt: () => void
  /** Checks after each step that readers see a complete snapshot. */
  readonly check: () => void
}

/** Watches the steps of a run, records them on the disk, and triggers the crash point. */
export function watch(options: WatchOptions): Watch {
  const { crashPoint, disk, paths } = options
  const state: Watch = { triggered: false, copy: null, wrong: null, steps: new Map(), reach }

  function trigger(): void {
    state.triggered = true
    if (crashPoint?.kind === 'interrupted') {
      options.interrupt()
      return
    }
    if (crashPoint?.kind === 'disk is full') throw systemError('ENOSPC', 'no space left on device')
    if (crashPoint?.kind === 'disk fails') throw systemError('EIO', 'i/o error')
    const copy = `${paths.root}.crashed`
    disk.copyTo(copy)
    if (crashPoint?.kind === 'power fails') disk.losePower(copy, options.random)
    state.copy = copy
    throw new Dead()
  }

  function isDue(step: DurableStep | RemoteStep, when: 'before' | 'after'): boolean {
    if (crashPoint?.step !== step || crashPoint.when !== when || state.triggered) return false
    return crashPoint.nth === state.steps.get(step)
  }

  function reach(step: RemoteStep, when: 'before' | 'after'): void {
    if (state.copy) throw new Dead()
    if (when === 'before') state.steps.set(step, (state.steps.get(step) ?? 0) + 1)
    if (isDue(step, when)) trigger()
  }

  observeSteps((step, when, operation) => {
    if (state.copy) throw new Dead()
    if (when === 'before') state.steps.set(step, (state.steps.get(step) ?? 0) + 1)
    else recordOn(disk, step, operation, paths)
    if (when === 'after' && state.wrong === null) {
      try {
        options.check()
      } catch (error) {
        state.wrong = error as Error
      }
    }
    if (isDue(step, when)) trigger()
    if (when === 'before') disk.before(operation)
  })
  return state
}

function recordOn(disk: SimulatedDisk, step: DurableStep, operation: Operation, paths: CompanyPaths): void {
  disk.after(operation)
  const rebuilding = existsSync(paths.nextWarehouse)
  if (step === 'rebuilt.rename' || (step === 'warehouse.checkpoint' && !rebuilding))
    disk.checkpointed(paths.warehouse)
}

function systemError(code: string, text: string): Error {
  return Object.assign(new Error(`${code}: ${text}`), { code })
}
