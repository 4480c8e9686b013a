import { readFile } from 'node:fs/promises'
import { crc32, createInflateRaw } from 'node:zlib'
import { EXIT, FatalError, messageOf } from '#src/lib/errors.ts'
import { hasForbidden } from './cells.ts'

/** Signature of the end of a ZIP archive, in little-endian numbers. */
const END = Buffer.from('PK\x05\x06', 'latin1')
const END_BYTES = 22
const DEFLATED = 8

type Part = { readonly name: string; readonly crc: number; readonly packed: Buffer }

/**
 * Reads a workbook that was written, as a spreadsheet program would: all its parts must be well-formed XML.
 * @param rows the number of rows with a value, of each sheet.
 * @throws FatalError if a program could not open it, or would find another number of rows.
 */
export async function checkWorkbook(path: string, rows: readonly number[]): Promise<void> {
  try {
    const parts = partsOf(await readFile(path))
    const found = new Map<string, number>()
    for (const part of parts) {
      await readPart(part).then(
        count => found.set(part.name, count),
        error => Promise.reject(new Error(`${part.name}: ${messageOf(error)}`)),
      )
    }
    for (const [index, count] of rows.entries()) {
      const name = `xl/worksheets/sheet${index + 1}.xml`
      if (found.get(name) !== count) throw new Error(`${name}: ${found.get(name)} rows instead of ${count}`)
    }
  } catch (error) {
    throw new FatalError(
      `The workbook cannot be opened, so it was not kept: ${messageOf(error)}. This is a bug in editais-sync; use --csv instead.`,
      EXIT.failed,
    )
  }
}

/** Returns the files in the archive, by its directory. */
function partsOf(zip: Buffer): Part[] {
  const end = zip.lastIndexOf(END)
  if (end === -1 || end + END_BYTES > zip.length) throw new Error('the archive has no end')
  let at = zip.readUInt32LE(end + 16)
  return Array.from({ length: zip.readUInt16LE(end + 10) }, () => {
    const bytes = zip.readUInt32LE(at + 20)
    const nameBytes = zip.readUInt16LE(at + 28)
    const local = zip.readUInt32LE(at + 42)
    if (zip.readUInt16LE(at + 10) !== DEFLATED) throw new Error('a part is not deflated')
    const start = local + 30 + zip.readUInt16LE(local + 26) + zip.readUInt16LE(local + 28)
    const part = {
      name: zip.toString('utf8', at + 46, at + 46 + nameBytes),
      crc: zip.readUInt32LE(at + 16),
      packed: zip.subarray(start, start + bytes),
    }
    at += 46 + nameBytes + zip.readUInt16LE(at + 30) + zip.readUInt16LE(at + 32)
    return part
  })
}

/** Reads a part. @returns the number of its elements `row`. @throws Error unless it is well-formed XML. */
async function readPart({ crc, packed }: Part): Promise<number> {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  const document = new XmlDocument()
  let sum = 0
  // Chunk by chunk: a sheet can have hundreds of megabytes.
  const inflate = createInflateRaw()
  inflate.end(packed)
  for await (const chunk of inflate as AsyncIterable<Buffer>) {
    sum = crc32(chunk, sum)
    document.add(decoder.decode(chunk, { stream: true }))
  }
  document.add(decoder.decode())
  if (sum !== crc) throw new Error('its checksum is wrong')
  return document.end()
}

/** A tag as the library writes it: double quotes, `>` only at the end of a tag, no comments. */
const TAG = /^<(\/?)([A-Za-z_][\w.:-]*)((?:\s+[\w.:-]+="[^"<]*")*)\s*(\/?)>$/
const DECLARATION = /^<\?xml [^<>?]*\?>$/
const WRONG_REFERENCE = /&(?!(?:amp|lt|gt|quot|apos|#9|#10|#13);)/

/** Checks a document that comes in pieces. */
class XmlDocument {
  #rest = ''
  #hasRoot = false
  #rows = 0
  readonly #open: string[] = []

  add(text: string): void {
    if (hasForbidden(text)) throw new Error('it has a character that XML does not allow')
    this.#rest += text
    // No `<` is within a tag, so all before the last one is complete.
    const end = this.#rest.lastIndexOf('<')
    if (end <= 0) return
    this.#read(this.#rest.slice(0, end))
    this.#rest = this.#rest.slice(end)
  }

  /** Ends the document. @returns the number of elements `row`. @throws Error if an element is not closed. */
  end(): number {
    this.#read(this.#rest)
    if (this.#open.length > 0 || !this.#hasRoot) throw new Error('an element is not closed')
    return this.#rows
  }

  /** Tags and texts, each complete. */
  #read(text: string): void {
    if (WRONG_REFERENCE.test(text)) throw new Error('it has a wrong reference')
    for (let at = 0; at < text.length; ) {
      const isTag = text[at] === '<'
      const end = isTag ? text.indexOf('>', at) + 1 : text.indexOf('<', at)
      const token = text.slice(at, end > 0 ? end : undefined)
      if (isTag) this.#tag(token)
      else if (this.#open.length === 0 && token.trim() !== '') throw new Error('there is text outside')
      at += token.length
    }
  }

  #tag(token: string): void {
    if (!this.#hasRoot && DECLARATION.test(token)) return
    const [, closes, name, , isEmpty] = TAG.exec(token) ?? []
    if (name === undefined) throw new Error('a tag is malformed')
    if (closes) {
      if (this.#open.pop() !== name) throw new Error(`</${name}> closes another element`)
      return
    }
    if (this.#open.length === 0 && this.#hasRoot) throw new Error('there is more than one document')
    this.#hasRoot = true
    if (name === 'row') this.#rows += 1
    if (!isEmpty) this.#open.push(name)
  }
}
