import type { SearchFilters, SearchOptions, SearchPage } from './documents.js'
import type { Server } from './server.js'

/** The pages of a search, all of one snapshot. */
export async function* search(
  server: Server,
  filters: SearchFilters,
  { signal }: SearchOptions,
): AsyncGenerator<SearchPage, void, undefined> {
  let cursor: string | null | undefined
  while (cursor !== null) {
    const query = { ...filters, cursor }
    const { text } = await server.document({ path: '/api/v1/mirror/editais', query, signal })
    const page = JSON.parse(text) as SearchPage
    yield page
    cursor = page.next
  }
}
