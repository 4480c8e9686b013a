/** What a column and a table are, and short ways to write the usual columns. */

export type ColumnType = 'VARCHAR' | 'DOUBLE' | 'BIGINT' | 'UBIGINT' | 'INTEGER' | 'BOOLEAN' | 'TIMESTAMPTZ'

/** Where a column's value comes from. */
export type Source =
  /** A field of the table's document (or of the element, in a child table), by dotted path. */
  | { readonly field: string; readonly json?: true }
  /** A property of a free-form object: in a boolean column only if boolean; in a text column as text or JSON text. */
  | { readonly freeForm: string; readonly property: string }
  /** A property of the log line that carried the document. */
  | { readonly line: 'edital_id' | 'run_id' | 'at' | 'updated_at' | 'hash' | 'fetched_at' | 'segment' }
  /**
   * The table's times, by field, as JSON text, that the instant in their column cannot reproduce: a date alone, local
   * time, more than six decimals. NULL if there are none.
   */
  | { readonly timesAsSent: true }
  /** Which of these objects are in the document but have no field with a column; a JSON array, or NULL. */
  | { readonly emptyOf: readonly string[] }
  /** One of the three parts of `pncp_id`, `<cnpj>-<year>-<sequence>`; NULL if it has another shape. */
  | { readonly pncpIdPart: 1 | 2 | 3 }
  /** Position of the element in its array, from 1. */
  | { readonly ordinal: true }
  /** The company's slug, the same in every row; added when a snapshot is written. */
  | { readonly company: true }
  /** Written by the statements of `src/store/warehouse/apply.ts`, because it depends on more than one line. */
  | { readonly kept: true }

export type Column = {
  readonly name: string
  readonly type: ColumnType
  readonly from: Source
  readonly description: string
  readonly unit?: string
  /** True for bookkeeping that stays in the warehouse and is not published. */
  readonly internal?: true
}

export type Table = {
  readonly name: string
  readonly description: string
  /** Which document of the log fills it; `kept` tables are written by separate statements. */
  readonly document: 'notice' | 'analysis' | 'kept'
  /** The array of the document whose elements are this table's rows. */
  readonly each?: 'requirements' | 'items' | 'alerts'
  /** `current`: a notice's rows are replaced; `history`: rows are only added. */
  readonly rows: 'current' | 'history'
  /** Published as one file per month of the notice's `created_at`, or as one file. */
  readonly files: 'by_month' | 'one'
  /** lz4_raw takes 75 % more space than zstd, the default, and is read in half the time. */
  readonly compression?: 'lz4_raw'
  readonly columns: readonly Column[]
}

export const BRL = 'BRL'

export const company: Column = {
  name: 'company',
  type: 'VARCHAR',
  from: { company: true },
  description: 'Company (slug) that follows the notice',
}
export const editalId: Column = {
  name: 'edital_id',
  type: 'VARCHAR',
  from: { line: 'edital_id' },
  description: "The API's id of the notice for this company; joins all tables",
}
export const runId: Column = {
  name: 'run_id',
  type: 'VARCHAR',
  from: { line: 'run_id' },
  description: 'Run that wrote this row (sync_runs)',
}
export const ordinal: Column = {
  name: 'ordinal',
  type: 'INTEGER',
  from: { ordinal: true },
  description: "Position in the analysis's list, from 1",
}
export const observedAt: Column = {
  name: 'observed_at',
  type: 'TIMESTAMPTZ',
  from: { line: 'at' },
  description: 'When this version was first observed',
}

export const text = (name: string, description: string, field = name): Column => ({
  name,
  type: 'VARCHAR',
  from: { field },
  description,
})
export const number = (name: string, description: string, unit?: string, field = name): Column => ({
  name,
  type: 'DOUBLE',
  from: { field },
  description,
  ...(unit ? { unit } : {}),
})
export const boolean = (name: string, description: string, field = name): Column => ({
  name,
  type: 'BOOLEAN',
  from: { field },
  description,
})
export const integer = (name: string, description: string, field = name): Column => ({
  name,
  type: 'BIGINT',
  from: { field },
  description,
})
export const time = (name: string, description: string, field = name): Column => ({
  name,
  type: 'TIMESTAMPTZ',
  from: { field },
  description,
})
export const json = (name: string, description: string, field = name): Column => ({
  name,
  type: 'VARCHAR',
  from: { field, json: true },
  description: `${description} (JSON text)`,
})
export const overview = (
  property: string,
  description: string,
  type: 'VARCHAR' | 'BOOLEAN' = 'VARCHAR',
): Column => ({
  name: `overview_${property}`,
  type,
  from: { freeForm: 'overview', property },
  description,
})
export const kept = (name: string, type: ColumnType, description: string): Column => ({
  name,
  type,
  from: { kept: true },
  description,
})
export const keptCount = (name: string, description: string): Column => kept(name, 'BIGINT', description)
export const internal = (name: string, type: ColumnType, from: Source, description: string): Column => ({
  name,
  type,
  from,
  description,
  internal: true,
})
