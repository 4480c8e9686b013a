import { isDeepStrictEqual } from 'node:util'
import { MAIN, sortOrderOf, type TableMetadata } from './metadata.ts'

/** The changes to a table that a REST catalog is asked for; names are those of its specification. */
export type TableChange = {
  readonly table: string
  readonly requirements: readonly object[]
  readonly updates: readonly object[]
  /** The metadata after the change. */
  readonly next: TableMetadata
}

/** Returns null if nothing changes. The catalog refuses it if another program changed the table since `before`. */
export function changeOf(table: string, before: TableMetadata, next: TableMetadata): TableChange | null {
  const updates = [
    ...schemaUpdates(before, next),
    ...sortUpdates(before, next),
    ...propertyUpdates(before, next),
    ...snapshotUpdates(before, next),
    ...refUpdates(before, next),
    ...removals(before, next),
  ]
  if (updates.length === 0) return null
  const present = before.refs[MAIN]?.['snapshot-id'] ?? null
  const requirements = [
    { type: 'assert-table-uuid', uuid: before['table-uuid'] },
    { type: 'assert-ref-snapshot-id', ref: MAIN, 'snapshot-id': present },
  ]
  return { table, requirements, updates, next }
}

function schemaUpdates(before: TableMetadata, next: TableMetadata): object[] {
  const id = next['current-schema-id']
  if (id === before['current-schema-id']) return []
  const isKnown = (one: { readonly 'schema-id': number }) => one['schema-id'] === id
  const added = before.schemas.some(isKnown) ? undefined : next.schemas.find(isKnown)
  if (!added) return [{ action: 'set-current-schema', 'schema-id': id }]
  return [
    { action: 'add-schema', schema: added, 'last-column-id': next['last-column-id'] },
    // The schema that was added last, whatever number the catalog gives it.
    { action: 'set-current-schema', 'schema-id': -1 },
  ]
}

function sortUpdates(before: TableMetadata, next: TableMetadata): object[] {
  const order = sortOrderOf(next)
  if (isDeepStrictEqual(sortOrderOf(before).fields, order.fields)) return []
  return [
    { action: 'add-sort-order', 'sort-order': order },
    // The order that was added last.
    { action: 'set-default-sort-order', 'sort-order-id': -1 },
  ]
}

function propertyUpdates({ properties: before }: TableMetadata, { properties }: TableMetadata): object[] {
  const changed = Object.entries(properties).filter(([name, value]) => before[name] !== value)
  return changed.length === 0 ? [] : [{ action: 'set-properties', updates: Object.fromEntries(changed) }]
}

function snapshotUpdates(before: TableMetadata, next: TableMetadata): object[] {
  const known = new Set(before.snapshots.map(one => one['snapshot-id']))
  const added = next.snapshots.filter(one => !known.has(one['snapshot-id']))
  return added.map(snapshot => ({ action: 'add-snapshot', snapshot }))
}

function refUpdates({ refs: before }: TableMetadata, { refs }: TableMetadata): object[] {
  const changed = Object.entries(refs).filter(
    ([name, ref]) => before[name]?.['snapshot-id'] !== ref['snapshot-id'],
  )
  return changed.map(([name, ref]) => ({
    action: 'set-snapshot-ref',
    'ref-name': name,
    'snapshot-id': ref['snapshot-id'],
    type: ref.type,
  }))
}

function removals(before: TableMetadata, next: TableMetadata): object[] {
  const refs = Object.keys(before.refs).filter(name => !(name in next.refs))
  const kept = new Set(next.snapshots.map(one => one['snapshot-id']))
  const ids = before.snapshots.map(one => one['snapshot-id']).filter(id => !kept.has(id))
  return [
    ...refs.map(name => ({ action: 'remove-snapshot-ref', 'ref-name': name })),
    ...(ids.length === 0 ? [] : [{ action: 'remove-snapshots', 'snapshot-ids': ids }]),
  ]
}
