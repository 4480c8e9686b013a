/**
 * The parts of Metabase's answers that are read here. Its API is documented by its source code: each endpoint's
 * `defendpoint` names its parameters and body. What is sent and read here, and what `test/support/metabase/api.ts`
 * accepts, comes from these files of metabase/metabase below `src/metabase/`, each at the commit named (2025 and
 * 2026). What a running Metabase 0.63.2 did besides is in `docs/operating/metabase.md`.
 *
 *     session/api.clj 00309a4              settings_rest/api.clj 038837f       warehouses_rest/api.clj 004f0ce
 *     setup_rest/api.clj 038837f           permissions_rest/api.clj 02a18f3    queries_rest/api/card.clj 00f4566
 *     users_rest/api.clj 001e7ea           collections_rest/api.clj 00f7311    dashboards_rest/api.clj 0085ec3
 *     api_keys/api.clj 06f5232             warehouse_schema_rest/api/table.clj 038837f, field.clj 09511cc
 *     parameters/schema.cljc 0db24ad       lib/schema/parameter.cljc 01dcb8f, template_tag.cljc 0d6ec30
 *
 * The driver for Trino: `modules/drivers/starburst/`, its `metabase-plugin.yaml` 8545e80 and `starburst.clj` 50ed6a8.
 * DuckDB's driver: motherduckdb/metabase_duckdb_driver, `src/metabase/driver/duckdb.clj` 021b264 and
 * `resources/metabase-plugin.yaml` 46ab502.
 */

/** `GET /api/session/properties`, which needs no login: public settings. */
export type Properties = {
  readonly 'has-user-setup': boolean
  /** Null once there is a user. */
  readonly 'setup-token': string | null
  readonly version?: { readonly tag?: string }
}

/** `GET /api/database/:id`. */
export type MetabaseDatabase = {
  readonly id: number
  readonly name: string
  readonly engine: string
  readonly description: string | null
  /** Absent if this user may not change the database. */
  readonly details?: Readonly<Record<string, unknown>>
  /** Seconds for which answers are kept; absent or null if it is not set here. Paid editions only. */
  readonly cache_ttl?: number | null
  readonly initial_sync_status: 'incomplete' | 'complete' | 'aborted'
}

export type MetabaseField = {
  readonly id: number
  readonly name: string
  readonly display_name: string
  readonly description: string | null
  readonly semantic_type: string | null
  readonly fk_target_field_id: number | null
  readonly settings: Readonly<Record<string, unknown>> | null
}

/** A table in the answer to `GET /api/database/:id/metadata`. */
export type MetabaseTable = {
  readonly id: number
  readonly name: string
  readonly schema: string
  readonly display_name: string
  readonly description: string | null
  readonly fields: readonly MetabaseField[]
}

/** `GET /api/setting`, an element of the list. */
export type MetabaseSetting = {
  readonly key: string
  /** Null if it is the default. */
  readonly value: unknown
  readonly is_env_setting: boolean
}

/** A collection; `root` is the id of the root collection. */
export type MetabaseCollection = {
  readonly id: number | 'root'
  readonly name: string
  readonly description?: string | null
}

/** A card in `GET /api/card`, or a dashboard in `GET /api/dashboard`. */
export type MetabaseItem = {
  readonly id: number
  readonly name: string
  readonly description: string | null
  /** A person, or the user that Metabase has for an API key. */
  readonly creator?: { readonly id: number; readonly email?: string } | null
  /** In the trash. */
  readonly archived?: boolean
}

export type MetabaseDashcard = {
  readonly id: number
  readonly card_id: number | null
  readonly dashboard_tab_id?: number | null
} & Readonly<Record<string, unknown>>

/** `GET /api/dashboard/:id`. */
export type MetabaseDashboard = {
  readonly id: number
  readonly name: string
  readonly description: string | null
  readonly archived?: boolean
  readonly dashcards: readonly MetabaseDashcard[]
  readonly tabs?: readonly { readonly id: number; readonly name: string }[]
}
