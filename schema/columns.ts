/** Columns and tables, and the columns that several tables have. */

export type ColumnType = 'VARCHAR' | 'DOUBLE' | 'BIGINT' | 'UBIGINT' | 'INTEGER' | 'BOOLEAN' | 'TIMESTAMPTZ'

type FreeForm = { readonly freeForm: string; readonly property: string }

/** The source of a column's value. */
export type Source =
  /** A field of the table's document (or of the element, in a child table), by dotted path. */
  | { readonly field: string; readonly json?: true }
  /** A property of a free-form object: in a boolean column only if boolean; in a text column as text or JSON text. */
  | FreeForm
  /** A property of the log line that carried the document. */
  | { readonly line: 'edital_id' | 'run_id' | 'at' | 'updated_at' | 'hash' | 'fetched_at' | 'segment' }
  /** A time of the log line, as what all texts of that time have in common: for comparisons. */
  | { readonly timeOf: 'notice.updated_at' | 'source_updated_at' }
  /**
   * The table's times, by field, as JSON text, that the instant in their column cannot reproduce: a date alone, local
   * time, more than six decimals. NULL if there are none.
   */
  | { readonly timesAsSent: true }
  /** Which of these objects are in the document but have no field with a column; a JSON array, or NULL. */
  | { readonly emptyOf: readonly string[] }
  /** The deadlines in these two texts, read by `src/deadlines/reading.ts`; JSON text, or NULL if both are absent. */
  | { readonly deadlinesIn: { readonly text: FreeForm; readonly law: FreeForm } }
  /** A part of `pncp_id` (`pncp_id.ts`); NULL if it cannot be read. */
  | { readonly pncpIdPart: 'cnpj' | 'year' | 'sequence' }
  /** The clean form of this text field (`schema/text_key.ts`); NULL if it is the field itself. */
  | { readonly cleanOf: string }
  /** Position of the element in its array, from 1. */
  | { readonly ordinal: true }
  /** The company's slug, the same in every row; added when a snapshot is written. */
  | { readonly company: true }
  /** Written by the statements of `src/core/warehouse/projection.ts`, because it depends on more than one line. */
  | { readonly kept: true }

/** In Brazilian Portuguese: a short name, unique among a table's columns, and one line with units and values. */
export type Portuguese = readonly [label: string, description: string]

type AnyColumn = {
  readonly name: string
  readonly type: ColumnType
  readonly from: Source
  readonly description: string
  /** SCHEMA_VERSION (`src/core/warehouse/schema.ts`) since the column is there; absent for the first columns. */
  readonly since?: number
}

export type PublishedColumn = AnyColumn & { readonly unit?: string; readonly portuguese: Portuguese }

/** Bookkeeping that stays in the warehouse. */
type InternalColumn = AnyColumn & { readonly internal: true }

export type Column = PublishedColumn | InternalColumn

export type Table = {
  readonly name: string
  readonly description: string
  readonly portuguese: Portuguese
  /** Which document of the log fills it; `kept` tables are written by separate statements. */
  readonly document: 'notice' | 'analysis' | 'kept'
  /** The array of the document whose elements are this table's rows. */
  readonly each?: 'requirements' | 'items' | 'alerts'
  /** `current`: a notice's rows are replaced; `history`: rows are only added. */
  readonly rows: 'current' | 'history'
  /** Published as one file per month of the notice's `created_at`, or as one file. */
  readonly files: 'by_month' | 'one'
  readonly columns: readonly Column[]
}

export const BRL = 'BRL'

export const company: PublishedColumn = {
  name: 'company',
  type: 'VARCHAR',
  from: { company: true },
  description: 'Company (slug) that follows the notice',
  portuguese: ['Empresa', 'Identificador curto da empresa que acompanha o edital'],
}
export const editalId: PublishedColumn = {
  name: 'edital_id',
  type: 'VARCHAR',
  from: { line: 'edital_id' },
  description: "The API's id of the notice for this company; joins all tables",
  portuguese: ['ID do edital', 'Identificador do edital na origem, para esta empresa; liga todas as tabelas'],
}
export const runId: PublishedColumn = {
  name: 'run_id',
  type: 'VARCHAR',
  from: { line: 'run_id' },
  description: 'Run that wrote this row (sync_runs)',
  portuguese: ['Execução', 'Execução da sincronização que gravou esta linha (ver sync_runs)'],
}
export const ordinal: PublishedColumn = {
  name: 'ordinal',
  type: 'INTEGER',
  from: { ordinal: true },
  description: "Position in the analysis's list, from 1",
  portuguese: [
    'Posição na lista',
    'Posição na lista da análise, a partir de 1; com o ID do edital identifica a linha',
  ],
}
export const observedAt: PublishedColumn = {
  name: 'observed_at',
  type: 'TIMESTAMPTZ',
  from: { line: 'at' },
  description: 'When this version was first observed',
  portuguese: [
    'Observado em (UTC)',
    'Quando nós vimos esta versão pela primeira vez, não quando a mudança ocorreu',
  ],
}

/** Returns a column that the statements of `src/core/warehouse/projection.ts` write. */
export function kept(
  name: string,
  type: ColumnType,
  description: string,
  portuguese: Portuguese,
): PublishedColumn {
  return { name, type, from: { kept: true }, description, portuguese }
}

export function internal(name: string, type: ColumnType, from: Source, description: string): InternalColumn {
  return { name, type, from, description, internal: true }
}

type Described = { readonly description: string; readonly portuguese: Portuguese; readonly unit?: string }

/**
 * Returns the comment on a table, a mart or a column in the catalog and in Metabase: in Portuguese, then in English, with the
 * unit.
 */
export function composeComment({ description, portuguese: [label, inPortuguese], unit }: Described): string {
  return `${label}: ${inPortuguese} (${description}${unit ? ` [${unit}]` : ''})`
}
