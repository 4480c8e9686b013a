import type { z } from 'zod'
import type { ReadAnswer, ReadOrder, Rows, VisibleValue } from '#src/server/mcp/read/order.ts'
import type { Scope } from '#src/server/scopes.ts'

/** Reads the company's latest snapshot. @throws FatalError with a sentence for the client. */
export type Read = (order: Omit<ReadOrder, 'lake'>) => Promise<ReadAnswer>

type Fields = { readonly [name: string]: VisibleValue }

/** The result of a tool. */
export type ToolResult = {
  /** Null if it did not read the snapshot. */
  readonly answer: ReadAnswer | null
  readonly data: { readonly [name: string]: unknown }
  /** The omissions, in sentences. */
  readonly leftOut: readonly string[]
}

export type Tool<I extends z.ZodObject = z.ZodObject> = {
  readonly name: string
  readonly scope: Scope
  readonly title: string
  /** For the model that chooses among tools. */
  readonly description: string
  readonly input: I
  /** JSON Schema of what it adds to a result. */
  readonly output: Readonly<Record<string, object>>
  readonly find: (input: z.output<I>, read: Read) => Promise<ToolResult>
}

/** JSON Schema of rows as objects. */
export const RECORDS = { type: 'array', items: { type: 'object', additionalProperties: true } } as const

/** Checks the types of a tool where it is defined. */
export function tool<I extends z.ZodObject>(one: Tool<I>): Tool {
  return one as unknown as Tool
}

/** A size that a model can still read with ease. */
export const MAX_BYTES = 100_000

/** Returns rows as objects, without what is NULL. */
export function records({ columns, rows }: Rows): Fields[] {
  return rows.map(row => {
    const pairs = columns.map((name, index) => [name, row[index] ?? null] as const)
    return Object.fromEntries(pairs.filter(([, value]) => value !== null))
  })
}

/** Returns the answer to a statement. */
export function resultOf({ results }: ReadAnswer, index: number): Rows {
  return results[index] ?? { columns: [], rows: [], isCut: false }
}
