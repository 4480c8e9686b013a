import type { Database } from '#src/core/warehouse/database.ts'
import { literal } from '#src/core/warehouse/quoted.ts'

/** Lines with these documents are events only if the warehouse loaded them. */
type DocumentKind = 'notice' | 'analysis'

/**
 * Parquet files of the tables that have a row for each document that the warehouse loaded: `edital_versions`,
 * `analysis_versions`.
 */
export type VersionFiles = Readonly<Record<DocumentKind, readonly string[]>>

/** Returns the key of a document, in these tables and in the log: kind, notice, and when it was written, in ms. */
export function lineKey(kind: string, id: string, atMs: number): string {
  return `${kind} ${id} ${atMs}`
}

/**
 * Returns which documents of this time the warehouse loaded, by `lineKey`. It sets aside what it cannot load, and analyses of
 * notices that it does not have: readers of the mirror never see those lines.
 */
export async function loadedLines(
  db: Database,
  files: VersionFiles,
  { fromMs, toMs }: { readonly fromMs: number; readonly toMs: number },
): Promise<ReadonlySet<string>> {
  const loaded = new Set<string>()
  for (const kind of ['notice', 'analysis'] as const) {
    if (files[kind].length === 0) continue
    const rows = await db.rows<{ id: string; at: number }>(
      `SELECT edital_id AS id, epoch_ms(observed_at)::DOUBLE AS at
       FROM read_parquet([${files[kind].map(literal).join(', ')}], hive_partitioning = false)
       WHERE observed_at BETWEEN make_timestamptz($from::BIGINT) AND make_timestamptz($to::BIGINT)`,
      { from: fromMs * 1000, to: toMs * 1000 },
    )
    for (const { id, at } of rows) loaded.add(lineKey(kind, id, at))
  }
  return loaded
}
