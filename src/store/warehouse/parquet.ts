import type { Table } from '#schema/tables.ts'

/** Options of `COPY` for the Parquet files of a table. Rows stay in memory until a row group is full. */
export function parquetOptions({ compression }: Table): string {
  return `FORMAT parquet, PARQUET_VERSION v1, ROW_GROUP_SIZE 20480, COMPRESSION ${compression ?? 'zstd'}`
}
