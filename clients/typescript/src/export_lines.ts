import type { ExportLines, ExportOptions, What } from './documents.js'
import { download } from './download.js'
import type { Server } from './server.js'

/** The parsed lines of an export, all of one snapshot, each once. */
export async function* exportLines<W extends What>(
  server: Server,
  { what, signal }: ExportOptions<W>,
): AsyncGenerator<ExportLines[W], void, undefined> {
  const bytes = download(server, { path: '/api/v1/mirror/export.ndjson', query: { what }, signal })
  for await (const line of linesOf(bytes)) yield JSON.parse(line)
}

async function* linesOf(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<string, void, undefined> {
  const decoder = new TextDecoder()
  /** Parts of a line, joined once: an analysis can have many megabytes. */
  let begun: string[] = []
  for await (const piece of pieces) {
    const [first = '', ...lines] = decoder.decode(piece, { stream: true }).split('\n')
    begun.push(first)
    for (const line of lines) {
      yield begun.join('')
      begun = [line]
    }
  }
}
