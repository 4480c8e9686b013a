import { readPncpId } from '#schema/pncp_id.ts'

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
