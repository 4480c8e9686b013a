/**
 * Options of `COPY` for the Parquet files of all tables: what every engine reads. Rows stay in memory until a row group is
 * full.
 */
export const PARQUET_OPTIONS = 'FORMAT parquet, PARQUET_VERSION v1, ROW_GROUP_SIZE 20480, COMPRESSION zstd'
