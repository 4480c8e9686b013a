import { setTimeout as wait } from 'node:timers/promises'
import { composeComment } from '#schema/columns.ts'
import type { Relation } from '#src/core/lake/catalog.ts'
import { throwIfInterrupted } from '#src/lib/errors.ts'
import { CATALOG } from '#src/marts/marts.ts'
import { isTechnical } from '#src/present/text/cells.ts'
import { CONNECTIONS, type Metabase, type MetabaseField, type MetabaseTable } from './client.ts'
import { syncSchema } from './database.ts'
import { covers } from './mark.ts'

export type MetabasePatience = {
  /** How long Metabase may take to read a schema, and how often this is checked. */
  readonly syncMs: number
  readonly pollMs: number
  readonly signal: AbortSignal
}

type Where = {
  /** Metabase then reads its schema without being asked. */
  readonly justMade: boolean
  /** The schema that has the tables. */
  readonly schema: string
}

type Described = {
  readonly tables: number
  readonly fields: number
  /** Tables and columns that Metabase has not read yet; a later run describes them. */
  readonly missing: readonly string[]
}

/**
 * Sets Portuguese names and descriptions, semantic types and foreign keys of tables and columns, if they differ, and hides technical
 * tables of a database that was just made.
 * If Metabase lacks part of the schema, it is asked to read the schema first.
 */
export async function describeTables(
  client: Metabase,
  databaseId: number,
  patience: MetabasePatience & Where,
): Promise<Described> {
  const meanings = listRelationMeanings()
  const tables = await readTables(client, databaseId, meanings, patience)
  const ids = new Map(
    [...tables.values()].flatMap(table =>
      table.fields.map(field => [`${table.name}.${field.name}`, field.id] as const),
    ),
  )
  const changes: [path: string, change: object][] = []
  let changedTables = 0
  for (const meaning of meanings) {
    const table = tables.get(meaning.name)
    if (!table) continue
    const wanted = { display_name: meaning.label, description: meaning.description }
    // Never later: if a person shows it, it stays, and the next run names its columns.
    const hides = isTechnical(meaning) && patience.justMade && table.visibility_type == null
    if (hides || !covers(table, wanted)) {
      await client.put(`/api/table/${table.id}`, {
        ...wanted,
        ...(hides && { visibility_type: 'technical' }),
      })
      changedTables += 1
    }
    if (hides || isHidden(table)) continue
    for (const [field, column] of pairs(table, meaning)) {
      const change = fieldChange(field, column, ids)
      if (change) changes.push([`/api/field/${field.id}`, change])
    }
  }
  // There is no call for several columns; one after another, those of a new Metabase take a minute.
  const left = changes.toReversed()
  const putAll = async () => {
    for (let one = left.pop(); one; one = left.pop()) await client.put(...one)
  }
  // Nothing is sent any more once one has failed.
  const stop = (error: unknown) => {
    left.length = 0
    return { error }
  }
  const ended = Array.from({ length: CONNECTIONS }, () => putAll().catch(stop))
  for (const end of await Promise.all(ended)) if (end) throw end.error
  return { tables: changedTables, fields: changes.length, missing: listMissing(meanings, tables) }
}

/** Metabase reads no columns of a hidden table. */
const isHidden = (table: MetabaseTable) => table.visibility_type != null

/** Returns the tables by name, as soon as all are there or `syncMs` is over. */
async function readTables(
  client: Metabase,
  databaseId: number,
  meanings: readonly RelationMeaning[],
  { justMade, schema, syncMs, pollMs, signal }: MetabasePatience & Where,
): Promise<ReadonlyMap<string, MetabaseTable>> {
  const read = async () => {
    const { tables } = await client.get<{ tables: readonly MetabaseTable[] }>(
      `/api/database/${databaseId}/metadata`,
      // Includes hidden tables and columns: they are not missing.
      { include_hidden: true, remove_inactive: true },
    )
    return new Map(tables.filter(table => table.schema === schema).map(table => [table.name, table]))
  }
  let tables = await read()
  if (listMissing(meanings, tables).length === 0) return tables
  // Metabase already reads a new database.
  if (!justMade) await syncSchema(client, databaseId)
  for (let waitedMs = 0; waitedMs < syncMs; waitedMs += pollMs) {
    throwIfInterrupted(signal)
    await wait(pollMs)
    tables = await read()
    if (listMissing(meanings, tables).length === 0) break
  }
  return tables
}

function listMissing(
  meanings: readonly RelationMeaning[],
  tables: ReadonlyMap<string, MetabaseTable>,
): string[] {
  return meanings.flatMap(({ name, columns }) => {
    const table = tables.get(name)
    if (!table) return [name]
    if (isHidden(table)) return []
    const known = new Set(table.fields.map(field => field.name))
    return columns.filter(column => !known.has(column.name)).map(column => `${name}.${column.name}`)
  })
}

function pairs(
  table: MetabaseTable,
  { columns }: RelationMeaning,
): [field: MetabaseField, column: ColumnMeaning][] {
  const fields = new Map(table.fields.map(field => [field.name, field]))
  return columns.flatMap(column => {
    const field = fields.get(column.name)
    return field ? [[field, column] as [MetabaseField, ColumnMeaning]] : []
  })
}

/** Returns what to send for a column; null if there is nothing to change. */
function fieldChange(
  field: MetabaseField,
  { label, description, semanticType, references, settings }: ColumnMeaning,
  ids: ReadonlyMap<string, number>,
): object | null {
  const target = references === undefined ? undefined : ids.get(references)
  const wanted = {
    display_name: label,
    description,
    // A foreign key needs its target.
    ...(semanticType && (references === undefined || target) ? { semantic_type: semanticType } : {}),
    ...(target ? { fk_target_field_id: target } : {}),
  }
  const asWanted = covers(field, wanted) && (settings === undefined || covers(field.settings, settings))
  if (asWanted) return null
  // A PUT replaces all settings, so the existing ones are sent as well.
  return { ...wanted, ...(settings ? { settings: { ...field.settings, ...settings } } : {}) }
}

/** The meaning of a column for Metabase. */
type ColumnMeaning = {
  readonly name: string
  readonly label: string
  readonly description: string
  /** One of Metabase's types; absent if Metabase's own guess may stay. */
  readonly semanticType?: string
  /** The `table.column` that a foreign key refers to. */
  readonly references?: string
  /** How numbers are formatted. */
  readonly settings?: Readonly<Record<string, unknown>>
}

type RelationMeaning = {
  readonly name: string
  readonly label: string
  readonly description: string
  readonly columns: readonly ColumnMeaning[]
}

/** Key columns by name, with the table whose rows they identify. */
const KEYS: Readonly<Record<string, string>> = { edital_id: 'editais', run_id: 'sync_runs' }

const BY_NAME: Readonly<Record<string, string>> = {
  uf: 'type/State',
  orgao: 'type/Company',
  pncp_url: 'type/URL',
  created_at: 'type/CreationTimestamp',
  updated_at: 'type/UpdatedTimestamp',
  objeto: 'type/Description',
  descricao: 'type/Description',
  description: 'type/Description',
  verdict_reason: 'type/Description',
  verdict_summary: 'type/Description',
  ai_notes: 'type/Description',
  ai_reasoning: 'type/Description',
  exigido: 'type/Description',
  notas: 'type/Description',
  titulo: 'type/Title',
  title: 'type/Title',
  parcela_descartada: 'type/Share',
}

const CATEGORIES: ReadonlySet<string> = new Set(
  [
    'company status fase modalidade analysis_state analysis_level discard_reason verdict_recommendation',
    'severity severidade type action_type acao category categoria cor risco_pagamento',
    'risco_pagamento_fonte risco_pagamento_orgao risco_pagamento_precificacao material_ou_servico',
    'unidade_medida motivo campo de_status para_status de_fase para_fase dia_da_semana situacao_sessao',
    'recomendacao nivel_analise categoria_rotulo tipo mode kind',
  ].flatMap(line => line.split(' ')),
)

/** Returns every table and mart of a catalog, as Metabase users see it. */
export function listRelationMeanings(): RelationMeaning[] {
  return CATALOG.map(relation => ({
    name: relation.name,
    label: relation.portuguese[0],
    description: composeComment(relation),
    columns: relation.columns.map(column => ({
      name: column.name,
      label: column.portuguese[0],
      description: composeComment(column),
      ...chooseSemantic(relation.name, column),
    })),
  }))
}

function chooseSemantic(
  relation: string,
  { name, unit }: Relation['columns'][number],
): Pick<ColumnMeaning, 'semanticType' | 'references' | 'settings'> {
  const home = Object.hasOwn(KEYS, name) ? KEYS[name] : undefined
  if (home === relation) return { semanticType: 'type/PK' }
  if (home) return { semanticType: 'type/FK', references: `${home}.${name}` }
  if (unit === 'BRL') {
    return {
      semanticType: 'type/Currency',
      settings: { number_style: 'currency', currency: 'BRL', currency_style: 'symbol' },
    }
  }
  if (CATEGORIES.has(name)) return { semanticType: 'type/Category' }
  const semanticType = Object.hasOwn(BY_NAME, name) ? BY_NAME[name] : undefined
  return semanticType ? { semanticType } : {}
}
