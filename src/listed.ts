import { once } from 'node:events'
import { createWriteStream, type WriteStream } from 'node:fs'
import { editais } from '#schema/tables.ts'
import { hashOf, type Verdict } from './validate.ts'
import { type Database, literal } from './warehouse/database.ts'
import { documentStructure, flatten } from './warehouse/sql.ts'

const EXCERPT_BYTES = 2048
/** A notice is some kB. DuckDB's reader sets its buffers by this, so it is not larger than it must be. */
const MAX_LINE_BYTES = 4 * 1024 * 1024

/**
 * Collects what the list showed in a file, for DuckDB to read: the rows of a large company never stand
 * in memory as JavaScript objects.
 */
export class ListedFile {
  readonly path: string
  readonly #stream: WriteStream
  #reads = 0

  constructor(path: string) {
    this.path = path
    this.#stream = createWriteStream(path)
    // Reported by the `add` or `flush` that meets it.
    this.#stream.on('error', () => {})
  }

  async add(verdicts: readonly Verdict[]): Promise<void> {
    if (this.#stream.errored) throw this.#stream.errored
    const lines = verdicts.map(verdict => `${stagedLine(verdict, ++this.#reads)}\n`)
    if (!this.#stream.write(lines.join(''))) await once(this.#stream, 'drain')
  }

  async flush(): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#stream.write('', error => (error ? reject(error) : resolve()))
    })
  }

  async close(): Promise<void> {
    this.#stream.destroy()
    if (!this.#stream.closed) await once(this.#stream, 'close')
  }
}

function stagedLine(verdict: Verdict, read: number): string {
  const { editalId } = verdict
  const raw = verdict.raw?.toString('base64')
  if (!verdict.ok) {
    const { reason, path } = verdict
    const excerpt = verdict.raw.subarray(0, EXCERPT_BYTES).toString('utf8').toWellFormed()
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
 * The temporary table `listed`: one row for each notice that was shown, as it was last read, with the
 * columns of `editais`; or, where it could not be used, with the `reason`.
 */
export async function stageListed(db: Database, path: string, sourceTimezone: string): Promise<void> {
  await db.run(`CREATE OR REPLACE TEMP TABLE listed_rows AS
    SELECT * FROM read_json(${literal(path)}, format = 'newline_delimited', maximum_object_size = ${MAX_LINE_BYTES}, columns = {
      read: 'BIGINT', edital_id: 'VARCHAR', updated_at: 'VARCHAR', drift: 'VARCHAR', raw: 'VARCHAR',
      document: 'JSON', hash: 'VARCHAR', reason: 'VARCHAR', path: 'VARCHAR', excerpt: 'VARCHAR'})
    QUALIFY row_number() OVER (PARTITION BY coalesce(edital_id, hash) ORDER BY reason IS NULL DESC, read DESC) = 1`)
  const rows = `(SELECT *, NULL AS run_id, json_transform(document, ${literal(documentStructure('notice'))}) AS notice FROM listed_rows)`
  const others = ['document::VARCHAR AS document', 'drift', 'raw', 'hash', 'reason', 'path', 'excerpt']
  await db.run(`CREATE OR REPLACE TEMP TABLE listed AS ${flatten(editais, rows, sourceTimezone, others)}`)
  await db.run('DROP TABLE listed_rows')
}
