import { z } from 'zod'
import { DATA_PATH } from '#src/extras/object_store/tables/format.ts'
import { COUNT, type JsonKind, jsonIn } from '#src/lib/objects/json_object.ts'
import type { Note } from './actions.ts'

/** The parts of a Delta table's log that this program reads, whatever else is there. */

/** A commit names all files of the table, and its texts are bounded. */
export const MAX_LOG_BYTES = 64 * 1024 * 1024

const PATH = z.string().regex(DATA_PATH)
/** Statistics, which are JSON within JSON. */
const STATS = z.string().transform((text, context) => {
  try {
    return z.object({ numRecords: COUNT }).parse(JSON.parse(text)).numRecords
  } catch {
    context.addIssue({ code: 'custom', message: 'no statistics' })
    return z.NEVER
  }
})

/** A file that a commit or a checkpoint adds; its statistics are the number of its rows. */
export const ADDED = z.object({ path: PATH, size: COUNT, stats: STATS })
export type Added = z.output<typeof ADDED>

const NAME = 'commit of this table'
const NOTE: JsonKind<Note> = {
  name: NAME,
  mostBytes: MAX_LOG_BYTES,
  shape: z.object({ snapshot: z.string(), schema: z.string(), files: z.array(PATH) }),
}
const CHANGE: JsonKind<{ add?: Added | undefined; remove?: { path: string } | undefined }> = {
  name: NAME,
  mostBytes: MAX_LOG_BYTES,
  shape: z.object({ add: ADDED.optional(), remove: z.object({ path: PATH }).optional() }),
}
/** Any program's. */
const INFO: JsonKind<{
  commitInfo?: { inCommitTimestamp?: number | undefined; userMetadata?: string | undefined } | undefined
}> = {
  name: NAME,
  mostBytes: MAX_LOG_BYTES,
  shape: z.object({
    commitInfo: z
      .object({ inCommitTimestamp: COUNT.optional(), userMetadata: z.string().optional() })
      .optional(),
  }),
}

/** Reads which files a commit adds and removes. @throws ForeignObject if a line is not one of ours. */
export function changesIn(bytes: Buffer, address: string) {
  return linesIn(bytes).map(line => jsonIn(line, CHANGE, address))
}

/**
 * Returns what identifies a commit, and its time; null if another program made it.
 * @throws ForeignObject if it is no commit, or claims to be ours and is not.
 */
export function noteIn(bytes: Buffer, address: string): { readonly note: Note; readonly at: number } | null {
  const infos = linesIn(bytes).map(line => jsonIn(line, INFO, address).commitInfo)
  const { inCommitTimestamp: at, userMetadata } = infos.find(info => info !== undefined) ?? {}
  if (at === undefined || !userMetadata?.startsWith('{"snapshot":')) return null
  return { note: jsonIn(Buffer.from(userMetadata), NOTE, address), at }
}

function linesIn(bytes: Buffer): Buffer[] {
  const lines: Buffer[] = []
  for (let from = 0; from < bytes.length; ) {
    const feed = bytes.indexOf('\n', from)
    const end = feed === -1 ? bytes.length : feed
    if (end > from) lines.push(bytes.subarray(from, end))
    from = end + 1
  }
  return lines
}
