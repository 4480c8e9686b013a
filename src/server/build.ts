import { mkdir } from 'node:fs/promises'
import { serialize } from 'node:v8'
import { constants, zstdCompressSync } from 'node:zlib'
import { REPEATED_FIELDS } from '#schema/analysis.ts'
import { Database } from '#src/core/warehouse/database.ts'
import { literal } from '#src/core/warehouse/quoted.ts'
import { answerOrders } from '#src/lib/child.ts'
import { openNew, writeNew } from '#src/lib/durable.ts'
import { computeTag, hashContent } from '#src/lib/hash.ts'
import { type Batch, type DocumentRow, monthDocuments, monthTextBytes } from './documents.ts'
import { pickAnalysisFields, pickNoticeFields } from './feed/events.ts'
import { type MonthIndex, type MonthOrder, preparedFiles } from './prepared_month.ts'
import { indexMonth, listDifferentWords, type SearchRow } from './search/month_search.ts'

/** Documents of which the tables have a text cut, as JSON text. */
type WholeDocuments = { readonly notice?: string; readonly analysis?: string }

/**
 * Reads the documents of a batch of notices that are cut in the tables.
 * @param path the Parquet file of `whole_documents`, or null.
 * @returns them by the notice's id.
 */
async function readWhole(
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
function withWhole(
  { id, notice, analysis }: Pick<DocumentRow, 'id' | 'notice' | 'analysis'>,
  whole: WholeDocuments | undefined,
): Pick<DocumentRow, 'notice' | 'analysis'> {
  if (whole === undefined) return { notice, analysis }
  const fields = whole.notice === undefined ? fieldsIn(notice) : pickNoticeFields(JSON.parse(whole.notice))
  const repeated = Object.entries(fields).filter(([name]) => REPEATED_FIELDS.includes(name))
  const own = (analysis: string) =>
    whole.analysis === undefined ? fieldsIn(analysis) : pickAnalysisFields(JSON.parse(whole.analysis))
  const named = (of: Readonly<Record<string, string>>) => composeObject({ id: JSON.stringify(id), ...of })
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
function composeObject(fields: Readonly<Record<string, string>>): string {
  const members = Object.entries(fields).map(([name, json]) => `${JSON.stringify(name)}:${json}`)
  return `{${members.join(',')}}`
}

/** Texts of a batch: DuckDB and this process hold its documents at once, several times. */
const BATCH_BYTES = 32 * 1024 * 1024
const BATCH_ROWS = 40_000
/** Level 1, the fastest: it already halves the size. With a checksum, because the file is kept for long. */
const COMPRESSION = { params: { [constants.ZSTD_c_compressionLevel]: 1, [constants.ZSTD_c_checksumFlag]: 1 } }

type Placed = {
  readonly row: Omit<DocumentRow, 'notice' | 'analysis' | 'parts'> & Pick<SearchRow, 'parts'>
  readonly notice: Buffer
  readonly analysis: MonthIndex['analyses'][number]
}

// Runs in a separate process: it uses much memory and a processor for seconds, while the server keeps answering.
if (import.meta.main) answerOrders(build)

/** Writes the documents of a month into the order's directory. */
async function build({ files, rows, timeZone, directory }: MonthOrder): Promise<void> {
  await mkdir(directory, { recursive: true })
  const paths = preparedFiles(directory)
  const db = await Database.open(':memory:', { threads: 1, temporaryDirectory: directory })
  const analyses = await openNew(paths.analyses)
  try {
    const placed: Placed[] = []
    let at = 0
    const { bytes } = await db.row<{ bytes: number }>(monthTextBytes(files))
    const batches = Math.ceil(Math.max(1, bytes / BATCH_BYTES, rows / BATCH_ROWS))
    for (let batch = 0; batch < batches; batch += 1) {
      const frames: Buffer[] = []
      const whole = await readWhole(db, files.whole_documents, { batch, batches })
      for (const { notice: cutNotice, analysis: cutAnalysis, ...row } of await db.rows<DocumentRow>(
        monthDocuments(files, { batch, batches, timeZone }),
      )) {
        const carried = { id: row.id, notice: cutNotice, analysis: cutAnalysis }
        const { notice, analysis } = withWhole(carried, whole.get(row.id))
        const json = analysis === null ? null : Buffer.from(analysis)
        const frame = json && zstdCompressSync(json, COMPRESSION)
        const place = frame && json && { at, bytes: frame.length, size: json.length, tag: computeTag(json) }
        // All rows of the month are held at once.
        const parts = listDifferentWords(row.parts ?? '')
        placed.push({ row: { ...row, parts }, notice: Buffer.from(notice), analysis: place })
        if (!frame) continue
        frames.push(frame)
        at += frame.length
      }
      await analyses.writeFile(Buffer.concat(frames))
    }
    placed.sort((a, b) => b.row.created - a.row.created || (a.row.id < b.row.id ? -1 : 1))
    const notices = Buffer.concat(placed.flatMap(({ notice }) => [notice, COMMA]))
    const search = serialize(indexMonth(placed.map(({ row }) => row)))
    const sums = { noticesSha256: hashContent(notices), searchSha256: hashContent(search), analysesBytes: at }
    const index = JSON.stringify({ ...makeIndex(placed), ...sums } satisfies MonthIndex)
    await writeNew(paths.notices, notices)
    await writeNew(paths.search, search)
    await writeNew(paths.index, index)
    await writeNew(paths.sum, hashContent(index))
  } finally {
    await analyses.close()
    db.close()
  }
}

/** Follows each notice in the file, so that a page is a slice of it. */
const COMMA = Buffer.from(',')

type Sums = 'noticesSha256' | 'searchSha256' | 'analysesBytes'

function makeIndex(placed: readonly Placed[]): Omit<MonthIndex, Sums> {
  let end = 0
  return {
    ids: placed.map(({ row }) => row.id),
    statuses: placed.map(({ row }) => row.status),
    created: placed.map(({ row }) => row.created),
    noticeEnds: placed.map(({ notice }) => {
      end += notice.length + COMMA.length
      return end
    }),
    states: placed.map(({ row }) => row.state),
    noticeTags: placed.map(({ notice }) => computeTag(notice)),
    analyses: placed.map(({ analysis }) => analysis),
  }
}
