import { createHash } from 'node:crypto'
import { join } from 'node:path'
import type { MonthFiles } from './documents.ts'

/** A month to prepare. */
export type MonthOrder = {
  readonly files: MonthFiles
  /** Total size of those files. */
  readonly bytes: number
  readonly rows: number
  /** The company's. */
  readonly timeZone: string
  /** The directory for its files. */
  readonly directory: string
}

/** The place of an analysis in its file: `bytes` bytes at offset `at`, which decompress to `size` bytes of JSON. */
export type AnalysisPlace = {
  readonly at: number
  readonly bytes: number
  readonly size: number
  readonly tag: string
}

/** The contents of a prepared month, newest notice first; all lists have the same length. */
export type MonthIndex = {
  readonly ids: readonly string[]
  readonly statuses: readonly string[]
  /** `created_at`, microseconds. */
  readonly created: readonly number[]
  /** The ends of the notices in `notices`; each begins where the previous one ends. */
  readonly noticeEnds: readonly number[]
  readonly noticeTags: readonly string[]
  /** `analysis_state` of `editais`. */
  readonly states: readonly string[]
  /** The place of each analysis in `analyses`, as a separate zstd frame; null if there is none. */
  readonly analyses: readonly (AnalysisPlace | null)[]
  /** SHA-256 of the file of notices. */
  readonly noticesSha256: string
  /** SHA-256 of the file that they are searched in. */
  readonly searchSha256: string
  /** Size of the file of analyses; each frame in it has its own checksum. */
  readonly analysesBytes: number
}

/** Returns the paths of a prepared month. `sum` is the SHA-256 of the index, and is written last. */
export function preparedFiles(
  directory: string,
): Readonly<Record<'notices' | 'analyses' | 'search' | 'index' | 'sum', string>> {
  return {
    notices: join(directory, 'notices'),
    analyses: join(directory, 'analyses'),
    search: join(directory, 'search'),
    index: join(directory, 'index.json'),
    sum: join(directory, 'sum'),
  }
}

/** The files on disk are not what a builder wrote: the month must be built again. */
export class DamagedError extends Error {
  override readonly name = 'DamagedError'
}

export function sha256(bytes: string | Buffer): string {
  return createHash('sha256').update(bytes).digest('hex')
}
