import { createHash } from 'node:crypto'
import { join } from 'node:path'
import type { MonthFiles } from './documents.ts'

/** A month that is to be put on a prepared. */
export type MonthOrder = {
  readonly files: MonthFiles
  /** Of those files, together. */
  readonly bytes: number
  readonly rows: number
  /** Where its two files and its index go. */
  readonly directory: string
}

/** What the builder says when it is done. */
export type MonthResult = { readonly error: string | null }

/** Where an analysis is in its file: `bytes` from `at` on, which are `size` bytes of JSON. */
export type AnalysisPlace = {
  readonly at: number
  readonly bytes: number
  readonly size: number
  readonly tag: string
}

/** What is on a prepared, newest notice first; all lists are of one length. */
export type MonthIndex = {
  readonly ids: readonly string[]
  readonly statuses: readonly string[]
  /** `created_at`, microseconds. */
  readonly created: readonly number[]
  /** Where each notice ends in `notices`; it begins where the one before ends. */
  readonly noticeEnds: readonly number[]
  readonly noticeTags: readonly string[]
  /** `analysis_state` of `editais`. */
  readonly states: readonly string[]
  /** Where each analysis is in `analyses`, a zstd frame of its own; null where there is none. */
  readonly analyses: readonly (AnalysisPlace | null)[]
  /** SHA-256 of the file of notices. */
  readonly noticesSha256: string
  /** Each frame in it has a checksum of its own. */
  readonly analysesBytes: number
}

/** `sum` is the SHA-256 of the index, and written last. */
export function preparedFiles(
  directory: string,
): Readonly<Record<'notices' | 'analyses' | 'index' | 'sum', string>> {
  return {
    notices: join(directory, 'notices'),
    analyses: join(directory, 'analyses'),
    index: join(directory, 'index.json'),
    sum: join(directory, 'sum'),
  }
}

/** What is on the disk is not what a builder wrote: it must be built again. */
export class DamagedError extends Error {
  override readonly name = 'DamagedError'
}

export function sha256(bytes: string | Buffer): string {
  return createHash('sha256').update(bytes).digest('hex')
}
