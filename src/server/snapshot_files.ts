import { join } from 'node:path'
import type { Manifest } from '#src/core/lake/manifest.ts'
import { DOCUMENT_TABLES, type MonthFiles } from './documents.ts'
import type { FeedSnapshot } from './feed/feed.ts'
import type { VersionFiles } from './feed/loaded_lines.ts'
import { monthKey } from './month_store.ts'
import type { MonthOrder } from './prepared_files.ts'

/** A month, with the key of everything its documents depend on. */
export type Month = {
  readonly name: string
  readonly key: string
  readonly order: Omit<MonthOrder, 'directory'>
}

/** Returns what the feed needs of a snapshot. */
export function feedSnapshot(manifest: Manifest, directory: string): FeedSnapshot {
  return {
    name: manifest.snapshot,
    madeMs: Date.parse(manifest.created_at),
    appliedSegment: manifest.applied_segment,
    versions: versionFiles(manifest, directory),
    timeZone: manifest.source_timezone,
  }
}

/** Returns the files of the versions of notices and analyses, of all months. */
export function versionFiles({ tables }: Manifest, directory: string): VersionFiles {
  const filesOf = (table: string) =>
    (tables[table]?.files ?? []).filter(({ rows }) => rows > 0).map(({ path }) => join(directory, path))
  return { notice: filesOf('edital_versions'), analysis: filesOf('analysis_versions') }
}

/** Returns the months with notices, newest first. */
export function monthsOf({ tables, source_timezone: timeZone }: Manifest, directory: string): Month[] {
  const file = (table: string, month: string) =>
    tables[table]?.files.find(one => one.month === month && one.rows > 0) ?? null
  const names = (tables.editais?.files ?? []).flatMap(({ month, rows }) => (month && rows > 0 ? [month] : []))
  return names
    .sort()
    .reverse()
    .map(name => {
      const of = DOCUMENT_TABLES.map(table => [table, file(table, name)] as const)
      const files = Object.fromEntries(of.map(([table, one]) => [table, one && join(directory, one.path)]))
      const sum = (what: 'bytes' | 'rows') => of.reduce((all, [, one]) => all + (one?.[what] ?? 0), 0)
      const key = monthKey(
        of.map(([, one]) => one?.sha256 ?? null),
        timeZone,
      )
      const sums = { bytes: sum('bytes'), rows: sum('rows') }
      return { name, key, order: { files: files as MonthFiles, ...sums, timeZone } }
    })
}
