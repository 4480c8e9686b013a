import { REPEATED_FIELDS } from '#schema/analysis.ts'
import type { Database } from '#src/store/warehouse/database.ts'
import { literal } from '#src/store/warehouse/quoted.ts'
import type { Batch, DocumentRow } from './documents.ts'
import { servedAnalysis, servedNotice } from './feed/served_fields.ts'

/** Documents of which the tables have a text cut, as JSON text. */
type WholeDocuments = { readonly notice?: string; readonly analysis?: string }

/**
 * Reads the documents of a batch of notices that are cut in the tables.
 * @param path the Parquet file of `whole_documents`, or null.
 * @returns them by the notice's id.
 */
export async function readWhole(
  db: Database,
  path: string | null,
  { batch, batches }: Batch,
): Promise<ReadonlyMap<string, WholeDocuments>> {
  if (path === null) return new Map()
  const parts = await db.rows<{ id: string; document: 'notice' | 'analysis'; content: string }>(
    `SELECT edital_id AS id, document, content FROM read_parquet(${literal(path)}, hive_partitioning = false)
     WHERE hash(edital_id) % ${batches} = ${batch} ORDER BY edital_id, document, ordinal`,
  )
  const whole = new Map<string, { notice?: string; analysis?: string }>()
  for (const { id, document, content } of parts) {
    const of = whole.get(id) ?? {}
    whole.set(id, of)
    of[document] = (of[document] ?? '') + content
  }
  return whole
}

/** Returns the documents of a row, with the whole texts instead of cut ones. */
export function withWhole(
  { id, notice, analysis }: Pick<DocumentRow, 'id' | 'notice' | 'analysis'>,
  whole: WholeDocuments | undefined,
): Pick<DocumentRow, 'notice' | 'analysis'> {
  if (whole === undefined) return { notice, analysis }
  const fields = whole.notice === undefined ? fieldsIn(notice) : servedNotice(JSON.parse(whole.notice))
  const repeated = Object.entries(fields).filter(([name]) => REPEATED_FIELDS.includes(name))
  const own = (analysis: string) =>
    whole.analysis === undefined ? fieldsIn(analysis) : servedAnalysis(JSON.parse(whole.analysis))
  const named = (of: Readonly<Record<string, string>>) => objectOf({ id: JSON.stringify(id), ...of })
  return {
    notice: named(fields),
    analysis: analysis === null ? null : named({ ...own(analysis), ...Object.fromEntries(repeated) }),
  }
}

function fieldsIn(json: string): Record<string, string> {
  return Object.fromEntries(
    Object.entries(JSON.parse(json) as object).map(([name, value]) => [name, JSON.stringify(value)]),
  )
}

/** Builds a JSON object. @param fields the JSON text of each. */
function objectOf(fields: Readonly<Record<string, string>>): string {
  const members = Object.entries(fields).map(([name, json]) => `${JSON.stringify(name)}:${json}`)
  return `{${members.join(',')}}`
}
