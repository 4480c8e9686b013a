import type { z } from 'zod'
import { readPncpId } from '#schema/pncp_id.ts'
import type { Scope } from '#src/server/key_file.ts'
import type { ReadAnswer, ReadOrder, Rows } from '#src/server/read/order.ts'

/** Reads the company's latest snapshot. @throws FatalError with a sentence for the client. */
export type Read = (order: Omit<ReadOrder, 'lake'>) => Promise<ReadAnswer>

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

/** Returns the answer to a statement. */
export function resultOf({ results }: ReadAnswer, index: number): Rows {
  return results[index] ?? { columns: [], rows: [], isCut: false }
}

/** A condition of SQL, and the values of its parameters. */
export type SqlCondition = { readonly sql: string; readonly values: Readonly<Record<string, string>> }

/**
 * Returns whether a notice has an identifier of the portal, or its buyer a CNPJ, however either is written. Null for a text
 * without a CNPJ.
 * @param name what the names of the parameters begin with.
 */
export function identified(text: string, name: string): SqlCondition | null {
  const { cnpj, year, sequence } = readPncpId(text)
  if (cnpj === null) return null
  const parts = [
    { column: 'orgao_cnpj', type: 'VARCHAR', value: cnpj },
    { column: 'pncp_ano', type: 'INTEGER', value: year },
    { column: 'pncp_sequencial', type: 'BIGINT', value: sequence },
  ].filter(({ value }) => value !== null)
  const conditions = parts.map(({ column, type }) => `${column} = $${name}_${column}::${type}`)
  return {
    sql: `edital_id IN (SELECT edital_id FROM editais WHERE ${conditions.join(' AND ')})`,
    values: Object.fromEntries(parts.map(({ column, value }) => [`${name}_${column}`, String(value)])),
  }
}
