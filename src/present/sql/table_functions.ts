const words = (text: string): string[] => text.trim().split(/\s+/)

/** Functions that compute rows from values, and read nothing. In lower case, as all here. */
export const COMPUTING: ReadonlySet<string> = new Set(
  words('generate_series json_each json_tree range unnest'),
)

/**
 * The functions of DuckDB 1.5.5 that a query behind the fence may call in FROM, or as a PRAGMA: those that compute, describe
 * the database or read files, which the fence limits. Not those that run SQL in a text, log, profile, or change how DuckDB
 * works: some end the process. One of a later DuckDB is refused until it is listed here.
 */
export const ADMITTED: ReadonlySet<string> = new Set([
  ...COMPUTING,
  ...words(`
  duckdb_columns duckdb_constraints duckdb_databases duckdb_dependencies duckdb_extensions duckdb_functions duckdb_indexes
  duckdb_keywords duckdb_memory duckdb_schemas duckdb_sequences duckdb_settings duckdb_tables duckdb_temporary_files
  duckdb_types duckdb_variables duckdb_views icu_calendar_names pg_timezone_names pragma_collations pragma_database_size
  pragma_platform pragma_show pragma_storage_info pragma_table_info pragma_user_agent pragma_version
  glob parquet_bloom_probe parquet_file_metadata parquet_full_metadata parquet_kv_metadata parquet_metadata parquet_scan
  parquet_schema read_blob read_csv read_csv_auto read_json read_json_auto read_json_objects read_json_objects_auto
  read_ndjson read_ndjson_auto read_ndjson_objects read_parquet read_text sniff_csv
  histogram histogram_values repeat repeat_row seq_scan summary
  collations database_list database_size extension_versions functions platform show show_databases show_tables
  show_tables_expanded storage_info table_info user_agent version
`),
])
