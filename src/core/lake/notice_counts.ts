import type { Database } from '#src/core/warehouse/database.ts'

/** Live notices in a phase, or in `all` of them, by the state of their analyses. */
export type NoticeCounts = {
  readonly status: string
  readonly notices: number
  readonly current: number
  readonly pending: number
  readonly quarantined: number
  readonly excluded: number
}

/** Counts the notices by status. @param db a warehouse or a snapshot. */
export async function countNotices(db: Database): Promise<NoticeCounts[]> {
  return await db.rows<NoticeCounts>(`SELECT coalesce(status, 'all') AS status, count(*) AS notices,
      count(*) FILTER (analysis_state = 'current') AS current, count(*) FILTER (analysis_state = 'pending') AS pending,
      count(*) FILTER (analysis_state = 'quarantined') AS quarantined, count(*) FILTER (analysis_state = 'excluded') AS excluded
    FROM editais WHERE deleted_at IS NULL GROUP BY GROUPING SETS ((status), ()) ORDER BY grouping(status), status`)
}
