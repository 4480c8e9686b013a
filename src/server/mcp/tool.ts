import type { z } from 'zod'
import type { Scope } from '#src/server/key_file.ts'
import type { ReadAnswer, ReadSource, Rows, Statement } from '#src/server/read/order.ts'
import type { Searched } from '#src/server/search_page.ts'

/** The form of a tool, its sources, and the cut of a result to the size that its client asked for. */

/** The sources of a tool. */
export type ToolSources = {
  /** Reads the company's latest snapshot. @throws FatalError with a sentence for the client. */
  read(statements: readonly Statement[], options?: { readonly isForeign: boolean }): Promise<ReadAnswer>
  /** Returns what is searched. @throws FatalError if it is not ready. */
  searched(): Promise<Searched>
}

/** Rows of a result, of which the first are shown. */
export type List = {
  readonly name: string
  readonly rows: readonly unknown[]
  /** Whether there are more than these. */
  readonly isCut: boolean
  /** Returns a sentence that says how to get the others. @param shown the rows that are shown. */
  readonly more: (shown: number) => string
}

type ToolResult = {
  /** Null if the tool did not read the snapshot. */
  readonly source: ReadSource | null
  readonly data?: Readonly<Record<string, unknown>>
  /** Objects of which the first fields are shown. */
  readonly objects?: Readonly<Record<string, object>>
  readonly lists: readonly List[]
}

export type Tool<I extends z.ZodObject = z.ZodObject> = {
  readonly name: string
  readonly scope: Scope
  readonly title: string
  /** For the model that chooses among tools. */
  readonly description: string
  readonly input: I
  readonly find: (input: z.output<I>, sources: ToolSources) => Promise<ToolResult>
}

/** Checks the types of a tool where it is defined. */
export function tool<I extends z.ZodObject>(one: Tool<I>): Tool {
  return one as unknown as Tool
}

/** Returns the answer to a statement. */
export function getResult({ results }: ReadAnswer, index: number): Rows {
  return results[index] ?? { columns: [], rows: [], isCut: false }
}

/** Share of a result that objects may take before its lists. */
const OF_OBJECTS = 0.6
/** For the sentences about what is left out. */
const RESERVED_BYTES = 600

/**
 * Returns a result with as many fields and rows as fit, and sentences about the others: first the fields of its objects, then
 * the rows of its lists in turn.
 * @param about what every result says.
 */
export function fitResult(
  about: object,
  { source, data, objects = {}, lists }: ToolResult,
  maxBytes: number,
) {
  const base = {
    ...about,
    ...(source && { company: source.company, snapshot: source.snapshot, published_at: source.publishedAt }),
    ...data,
  }
  let bytesLeft = maxBytes - RESERVED_BYTES - countBytes(base)
  const leftOut: string[] = []
  const shown: Record<string, object> = {}
  let ofObjects = lists.length === 0 ? bytesLeft : bytesLeft * OF_OBJECTS
  for (const [name, whole] of Object.entries(objects)) {
    const [kept, omitted]: [Record<string, unknown>, string[]] = [{}, []]
    for (const [field, value] of Object.entries(whole)) {
      const bytes = countBytes({ [field]: value })
      if (bytes > ofObjects) {
        omitted.push(field)
        continue
      }
      ofObjects -= bytes
      bytesLeft -= bytes
      kept[field] = value
    }
    shown[name] = kept
    if (omitted.length > 0)
      leftOut.push(`Fields of ${name} without room: ${omitted.join(', ')}. A larger max_kb shows them.`)
  }
  const counts = countFitting(lists, bytesLeft)
  for (const [index, { name, rows, isCut, more }] of lists.entries()) {
    const count = counts[index] as number
    shown[name] = rows.slice(0, count)
    if (count === 0 && rows.length > 0) leftOut.push(`There is no room for ${name}: use a larger max_kb.`)
    else if (count < rows.length || isCut) leftOut.push(more(count))
  }
  return { ...base, ...shown, left_out: leftOut }
}

/** Returns how many rows of each list fit, if they are taken in turn. */
function countFitting(lists: readonly List[], maxBytes: number): readonly number[] {
  const counts = lists.map(() => 0)
  const open = new Set(lists.keys())
  let bytesLeft = maxBytes
  while (open.size > 0)
    for (const index of open) {
      const row = lists[index]?.rows[counts[index] as number]
      const bytes = row === undefined ? Number.POSITIVE_INFINITY : countBytes(row)
      if (bytes > bytesLeft) open.delete(index)
      else {
        bytesLeft -= bytes
        counts[index] = (counts[index] as number) + 1
      }
    }
  return counts
}

function countBytes(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value)) + 1
}
