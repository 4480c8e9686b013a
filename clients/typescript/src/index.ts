export { type Client, type ClientOptions, createClient, type Version } from './client.js'
export type {
  Analysis,
  ChangeEvent,
  ChangesOptions,
  ChangesPage,
  DocumentOf,
  ExportLines,
  ExportOptions,
  GetOptions,
  Notice,
  Path,
  Paths,
  SearchFilters,
  SearchOptions,
  SearchPage,
  What,
} from './documents.js'
export { ApiError, ConnectionFailed, CursorGone, SnapshotGone } from './errors.js'
