import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import { z } from 'zod'
import { REPEATED_FIELDS } from '#schema/analysis.ts'
import { EXIT, FatalError, getMessage } from '#src/lib/errors.ts'
import { decodeText } from '#src/lib/text_file.ts'
import type { NoticeFilter, NoticeSource } from '#src/server/contract/source.ts'

/** A notice as the API sends it (docs/contract.md#notice); tests may add any other fields. */
export type Edital = {
  readonly id: string
  readonly pncp_id: string
  readonly status: string
  readonly created_at: string
  readonly updated_at: string
  readonly [field: string]: unknown
}

/** A structured analysis as the API sends it (docs/contract.md#analysis). */
export type AnalysisDocument = { readonly [field: string]: unknown }

export type Entry = {
  readonly edital: Edital
  /** Null: only the analysis answers 404, which the contract does not provide for. */
  readonly analysis: AnalysisDocument | null
}

/** The meaning of "most recent" in the list: newest first by a time, by id, or in the order of `put`. */
export const ORDERS = ['created_at', 'updated_at', 'id', 'none'] as const
export type ListOrder = (typeof ORDERS)[number]

type Patch = {
  /** Fields to set; `undefined` removes a field. Fields that both documents have are also set in the analysis. */
  readonly edital?: Readonly<Record<string, unknown>>
  readonly analysis?: Readonly<Record<string, unknown>> | null
  /** Sets `updated_at` to this instant; without it the change is silent. */
  readonly updatedAt?: Date
}

/** The notices of one company, in memory. Documents are never mutated: a change replaces them. */
export class World implements NoticeSource {
  readonly #entries = new Map<string, Entry>()
  readonly #removed = new Map<string, Entry>()
  #order: ListOrder
  /** Sorted notices by filter, until something changes. */
  readonly #listings = new Map<string, readonly Edital[]>()

  constructor(entries: Iterable<Entry> = [], order: ListOrder = 'created_at') {
    this.#order = order
    for (const entry of entries) this.#entries.set(entry.edital.id, entry)
  }

  /** Returns how many notices are live. */
  get size(): number {
    return this.#entries.size
  }

  /** Ids of the live notices, in the order of `put`. */
  ids(): string[] {
    return [...this.#entries.keys()]
  }

  removedIds(): string[] {
    return [...this.#removed.keys()]
  }

  entry(id: string): Entry | undefined {
    return this.#entries.get(id)
  }

  /** Adds a notice, or replaces the one with its id. */
  put(entry: Entry): void {
    this.#removed.delete(entry.edital.id)
    this.#entries.set(entry.edital.id, entry)
    this.#listings.clear()
  }

  /** Changes a live notice. Throws RangeError if there is no such notice. */
  update(id: string, patch: Patch): Entry {
    const { edital, analysis } = this.#live(id)
    const stamp = patch.updatedAt ? { updated_at: patch.updatedAt.toISOString() } : {}
    const shared = Object.entries(patch.edital ?? {}).filter(([field]) => REPEATED_FIELDS.includes(field))
    const changed: Entry = {
      edital: patched(edital, { ...patch.edital, ...stamp }),
      analysis:
        patch.analysis === null
          ? null
          : analysis && patched(analysis, { ...Object.fromEntries(shared), ...patch.analysis }),
    }
    this.#entries.set(id, changed)
    if (patch.edital || patch.updatedAt) this.#listings.clear()
    return changed
  }

  /** Removes a notice. Throws RangeError if there is no such notice. */
  remove(id: string): void {
    this.#removed.set(id, this.#live(id))
    this.#entries.delete(id)
    this.#listings.clear()
  }

  /** Restores a removed notice unchanged. Throws RangeError if it was not removed. */
  restore(id: string): void {
    const entry = this.#removed.get(id)
    if (!entry) throw new RangeError(`Notice ${id} was not removed.`)
    this.put(entry)
  }

  setOrder(order: ListOrder): void {
    this.#order = order
    this.#listings.clear()
  }

  async list({ statuses, limit, offset }: NoticeFilter): Promise<{ editais: unknown[]; total: number }> {
    const listing = this.#listing(statuses)
    return { editais: listing.slice(offset, offset + limit), total: listing.length }
  }

  async get(id: string): Promise<unknown | null> {
    return this.#entries.get(id)?.edital ?? null
  }

  async analysis(id: string): Promise<unknown | null> {
    return this.#entries.get(id)?.analysis ?? null
  }

  #live(id: string): Entry {
    const entry = this.#entries.get(id)
    if (!entry) throw new RangeError(`There is no notice ${id}.`)
    return entry
  }

  #listing(statuses: readonly string[] | null): readonly Edital[] {
    const key = statuses === null ? '*' : [...statuses].sort().join()
    let listing = this.#listings.get(key)
    if (!listing) {
      listing =
        statuses === null
          ? sorted([...this.#entries.values()], this.#order)
          : this.#listing(null).filter(edital => statuses.includes(edital.status))
      this.#listings.set(key, listing)
    }
    return listing
  }
}

function patched<T extends object>(document: T, patch: Readonly<Record<string, unknown>>): T {
  const fields = Object.entries({ ...document, ...patch }).filter(([, value]) => value !== undefined)
  return Object.fromEntries(fields) as T
}

function sorted(entries: readonly Entry[], order: ListOrder): Edital[] {
  const editais = entries.map(entry => entry.edital)
  if (order === 'none') return editais
  if (order === 'id') return editais.sort(byId)
  const times = new Map(editais.map(edital => [edital, Date.parse(edital[order]) || 0]))
  return editais.sort((a, b) => (times.get(b) ?? 0) - (times.get(a) ?? 0) || byId(a, b))
}

function byId(a: Edital, b: Edital): number {
  return a.id < b.id ? -1 : a.id > b.id ? 1 : 0
}

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
    throw badFile(`Cannot read the notices in ${path}: ${getMessage(error)}.`, error)
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
