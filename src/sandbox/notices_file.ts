import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import { z } from 'zod'
import { EXIT, FatalError, messageOf } from '#src/lib/errors.ts'
import { decodeText } from '#src/lib/text_file.ts'
import type { Entry } from './world.ts'

const GZIP_MAGIC = 0x1f8b

/** The fields that the sandbox itself needs; everything else is sent as it is. */
const entry = z.object({
  edital: z.looseObject({
    id: z.string().min(1),
    pncp_id: z.string(),
    status: z.string(),
    created_at: z.string(),
    updated_at: z.string(),
  }),
  analysis: z.looseObject({}).nullable(),
})

/**
 * Reads notices from a file of lines `{"edital": …, "analysis": …}`, plain or gzipped (detected by the
 * content, not by the name). Skips empty lines. Throws FatalError with exit code 2 if the file cannot be
 * read or a line is not such an object; the message names path and line.
 */
export async function readNoticesFile(path: string): Promise<Entry[]> {
  const entries: Entry[] = []
  const seen = new Map<string, number>()
  for (const [index, line] of (await readText(path)).split('\n').entries()) {
    if (line.trim() === '') continue
    const where = `${path}, line ${index + 1}`
    const read = parseLine(line, where)
    const earlier = seen.get(read.edital.id)
    if (earlier) throw badFile(`${where}: id ${read.edital.id} is already in line ${earlier}.`)
    seen.set(read.edital.id, index + 1)
    entries.push(read)
  }
  if (entries.length === 0) throw badFile(`${path} contains no notices.`)
  return entries
}

async function readText(path: string): Promise<string> {
  try {
    const bytes = await readFile(path)
    const gzipped = bytes.length > 1 && bytes.readUInt16BE(0) === GZIP_MAGIC
    return decodeText(gzipped ? await promisify(gunzip)(bytes) : bytes)
  } catch (error) {
    throw badFile(`Cannot read the notices in ${path}: ${messageOf(error)}.`, error)
  }
}

function parseLine(line: string, where: string): Entry {
  let document: unknown
  try {
    document = JSON.parse(line)
  } catch (error) {
    throw badFile(`${where}: not JSON.`, error)
  }
  const parsed = entry.safeParse(document)
  // The document itself: the parsed one lacks a member named `__proto__`.
  if (parsed.success) return document as Entry
  const issue = parsed.error.issues[0]
  throw badFile(`${where}: ${issue?.path.join('.') || 'line'}: ${issue?.message ?? 'not a notice'}.`)
}

function badFile(message: string, cause?: unknown): FatalError {
  return new FatalError(message, EXIT.usage, { cause })
}
