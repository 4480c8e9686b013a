import type { Database } from '#src/core/warehouse/database.ts'
import { literal } from '#src/core/warehouse/quoted.ts'
import type { RemoteColumn, RemoteType } from './format.ts'

/**
 * The statistics of a column in a Parquet file's footer. Numbers, days since 1970 and microseconds since 1970 are bigint or
 * number; null if the footer does not have it.
 */
export type ColumnStatistics = {
  readonly name: string
  readonly values: number
  readonly nulls: number | null
  readonly bytes: number
  readonly min: Bound | null
  readonly max: Bound | null
}
export type Bound = string | number | bigint | boolean

type Chunk = {
  readonly name: string
  readonly num_values: number
  readonly nulls: number | null
  readonly bytes: number
  readonly low: string | null
  readonly high: string | null
}

/** Statistics of a file's columns, from its footer alone. */
export async function statisticsOf(
  db: Database,
  path: string,
  columns: readonly RemoteColumn[],
): Promise<ColumnStatistics[]> {
  const chunks = await db.rows<Chunk>(
    `SELECT path_in_schema AS name, num_values, stats_null_count AS nulls, total_compressed_size AS bytes,
       stats_min_value AS low, stats_max_value AS high
     FROM parquet_metadata(${literal(path)}) ORDER BY row_group_id`,
  )
  const byName = Map.groupBy(chunks, ({ name }) => name)
  return columns.map(({ name, type }) => summed(name, type, byName.get(name) ?? []))
}

/** Returns the statistics of all row groups. A bound is known only if every row group with a value has one. */
function summed(name: string, type: RemoteType, chunks: readonly Chunk[]): ColumnStatistics {
  const withValues = chunks.filter(({ num_values, nulls }) => nulls === null || nulls < num_values)
  const bound = (side: 'low' | 'high') => {
    const bounds = withValues.map(chunk => parsed(chunk[side], type))
    if (bounds.length === 0 || bounds.includes(null)) return null
    const sign = side === 'low' ? 1 : -1
    return (bounds as Bound[]).reduce((a, b) => (sign * compare(a, b) <= 0 ? a : b))
  }
  const nulls = chunks.map(chunk => chunk.nulls)
  return {
    name,
    values: chunks.reduce((sum, chunk) => sum + chunk.num_values, 0),
    nulls: nulls.includes(null) ? null : nulls.reduce((sum: number, n) => sum + (n ?? 0), 0),
    bytes: chunks.reduce((sum, chunk) => sum + chunk.bytes, 0),
    min: bound('low'),
    max: bound('high'),
  }
}

function compare(a: Bound, b: Bound): number {
  if (typeof a === 'string' && typeof b === 'string') return Buffer.compare(Buffer.from(a), Buffer.from(b))
  return a < b ? -1 : a > b ? 1 : 0
}

/** Returns the bound that DuckDB wrote as text. */
function parsed(text: string | null, type: RemoteType): Bound | null {
  if (text === null) return null
  switch (type) {
    case 'VARCHAR':
      return text
    case 'BOOLEAN':
      return text === 'true'
    case 'INTEGER':
    case 'BIGINT':
      return BigInt(text)
    case 'DOUBLE':
      return Number.isNaN(Number(text)) ? null : Number(text)
    case 'DATE':
      return instant(text)?.days ?? null
    case 'TIMESTAMP':
    case 'TIMESTAMPTZ':
      return instant(text)?.micros ?? null
  }
}

const INSTANT = /^(\d{4})-(\d\d)-(\d\d)(?: (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?(?:\+00)?)?$/

/** Returns null for a year that does not have four digits, or is BC. */
function instant(text: string): { days: number; micros: bigint } | null {
  const [, year, month, day, hour = '0', minute = '0', second = '0', fraction = ''] = INSTANT.exec(text) ?? []
  if (year === undefined) return null
  const ms = new Date(0).setUTCFullYear(Number(year), Number(month) - 1, Number(day))
  const seconds = (Number(hour) * 60 + Number(minute)) * 60 + Number(second)
  return {
    days: ms / 86_400_000,
    micros: (BigInt(ms) + BigInt(seconds) * 1000n) * 1000n + BigInt(fraction.padEnd(6, '0')),
  }
}

const LAST_CODE_POINT = 0x10ffff

/**
 * Returns the beginning of a text, as a bound; an upper bound has its last character raised, so that it is above the text. Null
 * if the text has no upper bound of that length.
 */
export function textBound(text: string, side: 'min' | 'max', characters: number): string | null {
  const points = Array.from(text, character => character.codePointAt(0) as number)
  if (points.length <= characters) return text
  const kept = points.slice(0, characters)
  if (side === 'min') return String.fromCodePoint(...kept)
  while (kept.length > 0) {
    const last = raised(kept.pop() as number)
    if (last !== null) return String.fromCodePoint(...kept, last)
  }
  return null
}

/** Returns the next code point that UTF-8 can hold: surrogates are not code points of UTF-8. */
function raised(point: number): number | null {
  if (point === LAST_CODE_POINT) return null
  return point === 0xd7ff ? 0xe000 : point + 1
}
