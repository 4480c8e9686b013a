import { once } from 'node:events'
import type { WriteStream } from 'node:fs'
import { editais } from '#schema/tables.ts'
import { newStream } from '#src/platform/durable.ts'
import { hashOf } from '#src/platform/hash.ts'
import { excerptOf } from '#src/store/rawlog/line.ts'
import type { Database } from '#src/store/warehouse/database.ts'
import { literal } from '#src/store/warehouse/quoted.ts'
import { documentStructure, fingerprint, flatten } from '#src/store/warehouse/sql.ts'
import type { Verdict } from './validate.ts'

/** DuckDB sizes its read buffers by the longest line; smaller buffers only make it slower. */
const MIN_BUFFER_BYTES = 128 * 1024

/**
 * Collects the listed notices in a file for DuckDB to read, so that the rows of a large company are never
 * all in memory as JavaScript objects.
 */
export class ListedFile {
  readonly path: string
  readonly #stream: WriteStream
  #reads = 0
  #longestLineBytes = MIN_BUFFER_BYTES

  constructor(path: string) {
    this.path = path
    this.#stream = newStream(path)
    // The next `add` or `flush` reports it.
    this.#stream.on('error', () => {})
  }

  async add(verdicts: readonly Verdict[]): Promise<void> {
    if (this.#stream.errored) throw this.#stream.errored
    const lines = verdicts.map(verdict => Buffer.from(`${stagedLine(verdict, ++this.#reads)}\n`))
    for (const line of lines) this.#longestLineBytes = Math.max(this.#longestLineBytes, line.length)
    if (!this.#stream.write(Buffer.concat(lines))) await once(this.#stream, 'drain')
  }

  /** The file's lines as a relation. */
  get lines(): string {
    return `read_json(${literal(this.path)}, format = 'newline_delimited', hive_partitioning = false, maximum_object_size = ${this.#longestLineBytes}, columns = {
      read: 'BIGINT', edital_id: 'VARCHAR', updated_at: 'VARCHAR', drift: 'VARCHAR', raw: 'VARCHAR',
      document: 'JSON', hash: 'VARCHAR', reason: 'VARCHAR', path: 'VARCHAR', excerpt: 'VARCHAR'})`
  }

  async flush(): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#stream.write('', error => (error ? reject(error) : resolve()))
    })
  }

  async close(): Promise<void> {
    // Not `once`: it would reject if a pending write fails, and hide why the list was abandoned.
    const closed = new Promise(resolve => this.#stream.once('close', resolve))
    this.#stream.destroy()
    if (!this.#stream.closed) await closed
  }
}

function stagedLine(verdict: Verdict, read: number): string {
  const { editalId } = verdict
  const raw = verdict.raw?.toString('base64')
  if (!verdict.ok) {
    const { reason, path } = verdict
    const excerpt = excerptOf(verdict.raw)
    return JSON.stringify({
      read,
      edital_id: editalId,
      hash: hashOf(verdict.raw),
      reason,
      path,
      excerpt,
      raw,
    })
  }
  const drift = verdict.drift.length > 0 ? JSON.stringify(verdict.drift) : undefined
  const head = JSON.stringify({ read, edital_id: editalId, updated_at: verdict.updatedAt, drift, raw })
  return `${head.slice(0, -1)},"document":${verdict.document}}`
}

/**
 * The temporary table `listed`: one row for each listed notice, as last read. If it cannot be used, the row
 * has `reason` and `hash`. `read` is its line in the file, and `as_sent` its `updated_at` as the API wrote it. The document stays there, because most notices
 * did not change and their documents are not needed.
 */
export async function stageListed(
  db: Database,
  file: Pick<ListedFile, 'lines'>,
  sourceTimezone: string,
): Promise<void> {
  await db.run(`CREATE OR REPLACE TEMP TABLE last_reads AS
    SELECT coalesce(max(read) FILTER (reason IS NULL), max(read)) AS read
    FROM ${file.lines} GROUP BY coalesce(edital_id, hash)`)
  const structure = literal(documentStructure('notice'))
  const lines = `(SELECT *, NULL AS run_id, NULL AS segment, NULL AS fetched_in, json_transform(document, ${structure}) AS notice
    FROM ${file.lines} WHERE read IN (SELECT read FROM last_reads))`
  await db.run(`CREATE OR REPLACE TEMP TABLE listed AS
    SELECT edital_id, _updated_at, as_sent, status, created_at, read, hash, reason, ${fingerprint(editais, 'n')} AS list_fields
    FROM (${flatten(editais, lines, sourceTimezone, ['updated_at AS as_sent', 'read', 'hash', 'reason'])}) n`)
}
