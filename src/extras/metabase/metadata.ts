import { setTimeout as wait } from 'node:timers/promises'
import { throwIfInterrupted } from '#src/lib/errors.ts'
import type { MetabaseField, MetabaseTable } from './answers.ts'
import type { Metabase } from './client.ts'
import { covers } from './covers.ts'
import { syncSchema } from './point.ts'
import { type ColumnMeaning, type RelationMeaning, relationMeanings } from './semantics.ts'

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
 * Sets Portuguese names and descriptions, semantic types and foreign keys of tables and columns, if they differ.
 * If Metabase lacks part of the schema, it is asked to read the schema first.
 */
export async function describeTables(
  client: Metabase,
  databaseId: number,
  patience: MetabasePatience & Where,
): Promise<Described> {
  const meanings = relationMeanings()
  const tables = await readTables(client, databaseId, meanings, patience)
  const idOf = new Map(
    [...tables.values()].flatMap(table =>
      table.fields.map(field => [`${table.name}.${field.name}`, field.id] as const),
    ),
  )
  const changed = { tables: 0, fields: 0 }
  for (const meaning of meanings) {
    const table = tables.get(meaning.name)
    if (!table) continue
    const wanted = { display_name: meaning.label, description: meaning.description }
    if (!covers(table, wanted)) {
      await client.put(`/api/table/${table.id}`, wanted)
      changed.tables += 1
    }
    for (const [field, column] of pairs(table, meaning)) {
      const change = fieldChange(field, column, idOf)
      if (!change) continue
      await client.put(`/api/field/${field.id}`, change)
      changed.fields += 1
    }
  }
  return { ...changed, missing: missingOf(meanings, tables) }
}

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
  if (missingOf(meanings, tables).length === 0) return tables
  // Metabase already reads a new database.
  if (!justMade) await syncSchema(client, databaseId)
  for (let waitedMs = 0; waitedMs < syncMs; waitedMs += pollMs) {
    throwIfInterrupted(signal)
    await wait(pollMs)
    tables = await read()
    if (missingOf(meanings, tables).length === 0) break
  }
  return tables
}

function missingOf(
  meanings: readonly RelationMeaning[],
  tables: ReadonlyMap<string, MetabaseTable>,
): string[] {
  return meanings.flatMap(({ name, columns }) => {
    const table = tables.get(name)
    if (!table) return [name]
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
  idOf: ReadonlyMap<string, number>,
): object | null {
  const target = references === undefined ? undefined : idOf.get(references)
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
