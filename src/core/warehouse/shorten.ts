import { createReadStream } from 'node:fs'
import { readLines } from '#src/core/rawlog/files.ts'
import { remove } from '#src/lib/durable.ts'
import { linesOf } from '#src/lib/lines.ts'
import { BoundedFiles } from './bounded_files.ts'
import { type Cut, carriedDocument, type DocumentKind, isShort } from './cut.ts'

/** Lines of the raw log whose texts the tables cannot carry, written for DuckDB. */

/** The longest part of a whole document: a row of `whole_documents` is as small as other rows. */
const PART_CHARACTERS = 8 * 1024

/** The lines and their long parts, as relations; null if there are none. */
type Shortened = {
  readonly lines: string | null
  /** Parts of the documents that are cut: `seq`, `ordinal` from 1, `content`. */
  readonly parts: string | null
  /** Removes the files. */
  remove(): Promise<void>
}

/**
 * Writes the lines of a segment as the tables carry them.
 * @param name of the files, in a directory for temporary files.
 * @param columns of the lines, as SQL for `read_json`.
 */
export async function shortenLines(
  path: string,
  { directory, name, columns }: { directory: string; name: string; columns: string },
): Promise<Shortened> {
  const lines = new BoundedFiles(directory, `${name}-lines`)
  const parts = new BoundedFiles(directory, `${name}-parts`)
  try {
    // A segment, or the lines of one that are applied apart.
    for await (const text of path.endsWith('.zst') ? readLines(path) : linesOf(createReadStream(path))) {
      const { line, whole } = shortenedLine(text)
      await lines.add([line])
      if (whole === null) continue
      const { seq, document } = whole
      await parts.add(
        [...partsOf(document)].map((content, index) => JSON.stringify({ seq, ordinal: index + 1, content })),
      )
    }
    await Promise.all([lines.flush(), parts.flush()])
  } finally {
    await Promise.all([lines.close(), parts.close()])
  }
  return {
    lines: lines.paths.length === 0 ? null : lines.relation(columns),
    parts: parts.paths.length === 0 ? null : parts.relation(PART_COLUMNS),
    async remove() {
      for (const file of [...lines.paths, ...parts.paths]) await remove('temporary.remove', file)
    },
  }
}

const PART_COLUMNS = `{seq: 'BIGINT', ordinal: 'INTEGER', content: 'VARCHAR'}`

type ShortenedLine = {
  readonly line: string
  /** The document, if it is cut. */
  readonly whole: { readonly seq: number; readonly document: string } | null
}

function shortenedLine(text: string): ShortenedLine {
  if (isShort(text)) return { line: text, whole: null }
  // Statements do not read the received bytes.
  const { raw: _raw, ...line } = JSON.parse(text) as Record<string, unknown>
  const kind = (['notice', 'analysis'] satisfies DocumentKind[]).find(one => one === line.type)
  const whole = kind && line[kind]
  if (!kind || typeof whole !== 'object' || whole === null) return { line: JSON.stringify(line), whole: null }
  const { document, cuts } = carriedDocument(kind, whole)
  if (cuts.length === 0) return { line: JSON.stringify({ ...line, [kind]: document }), whole: null }
  const drift = [...((line.drift as object[] | undefined) ?? []), ...driftOf(String(line.edital_id), cuts)]
  return {
    line: JSON.stringify({ ...line, drift, [kind]: document }),
    whole: { seq: Number(line.seq), document: JSON.stringify(whole) },
  }
}

/** Returns the rows of `schema_drift` for texts that are cut, one for each field. */
function driftOf(editalId: string, cuts: readonly Cut[]): object[] {
  return [...Map.groupBy(cuts, ({ path }) => path)].map(([path, some]) => {
    const longest = Math.max(...some.map(({ bytes }) => bytes))
    return { path, kind: 'too_long', sample: `${editalId}: ${longest} bytes`, count: some.length }
  })
}

function* partsOf(text: string): Generator<string> {
  let start = 0
  while (start < text.length) {
    const end = start + PART_CHARACTERS
    // Not within a pair of surrogates.
    const isPair = (text.charCodeAt(end - 1) & 0xfc00) === 0xd800
    yield text.slice(start, isPair ? end + 1 : end)
    start = isPair ? end + 1 : end
  }
}
