import type { Drift } from '#src/validate.ts'

/**
 * One thing that happened. The writer adds `seq` (position in the segment, from 1), `run_id` and `at`
 * (UTC). A document travels as JSON text beside the line's other properties.
 */
export type Line =
  | {
      type: 'run_started'
      mode: 'full' | 'incremental' | 'filtered' | 'replay'
      analysis_statuses: readonly string[]
      /** Set by `--full`, to the time: analyses that were logged before this line are due again. */
      refetch_before?: string
    }
  | { type: 'notice'; edital_id: string; updated_at: string; drift?: readonly Drift[]; raw?: string }
  | {
      type: 'analysis'
      edital_id: string
      /** The notice's `updated_at`, as the API wrote it, for which the analysis was fetched. */
      updated_at: string
      /** The same in the form that SQL reads. */
      source_updated_at: string
      hash: string
      drift?: readonly Drift[]
      raw?: string
      /** Only where it is not `at` and this segment: a record that was quarantined then and is usable now. */
      fetched_at?: string
      fetched_in?: number
    }
  | { type: 'analysis_same'; edital_id: string; updated_at: string; source_updated_at: string; hash: string }
  /** With a hash: a quarantined list item, perhaps without an id, that is listed no more. */
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

/** The document of a `notice` or `analysis` line: JSON text of one line. */
export type Document = { readonly notice: string } | { readonly analysis: string }
