import { MARTS } from './mutants/marts.ts'
import type { Mutant } from './mutants/mutant.ts'
import { DETECT, FETCH, LOAD, MISSING } from './mutants/pipeline.ts'
import { APPLY, APPLY_MANY, EXPORT, RETENTION, ROWS, SQL } from './mutants/store.ts'

export const MUTANTS: readonly Mutant[] = [
  ...DETECT,
  ...MISSING,
  ...FETCH,
  ...LOAD,
  ...SQL,
  ...APPLY,
  ...APPLY_MANY,
  ...EXPORT,
  ...RETENTION,
  ...ROWS,
  ...MARTS,
]
