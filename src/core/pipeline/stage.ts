import type { Progress } from './run.ts'

/** A stage whose time is taken: those that show progress, and others that take time. */
type StageName = Progress['stage'] | 'look' | 'checkpoint' | 'upload'

/**
 * Does the work of a stage, and takes its time.
 * @param failureOf finds in the result why the stage failed, if `work` does not throw it.
 */
export type InStage = <T>(
  stage: StageName,
  work: () => Promise<T>,
  failureOf?: (result: T) => Error | string | null,
) => Promise<T>

/** Only does the work. */
export const untimed: InStage = (_, work) => work()
