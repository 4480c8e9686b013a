import { z } from 'zod'

/**
 * What the used endpoints of Metabase accept, by its sources (`src/extras/metabase/client.ts` names them). The
 * newest have closed maps, which reject any other property. Here all are closed, and narrower than in Metabase if it
 * would ignore a value.
 */

const positive = z.int().positive()
const nonBlank = z.string().trim().min(1)
const settingsMap = z.record(z.string(), z.unknown())

/** `sensitive`: Metabase's default rule for passwords (`ms/ValidPassword`). */
const password = z.string().min(6).regex(/\d/)

const templateTag = z.strictObject({
  id: z.uuid(),
  name: nonBlank,
  'display-name': nonBlank,
  type: z.enum(['text', 'number', 'date', 'boolean']),
})

/** The native form of `::lib-be.schema/maybe-legacy-query`. */
const legacyQuery = z
  .strictObject({
    database: positive,
    type: z.literal('native'),
    native: z.strictObject({
      query: nonBlank,
      'template-tags': z.record(z.string(), templateTag).optional(),
    }),
  })
  .refine(
    ({ native }) => Object.entries(native['template-tags'] ?? {}).every(([key, { name }]) => key === name),
    'keys in template tag map must match the :name of their values',
  )
  .refine(({ native }) => {
    const used = new Set([...native.query.matchAll(/\{\{\s*(\w+)\s*\}\}/g)].map(([, name]) => name))
    return (
      [...used].sort().join() ===
      Object.keys(native['template-tags'] ?? {})
        .sort()
        .join()
    )
  }, 'the variables of the SQL are not the template tags')

const target = z.tuple([z.literal('variable'), z.tuple([z.literal('template-tag'), nonBlank])])
const parameter = z.strictObject({
  id: nonBlank,
  // The types allowed for a text variable (`lib.schema.parameter/types`, `:allowed-for`).
  type: z.enum(['string/=', 'category', 'text']),
  name: z.string(),
  slug: z.string(),
  target: target.optional(),
  sectionId: nonBlank.optional(),
  isMultiSelect: z.boolean().optional(),
  values_query_type: z.enum(['none', 'list', 'search']).optional(),
  values_source_type: z.enum(['static-list', 'card']).optional(),
  values_source_config: z.strictObject({ values: z.array(z.string()) }).optional(),
})
const parameterMapping = z.strictObject({ parameter_id: nonBlank, target, card_id: positive })

/** Displays of Metabase's frontend; the server takes any text. */
const display = z.literal(['scalar', 'table', 'funnel', 'bar', 'row', 'line', 'area', 'pie', 'pivot'])

const dashcard = z.strictObject({
  id: z.int(),
  size_x: positive.max(24),
  size_y: positive,
  row: z.int().nonnegative(),
  col: z.int().nonnegative().max(23),
  card_id: positive.nullish(),
  action_id: positive.nullish(),
  dashboard_tab_id: z.int().nullish(),
  parameter_mappings: z.array(parameterMapping).nullish(),
  visualization_settings: settingsMap.nullish(),
  inline_parameters: z.array(nonBlank).nullish(),
  series: z.array(z.strictObject({ id: positive })).nullish(),
})

/** The driver's properties (`resources/metabase-plugin.yaml`); others would go to DuckDB as unknown options. */
const details = z.strictObject({
  database_file: nonBlank,
  read_only: z.boolean().optional(),
  old_implicit_casting: z.boolean().optional(),
  allow_unsigned_extensions: z.boolean().optional(),
  memory_limit: z.string().optional(),
  init_sql: z.string().optional(),
  'additional-options': z.string().optional(),
})

/** The same of Metabase's driver for Trino. The password is optional in Metabase; here it is never sent. */
const trinoDetails = z.strictObject({
  host: nonBlank,
  port: positive.max(65_535),
  catalog: nonBlank,
  schema: nonBlank.optional(),
  user: nonBlank.optional(),
  ssl: z.boolean().optional(),
  // The driver takes only the properties that it knows; Metabase keeps the others.
  'editais-sync': nonBlank.optional(),
})

const cardProperties = {
  display,
  visualization_settings: settingsMap,
  dataset_query: legacyQuery,
  parameters: z.array(parameter).optional(),
}

const newDatabase = {
  name: nonBlank,
  is_full_sync: z.boolean().optional(),
  is_on_demand: z.boolean().optional(),
  auto_run_queries: z.boolean().optional(),
}

/** Bodies by endpoint; a path parameter is `:id`. */
export const BODIES: Readonly<Record<string, z.ZodType>> = {
  'POST /api/setup': z.strictObject({
    token: nonBlank,
    user: z.strictObject({
      email: z.email(),
      password,
      first_name: nonBlank.nullish(),
      last_name: nonBlank.nullish(),
    }),
    prefs: z.strictObject({
      site_name: nonBlank,
      site_locale: z.enum(['en', 'pt_BR']).nullish(),
      allow_tracking: z.boolean().nullish(),
    }),
  }),
  'POST /api/session': z.strictObject({ username: nonBlank, password: nonBlank }),
  'DELETE /api/session': z.undefined(),
  'POST /api/api-key': z.strictObject({ name: nonBlank, group_id: positive }),
  'PUT /api/setting/:key': z.strictObject({ value: z.unknown() }),
  'POST /api/database': z.discriminatedUnion('engine', [
    z.strictObject({ ...newDatabase, engine: z.literal('duckdb'), details }),
    z.strictObject({ ...newDatabase, engine: z.literal('starburst'), details: trinoDetails }),
  ]),
  'PUT /api/database/:id': z.strictObject({
    name: nonBlank.nullish(),
    details: z.union([details, trinoDetails]).nullish(),
    description: z.string().nullish(),
    cache_ttl: positive.nullish(),
  }),
  'POST /api/database/:id/sync_schema': z.undefined(),
  'PUT /api/table/:id': z.strictObject({
    display_name: nonBlank.nullish(),
    description: z.string().nullish(),
    visibility_type: z.enum(['details-only', 'hidden', 'technical', 'cruft']).nullish(),
  }),
  'PUT /api/field/:id': z.strictObject({
    display_name: nonBlank.nullish(),
    description: nonBlank.nullish(),
    fk_target_field_id: positive.nullish(),
    // The semantic and relation types of `metabase.types` that are used.
    semantic_type: z
      .literal([
        ...(['type/PK', 'type/FK', 'type/Category', 'type/State', 'type/Company', 'type/URL'] as const),
        ...(['type/Title', 'type/Description', 'type/Currency', 'type/Share'] as const),
        ...(['type/CreationTimestamp', 'type/UpdatedTimestamp'] as const),
      ])
      .nullish(),
    settings: settingsMap.nullish(),
  }),
  'POST /api/collection': z.strictObject({
    name: nonBlank,
    description: nonBlank.nullish(),
    parent_id: positive.nullish(),
  }),
  'PUT /api/collection/:id': z.strictObject({
    name: nonBlank.optional(),
    description: nonBlank.nullish(),
    archived: z.boolean().nullish(),
  }),
  'POST /api/card': z.strictObject({
    name: nonBlank,
    description: nonBlank.nullish(),
    type: z.enum(['question', 'model', 'metric']).nullish(),
    collection_id: positive.nullish(),
    ...cardProperties,
  }),
  'PUT /api/card/:id': z
    .strictObject({
      name: nonBlank,
      description: z.string().nullish(),
      archived: z.boolean(),
      collection_id: positive,
      ...cardProperties,
    })
    .partial(),
  'POST /api/card/:id/copy': z.undefined(),
  'POST /api/dashboard': z.strictObject({
    name: nonBlank,
    description: z.string().nullish(),
    parameters: z.array(parameter).nullish(),
    collection_id: positive.nullish(),
    collection_position: positive.nullish(),
  }),
  'POST /api/dashboard/:id/copy': z.strictObject({
    name: nonBlank.nullish(),
    description: z.string().nullish(),
    collection_id: positive.nullish(),
    is_deep_copy: z.boolean().nullish(),
  }),
  'PUT /api/dashboard/:id': z.strictObject({
    name: nonBlank.nullish(),
    points_of_interest: z.string().nullish(),
    archived: z.boolean().nullish(),
    collection_id: positive.nullish(),
    description: z.string().nullish(),
    parameters: z.array(parameter).nullish(),
    dashcards: unique(z.array(dashcard)).nullish(),
    tabs: unique(z.array(z.strictObject({ id: z.int(), name: nonBlank }))).nullish(),
  }),
}

/** Query parameters by endpoint. */
export const QUERIES: Readonly<Record<string, z.ZodType>> = {
  'GET /api/session/properties': z.strictObject({}),
  'GET /api/user/current': z.strictObject({}),
  'GET /api/permissions/group': z.strictObject({ tenancy: z.enum(['external', 'internal']).optional() }),
  'GET /api/api-key': z.strictObject({}),
  'GET /api/setting': z.strictObject({}),
  'GET /api/database': z.strictObject({ include: z.enum(['tables', 'schemas']).optional() }),
  'GET /api/database/:id': z.strictObject({ include: z.enum(['tables', 'tables.fields']).optional() }),
  'GET /api/database/:id/metadata': z.strictObject({
    include_hidden: z.stringbool().optional(),
    remove_inactive: z.stringbool().optional(),
    skip_fields: z.stringbool().optional(),
  }),
  'GET /api/collection': z.strictObject({ archived: z.stringbool().optional() }),
  'GET /api/card': z
    .strictObject({
      f: z.enum(['all', 'database', 'archived']),
      model_id: z.coerce.number().int().positive().optional(),
    })
    .refine(
      ({ f, model_id: id }) => f !== 'database' || id !== undefined,
      'model_id is a required parameter',
    ),
  'GET /api/card/:id': z.strictObject({ 'legacy-mbql': z.stringbool().optional() }),
  'GET /api/dashboard': z.strictObject({ f: z.enum(['all', 'mine', 'archived']).optional() }),
  'GET /api/dashboard/:id': z.strictObject({ dashboard_load_id: nonBlank.optional() }),
}

/** Endpoints that need no login. */
export const PUBLIC: ReadonlySet<string> = new Set([
  'GET /api/session/properties',
  'POST /api/session',
  'POST /api/setup',
])

function unique<T extends { id: number }>(list: z.ZodType<T[]>) {
  return list.refine(those => new Set(those.map(({ id }) => id)).size === those.length, 'ids are not unique')
}
