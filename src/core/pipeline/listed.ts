import { basename, dirname } from 'node:path'
import { editais } from '#schema/tables.ts'
import { type Drift, takeExcerpt } from '#src/core/rawlog/line.ts'
import { BoundedFiles } from '#src/core/warehouse/bounded_files.ts'
import { carryText } from '#src/core/warehouse/cut.ts'
import type { Database } from '#src/core/warehouse/database.ts'
import { literal } from '#src/core/warehouse/quoted.ts'
import { documentType, fingerprint, flatten } from '#src/core/warehouse/sql.ts'
import { hashContent } from '#src/lib/hash.ts'
import { LinesFile } from '#src/lib/lines.ts'
import type { KnownList } from './list_index.ts'
import type { Verdict } from './validate.ts'

/**
 * Collects the listed notices in files, so that those of a large company are never all in memory: one with all that was
 * received, for the raw log, and others with what DuckDB compares.
 */
export class ListedFile {
  readonly #received: LinesFile
  readonly #compared: BoundedFiles
  readonly #known = new Set<string>()
  #reads = 0

  /** What the last run saw in the list; null if all that is listed must be read. */
  readonly before: KnownList | null

  constructor(path: string, before: KnownList | null = null) {
    this.before = before
    this.#received = new LinesFile(path)
    this.#compared = new BoundedFiles(dirname(path), basename(path, '.ndjson'))
  }

  /** Returns all that was received, a line for each read, from 1. */
  get path(): string {
    return this.#received.path
  }

  /** Adds notices in the order in which they were read: of those that are as the last run saw them, only the keys. */
  async add(notices: readonly (Verdict | string)[]): Promise<void> {
    const verdicts = notices.filter(notice => typeof notice !== 'string')
    const first = this.#reads + 1
    this.#reads += verdicts.length
    // The last read counts, if it can be used.
    for (const notice of notices) {
      if (typeof notice === 'string') this.#known.add(notice)
      else if (notice.ok) this.#known.delete(notice.editalId)
    }
    if (verdicts.length === 0) return
    const received = verdicts.map(verdict => Buffer.from(`${receivedLine(verdict)}\n`))
    const compared = verdicts.map((verdict, index) => comparedLine(verdict, first + index))
    await Promise.all([this.#received.add(Buffer.concat(received)), this.#compared.add(compared)])
  }

  /** Returns the keys of notices that are as the last run saw them. */
  get known(): ReadonlySet<string> {
    return this.#known
  }

  /** Returns what DuckDB compares, as a relation: a row for each read. Null if nothing was read. */
  get compared(): string | null {
    if (this.#reads === 0) return null
    return this.#compared.relation(`{read: 'BIGINT', edital_id: 'VARCHAR', updated_at: 'VARCHAR', hash: 'VARCHAR',
      reason: 'VARCHAR', notice: ${literal(documentType('notice'))}}`)
  }

  async flush(): Promise<void> {
    await Promise.all([this.#received.flush(), this.#compared.flush()])
  }

  async close(): Promise<void> {
    await Promise.all([this.#received.close(), this.#compared.close()])
  }
}

/** A notice or a rejected record, for the raw log. Of a notice, `document` is its JSON text; of the others, there is `reason`. */
export type ListedRecord =
  | {
      readonly edital_id: string
      readonly updated_at: string
      readonly document: string
      readonly drift?: readonly Drift[]
      readonly raw?: string
    }
  | {
      readonly edital_id: string | null
      readonly hash: string
      readonly reason: string
      readonly path: string
      readonly excerpt: string
      readonly raw: string
    }

const DOCUMENT = ',"document":'

function receivedLine(verdict: Verdict): string {
  const { editalId: edital_id } = verdict
  const raw = verdict.raw?.toString('base64')
  if (!verdict.ok) {
    const { reason, path } = verdict
    const excerpt = takeExcerpt(verdict.raw)
    return JSON.stringify({ edital_id, hash: hashContent(verdict.raw), reason, path, excerpt, raw })
  }
  const drift = verdict.drift.length > 0 ? verdict.drift : undefined
  const head = JSON.stringify({ edital_id, updated_at: verdict.updatedAt, drift, raw })
  return `${head.slice(0, -1)}${DOCUMENT}${verdict.document}}`
}

/** Reads a line of the file. The text of a document is not parsed: it stays as it came. */
export function readReceived(line: string): ListedRecord {
  // Within a text, its quotes would be escaped.
  const at = line.indexOf(DOCUMENT)
  if (at === -1) return JSON.parse(line)
  const document = line.slice(at + DOCUMENT.length, -1)
  return { ...JSON.parse(`${line.slice(0, at)}}`), document }
}

function comparedLine(verdict: Verdict, read: number): string {
  const { editalId: edital_id } = verdict
  if (!verdict.ok)
    return JSON.stringify({ read, edital_id, hash: hashContent(verdict.raw), reason: verdict.reason })
  const head = JSON.stringify({ read, edital_id, updated_at: verdict.updatedAt })
  return `${head.slice(0, -1)},"notice":${carryText('notice', verdict.document)}}`
}

/**
 * Creates the temporary table `listed`: one row for each listed notice, as last read. If it cannot be used, the row has `reason`
 * and `hash`. `read` is its line in the file, and `as_sent` its `updated_at` as the API wrote it. The document stays there,
 * because most notices did not change and their documents are not needed. A notice that is as the last run saw it has the values that
 * are stored, and no line.
 * @returns false if what is stored is not what the last run saw. Then the list must be read without it.
 */
export async function stageListed(
  db: Database,
  { compared, known }: Pick<ListedFile, 'compared' | 'known'>,
  sourceTimezone: string,
): Promise<boolean> {
  await db.run(
    `CREATE OR REPLACE TEMP TABLE known AS
      SELECT key FROM (SELECT unnest(string_split($keys, chr(10))) AS key) WHERE key <> ''`,
    { keys: [...known].join('\n') },
  )
  await db.run(`CREATE OR REPLACE TEMP TABLE last_reads AS
    SELECT coalesce(max(read) FILTER (reason IS NULL), max(read)) AS read
    FROM ${compared ?? NOTHING} WHERE coalesce(edital_id, hash) NOT IN (FROM known) GROUP BY coalesce(edital_id, hash)`)
  const lines = `(SELECT *, NULL AS run_id, NULL AS segment, NULL AS fetched_in
    FROM ${compared ?? NOTHING} WHERE read IN (SELECT read FROM last_reads))`
  await db.run(`CREATE OR REPLACE TEMP TABLE listed AS
    SELECT edital_id, _updated_at, as_sent, status, created_at, read, hash, reason, ${fingerprint(editais, 'n')} AS list_fields
    FROM (${flatten(editais, lines, sourceTimezone, ['updated_at AS as_sent', 'read', 'hash', 'reason'])}) n`)
  if (known.size === 0) return true
  const [inserted] = await db.rows<{ Count: number }>(AS_STORED)
  return inserted?.Count === known.size
}

/** A time that its instant does not show in full is stored as it was sent. */
const AS_STORED = `INSERT INTO listed BY NAME
  SELECT edital_id, _updated_at, status, created_at, _list_fields AS list_fields,
    coalesce(times_as_sent::JSON ->> 'updated_at', strftime(timezone('UTC', updated_at), '%Y-%m-%dT%H:%M:%S.%fZ'), '') AS as_sent
  FROM editais
  WHERE edital_id IN (FROM known) AND deleted_at IS NULL
    AND edital_id NOT IN (SELECT edital_id FROM quarantine WHERE kind = 'notice' AND resolved_at IS NULL AND edital_id IS NOT NULL)`

const NOTHING = `(SELECT NULL::BIGINT AS read, NULL::VARCHAR AS edital_id, NULL::VARCHAR AS updated_at, NULL::VARCHAR AS hash,
  NULL::VARCHAR AS reason, NULL::${documentType('notice')} AS notice WHERE false)`
