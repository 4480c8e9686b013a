/** A difference between a document and the contract that does not stop it from loading. */
export type Drift = {
  readonly path: string
  readonly kind: 'unknown_field' | 'unknown_enum' | 'unknown_form' | 'wrong_type'
  readonly sample: string
  count: number
}

/**
 * One event. The writer adds `seq` (position in the segment, from 1), `run_id` and `at` (UTC), and the segment's
 * `number` to its first line. A document is passed as JSON text beside the line's other properties.
 */
export type Line =
  | {
      type: 'run_started'
      mode: 'full' | 'incremental' | 'filtered' | 'replay'
      analysis_statuses: readonly string[]
      /** Set by `--full` to the current time: analyses logged before this line are due again. */
      refetch_before?: string
      /** The log's company; identifies a segment of another one. */
      company: string
      /** The log's name: its first run. Absent in that run's own line. */
      log?: string
    }
  | {
      type: 'notice'
      edital_id: string
      updated_at: string
      drift?: readonly Drift[]
      raw?: string
      /** Only if it differs from this segment, as for analyses. */
      fetched_in?: number
    }
  | {
      type: 'analysis'
      edital_id: string
      /** The notice's `updated_at`, as the API sent it, for which the analysis was fetched. */
      updated_at: string
      /** `source_updated_at` in the form that SQL reads. */
      source_updated_at: string
      hash: string
      drift?: readonly Drift[]
      raw?: string
      /** Only if they differ from `at` and this segment: the record was quarantined then and is usable now. */
      fetched_at?: string
      fetched_in?: number
    }
  | { type: 'analysis_same'; edital_id: string; updated_at: string; source_updated_at: string; hash: string }
  /** With a hash: a quarantined list item, perhaps without an id, that is no longer listed. */
  | { type: 'gone'; edital_id: string | null; hash?: string }
  | {
      type: 'rejected'
      edital_id: string | null
      kind: 'notice' | 'analysis'
      reason: string
      path: string
      updated_at?: string
      hash: string
      /** The bytes received, base64. */
      raw: string
      excerpt: string
    }
  | { type: 'run_finished'; report: object; drift?: readonly Drift[] }
  /**
   * Replaces lines that could no longer be read: one for the salvage itself, with its mode, and one for each run whose
   * start was lost.
   */
  | { type: 'lost'; mode?: 'salvage'; reason: string; log?: string }

/** The document of a `notice` or `analysis` line, as one line of JSON: text, or UTF-8. */
export type LoggedDocument = { readonly notice: string | Buffer } | { readonly analysis: string | Buffer }

const OF_EVERY_LINE = ['run_id', 'at'] as const

/** Properties that a line of this type requires; all are strings except `report`. */
const REQUIRED: Readonly<Record<Line['type'], readonly string[]>> = {
  run_started: ['mode'],
  notice: ['edital_id', 'updated_at'],
  analysis: ['edital_id', 'updated_at', 'source_updated_at', 'hash'],
  analysis_same: ['edital_id', 'updated_at', 'source_updated_at', 'hash'],
  gone: [],
  rejected: ['kind', 'reason', 'path', 'hash'],
  run_finished: ['report'],
  lost: ['reason'],
}

/** A line as read; only the properties common to all lines are typed. */
export type ReadLine = Readonly<Record<string, unknown>> & {
  readonly seq: number
  readonly run_id: string
  readonly at: string
  readonly type: string
}

/**
 * Reads one line of a segment.
 * @returns the line, or what is wrong with it. A line of an unknown type is valid.
 */
export function readLine(text: string): ReadLine | { readonly wrong: string } {
  let line: Partial<ReadLine>
  try {
    line = JSON.parse(text)
  } catch {
    return { wrong: 'is not JSON' }
  }
  if (line === null || typeof line !== 'object' || !Number.isSafeInteger(line.seq)) {
    return { wrong: 'has no seq' }
  }
  const type = String(line.type)
  const document = type === 'notice' || type === 'analysis' ? [type] : []
  const own = isKnownType(type) ? [...REQUIRED[type], ...document] : []
  const absent = [...OF_EVERY_LINE, 'type', ...own].find(name => !isPresent(name, line[name]))
  return absent === undefined ? (line as ReadLine) : { wrong: `has no ${absent}` }
}

export function isKnownType(type: string): type is Line['type'] {
  return Object.hasOwn(REQUIRED, type)
}

function isPresent(name: string, value: unknown): boolean {
  const isObject = name === 'report' || name === 'notice' || name === 'analysis'
  return isObject ? typeof value === 'object' && value !== null : typeof value === 'string'
}

/** How much of a rejected body is published. */
const EXCERPT_BYTES = 2048

/** Returns the beginning of the received bytes, as well-formed text. */
export function takeExcerpt(raw: Buffer): string {
  return raw.subarray(0, EXCERPT_BYTES).toString('utf8').toWellFormed()
}
