import { createHash } from 'node:crypto'
import type { CardSpec, FilterSpec } from '#config/metabase/dashboards.ts'

/** Returns the filters that a card's SQL uses. */
export function filtersOf(sql: string, filters: readonly FilterSpec[]): FilterSpec[] {
  return filters.filter(({ key }) => sql.includes(`{{${key}}}`))
}

/**
 * Makes the native query of a card, in the form that Metabase calls legacy MBQL and accepts from every client
 * (`::lib-be.schema/maybe-legacy-query`), with a text variable for each filter.
 */
export function nativeQuery(databaseId: number, sql: string, filters: readonly FilterSpec[]) {
  return {
    database: databaseId,
    type: 'native',
    native: {
      query: sql,
      'template-tags': Object.fromEntries(
        filters.map(({ key, name }) => [
          key,
          { id: tagId(key), name: key, 'display-name': name, type: 'text' },
        ]),
      ),
    },
  }
}

/** Makes the parameters of a card, as Metabase's editor derives them from its variables. */
export function cardParameters(filters: readonly FilterSpec[]) {
  return filters.map(({ key, name }) => ({
    id: tagId(key),
    type: 'string/=',
    target: variable(key),
    name,
    slug: key,
  }))
}

/** Makes a filter of a dashboard that selects one value of a list. */
export function dashboardParameter({ key, name, values }: FilterSpec) {
  return {
    id: key,
    name,
    slug: key,
    type: 'string/=',
    sectionId: 'string',
    // A variable holds one value.
    isMultiSelect: false,
    values_query_type: 'list',
    values_source_type: 'static-list',
    values_source_config: { values },
  }
}

export function parameterMapping(cardId: number, { key }: FilterSpec) {
  return { parameter_id: key, card_id: cardId, target: variable(key) }
}

/** Returns position and size of a card on its dashboard. */
export function placeCard({ at }: CardSpec) {
  return { row: at.row, col: at.col, size_x: at.width, size_y: at.height }
}

function variable(key: string) {
  return ['variable', ['template-tag', key]]
}

/** Returns a stable UUID: cards must not change from run to run. */
function tagId(key: string): string {
  const hex = createHash('sha256').update(`editais-sync ${key}`).digest('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`
}
