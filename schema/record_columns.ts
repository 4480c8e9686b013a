import type { ColumnType, PublishedColumn, Source } from './columns.ts'
import type { Fields, Value, ValueType } from './record.ts'

const COLUMN_TYPES: Readonly<Record<ValueType, ColumnType>> = {
  id: 'VARCHAR',
  string: 'VARCHAR',
  'date-time': 'TIMESTAMPTZ',
  integer: 'BIGINT',
  number: 'DOUBLE',
  double: 'DOUBLE',
  boolean: 'BOOLEAN',
  strings: 'VARCHAR',
  object: 'VARCHAR',
  any: 'VARCHAR',
}

/**
 * Returns the columns of a document's fields, in their order. An object's fields become `<object>_<field>`; lists are tables
 * of their own.
 */
export function columnsOf(fields: Fields): PublishedColumn[] {
  return Object.entries(fields).flatMap(([name, field]) => {
    if ('each' in field) return []
    if ('type' in field) return valueColumns(name, field, { field: name })
    const { part, description, portuguese } = field
    const inner = Object.entries(part.fields).flatMap(([property, value]) =>
      valueColumns(
        `${name}_${property}`,
        value,
        part.freeForm ? { freeForm: name, property } : { field: `${name}.${property}` },
      ),
    )
    if (description === undefined || portuguese === undefined) return inner
    return [...inner, ...valueColumns(name, { type: 'object', description, portuguese }, { field: name })]
  })
}

function valueColumns(name: string, value: Value, from: Source): PublishedColumn[] {
  if (value.column === false) return []
  const { description, portuguese, unit, since, derived = [] } = value
  const isJson = value.type === 'strings' || value.type === 'object'
  const column: PublishedColumn = {
    name,
    type: COLUMN_TYPES[value.type],
    from: isJson && 'field' in from ? { ...from, json: true } : from,
    description: isJson ? `${description} (JSON text)` : description,
    ...(unit !== undefined && { unit }),
    ...(since !== undefined && { since }),
    portuguese,
  }
  return [column, ...derived]
}
