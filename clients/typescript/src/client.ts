import { changes } from './changes.js'
import type {
  ChangesOptions,
  ChangesPage,
  DocumentOf,
  ExportLines,
  ExportOptions,
  GetOptions,
  Path,
  SearchFilters,
  SearchOptions,
  SearchPage,
  What,
} from './documents.js'
import { exportLines } from './export_lines.js'
import { search } from './search.js'
import { Server, type ServerOptions, type Values } from './server.js'

export type ClientOptions = ServerOptions

/** The options may be left out if the path has no required parameter. */
type Given<P extends Path> = Record<never, never> extends GetOptions<P> ? [GetOptions<P>?] : [GetOptions<P>]

type GivenToAll = { readonly path?: Values; readonly query?: Values; readonly signal?: AbortSignal }

/** A document with the ETag of its version. */
export type Version<P extends Path> = { readonly document: DocumentOf<P>; readonly etag: string | null }

/**
 * Everything that a key may read. All calls throw `ApiError` if the server refuses the request, `ConnectionFailed` if it
 * does not answer, and the reason of the signal if that is aborted. They first wait, for at most `maxWaitMs`: as long as
 * `Retry-After` asks for with 429 or 503, and longer each time after a failed connection.
 */
export type Client = {
  /** The document at a path of the API. */
  get<P extends Path>(path: P, ...options: Given<P>): Promise<DocumentOf<P>>
  /** The same with its ETag; null if that is still the given one. Without one (null), it reads the document. */
  getIfChanged<P extends Path>(path: P, etag: string | null, ...options: Given<P>): Promise<Version<P> | null>
  /**
   * The pages of a search, all of one snapshot.
   * @throws SnapshotGone if that is no longer there: begin again.
   */
  search(filters?: SearchFilters, options?: SearchOptions): AsyncGenerator<SearchPage, void, undefined>
  /**
   * The pages of changes after `since`, in order, for ever: it waits for the next ones. With `wait: 0` it ends with the
   * newest. Store `next` of each page in the transaction that applies its events, and pass it as `since` next time.
   * @throws CursorGone if the log was rewritten: read everything once, and begin with the cursor of `since: 'latest'`.
   */
  changes(options?: ChangesOptions): AsyncGenerator<ChangesPage, void, undefined>
  /**
   * All notices, analyses or both, one by one, newest notice first, of one snapshot. After a lost connection it resumes
   * without repeating or losing any.
   * @throws SnapshotGone if the rest is no longer there: begin again.
   */
  exportNotices<W extends What>(options: ExportOptions<W>): AsyncGenerator<ExportLines[W], void, undefined>
}

/** @throws TypeError if the url or the key cannot be one. */
export function createClient(options: ClientOptions): Client {
  const server = new Server(options)
  const getIfChanged: Client['getIfChanged'] = async (path, etag, ...given) => {
    const { path: inPath, query, signal } = (given[0] ?? {}) as GivenToAll
    const headers: Record<string, string> = etag === null ? {} : { 'if-none-match': etag }
    const answer = await server.document({ path, inPath, query, signal, headers })
    if (answer.status === 304) return null
    return { document: JSON.parse(answer.text), etag: answer.headers.get('etag') }
  }
  return {
    async get(path, ...given) {
      // Never null: there is no condition.
      return (await getIfChanged(path, null, ...given))?.document as DocumentOf<typeof path>
    },
    getIfChanged,
    search: (filters = {}, options = {}) => search(server, filters, options),
    changes: (options = {}) => changes(server, options),
    exportNotices: options => exportLines(server, options),
  }
}
