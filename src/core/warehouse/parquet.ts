/**
 * Options of `COPY` for all Parquet files: what every engine reads. Rows stay in memory until a row group is full: it has at
 * most so many rows, and begins no more of them beyond so many bytes.
 */
export const PARQUET_OPTIONS =
  "FORMAT parquet, PARQUET_VERSION v1, ROW_GROUP_SIZE 20480, ROW_GROUP_SIZE_BYTES '32MB', COMPRESSION zstd"
