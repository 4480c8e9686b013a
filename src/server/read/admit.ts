import type { Database } from '#src/core/warehouse/database.ts'
import { FatalError } from '#src/lib/errors.ts'
import { CATALOG } from '#src/marts/marts.ts'
import { COMPUTING } from '#src/present/sql/fence.ts'
import { MAX_SQL_LENGTH } from './order.ts'

/*
 * The fence (`src/present/sql/fence.ts`) keeps SQL away from files. It does not hide what the database knows about itself:
 * settings, the paths of files, definitions of views. So the SQL of MCP is read as a syntax tree before it runs, and
 * may name only what is listed: relations of the catalog, and functions that compute.
 */

const RELATIONS = new Set(CATALOG.map(({ name }) => name))
/** The parts of a query. Everything else, such as statements that write, is refused. */
const NODES = ['SELECT_NODE', 'SET_OPERATION_NODE', 'RECURSIVE_CTE_NODE', 'CTE_NODE']
const TABLE_REFS = [
  'BASE_TABLE',
  'JOIN',
  'SUBQUERY',
  'TABLE_FUNCTION',
  'EXPRESSION_LIST',
  'EMPTY',
  'PIVOT',
  'SHOW_REF',
]
const SCHEMAS = ['', 'main']
/** Names of queries in WITH clauses: outside of their scope, FROM would take others for a file. */
const PLAIN_NAME = /^[\p{L}\p{N}_ -]+$/u

type Node = Readonly<Record<string, unknown>>
type Tree = {
  readonly error: boolean
  readonly error_message?: string
  readonly statements?: readonly { readonly node: Node }[]
}

/**
 * Lets only a single SELECT over the catalog's relations pass.
 * @param db behind the fence, because the SQL is parsed there.
 * @throws FatalError that names what is not allowed.
 */
export async function admitForeign(db: Database, sql: string): Promise<void> {
  if (sql.length > MAX_SQL_LENGTH)
    throw refused(`The SQL has ${sql.length} characters; at most ${MAX_SQL_LENGTH} are allowed.`)
  const { tree } = await db.row<{ tree: string }>('SELECT json_serialize_sql($sql::VARCHAR) AS tree', { sql })
  const { error, error_message: message = '', statements = [] } = parsed(tree)
  if (error && !message.startsWith('Only SELECT')) throw refused(`The SQL cannot be parsed: ${message}.`)
  if (error || statements.length !== 1)
    throw refused('The SQL must be one SELECT statement (also WITH, FROM, VALUES, DESCRIBE or SUMMARIZE).')
  const named = namesOfQueries(statements[0] as object)
  const known = await internalViews(db)
  const wrong = [...named].find(name => known.has(name) || !PLAIN_NAME.test(name))
  if (wrong !== undefined) throw refused(`A query of the WITH clause may not be called ${shown(wrong)}.`)
  for (const node of walkNodes(statements[0] as object)) check(node, named)
}

function parsed(tree: string): Tree {
  try {
    return JSON.parse(tree)
  } catch {
    // DuckDB writes such numbers as `Infinity`, which is no JSON.
    throw refused('A number in the SQL is too large for a DOUBLE.')
  }
}

/** Yields each object in the tree. Not recursive: the client decides how deep the tree is. */
function* walkNodes(root: object): Generator<Node> {
  const waiting: object[] = [root]
  for (let one = waiting.pop(); one; one = waiting.pop()) {
    if (!Array.isArray(one)) yield one as Node
    for (const child of Object.values(one))
      if (child !== null && typeof child === 'object') waiting.push(child)
  }
}

/** Returns the names that WITH clauses give to queries, in lower case. */
function namesOfQueries(root: object): Set<string> {
  const names = new Set<string>()
  for (const node of walkNodes(root)) {
    const { map } = (node.cte_map ?? {}) as { map?: readonly { key: string }[] }
    for (const { key } of map ?? []) names.add(key.toLowerCase())
  }
  return names
}

/**
 * Returns the names of DuckDB's own views. Otherwise a name that a WITH clause gives in one place would open the view of that
 * name in another.
 */
async function internalViews(db: Database): Promise<Set<string>> {
  const views = await db.rows<{ name: string }>(
    'SELECT lower(view_name) AS name FROM duckdb_views() WHERE internal',
  )
  return new Set(views.map(({ name }) => name))
}

/** Throws FatalError if this part of a query is not allowed. */
function check(node: Node, named: ReadonlySet<string>): void {
  const { type } = node
  if (typeof type !== 'string') return
  if (type.endsWith('_NODE') && !NODES.includes(type)) throw refused(`A query may not have a ${shown(type)}.`)
  // Only a part of FROM has both.
  if ('sample' in node && 'alias' in node && !TABLE_REFS.includes(type))
    throw refused(`FROM may not have a ${shown(type)}.`)
  if (type === 'BASE_TABLE') checkTable(node, named)
  if (type === 'SHOW_REF' && node.query === null)
    throw refused('SHOW is not available. DESCRIBE shows the columns of one table or mart.')
  if (type === 'TABLE_FUNCTION') checkTableFunction(node)
  else if (typeof node.function_name === 'string') checkFunction(node, node.function_name)
}

function checkTable(node: Node, named: ReadonlySet<string>): void {
  const name = String(node.table_name).toLowerCase()
  const isOurs = node.catalog_name === '' && SCHEMAS.includes(String(node.schema_name).toLowerCase())
  if (isOurs && (RELATIONS.has(name) || named.has(name))) return
  throw refused(`There is no table or mart ${shown(String(node.table_name))} here.`)
}

function checkTableFunction({ function: called }: Node): void {
  const { function_name: name } = (called ?? {}) as Node
  if (COMPUTING.has(String(name).toLowerCase())) return
  throw refused(`FROM may not call the function ${shown(String(name))}.`)
}

function checkFunction({ schema, catalog }: Node, name: string): void {
  const lower = name.toLowerCase()
  const isPlain = catalog === '' && SCHEMAS.includes(String(schema).toLowerCase())
  if (isPlain && (FUNCTIONS.has(lower) || COMPUTING.has(lower))) return
  throw refused(`The function ${shown(name)} is not available here.`)
}

function shown(name: string): string {
  return JSON.stringify(name.slice(0, 60))
}

function refused(what: string): FatalError {
  return new FatalError(`${what} Queries can only read the tables and marts of the snapshot.`)
}

/*
 * The functions that the SQL of MCP may call: those of DuckDB 1.5.5 that compute values from values. Not those that show
 * settings, variables or plans, run SQL in a text, read what a client could have damaged (states of aggregates, variants),
 * wait, log or draw random numbers. A function of a later DuckDB is refused until it is listed here.
 */

const words = (text: string): string[] => text.trim().split(/\s+/)

/** In lower case. */
const FUNCTIONS: ReadonlySet<string> = new Set(
  [
    // Operators.
    ...words(`
  !__postfix !~~ !~~* % & && * ** + - ->> / // <-> << <=> <@ >> @ @> ^ ^@ | || ~ ~~ ~~* ~~~
`),
    // What marts compute (`src/marts/macros/`).
    ...words('agora chave chave_modalidade local_time sessao_por_vir soma texto_limpo unidade_comparavel'),
    ...words('item_suspeito teto_dos_itens valor_suspeito'),
    ...words(`
  abs acos acosh add age aggregate ago alias any_value apply approx_count_distinct approx_quantile
  approx_top_k arbitrary arg_max arg_max_null arg_max_nulls_last arg_min arg_min_null arg_min_nulls_last
  argmax argmin array_agg array_aggr array_aggregate array_append array_apply array_cat array_concat
  array_contains array_cosine_distance array_cosine_similarity array_cross_product array_distance
  array_distinct array_dot_product array_extract array_filter array_grade_up array_has array_has_all
  array_has_any array_indexof array_inner_product array_intersect array_length array_negative_dot_product
  array_negative_inner_product array_pop_back array_pop_front array_position array_prepend array_push_back
  array_push_front array_reduce array_resize array_reverse array_reverse_sort array_select array_slice
  array_sort array_to_json array_to_string array_to_string_comma_default array_transform array_unique
  array_value array_where array_zip ascii asin asinh atan atan2 atanh avg bar base64 bin bit_and bit_count
  bit_length bit_or bit_position bit_xor bitstring bitstring_agg bool_and bool_or cardinality cbrt ceil
  ceiling century char_length character_length chr concat concat_ws contains corr cos cosh cot count
  count_if count_star countif covar_pop covar_samp cume_dist current_date current_localtime
  current_localtimestamp damerau_levenshtein date_add date_diff date_part date_sub date_trunc datediff
  datepart datesub datetrunc day dayname dayofmonth dayofweek dayofyear days_in_month decade decode
  degrees dense_rank divide editdist3 element_at encode ends_with entropy enum_code enum_first enum_last
  enum_range enum_range_boundary epoch epoch_ms epoch_ns epoch_us equi_width_bins era even exp factorial
  favg fdiv fill filter first first_value flatten floor fmod format formatReadableDecimalSize
  formatReadableSize format_bytes from_base64 from_binary from_hex from_json from_json_strict fsum gamma
  gcd generate_series geomean geometric_mean get_bit get_current_time get_current_timestamp grade_up
  greatest greatest_common_divisor group_concat hamming hash hex histogram histogram_exact hour
  ilike_escape instr isfinite isinf isnan isodow isoyear jaccard jaro_similarity jaro_winkler_similarity
  json json_array json_array_length json_contains json_exists json_extract json_extract_path
  json_extract_path_text json_extract_string json_group_array json_group_object json_group_structure
  json_keys json_merge_patch json_object json_pretty json_quote json_structure json_transform
  json_transform_strict json_type json_valid json_value julian kahan_sum kurtosis kurtosis_pop lag last
  last_day last_value lcase lcm lead least least_common_multiple left left_grapheme len length
  length_grapheme levenshtein lgamma like_escape list list_aggr list_aggregate list_any_value list_append
  list_apply list_approx_count_distinct list_avg list_bit_and list_bit_or list_bit_xor list_bool_and
  list_bool_or list_cat list_concat list_contains list_cosine_distance list_cosine_similarity list_count
  list_distance list_distinct list_dot_product list_element list_entropy list_extract list_filter
  list_first list_grade_up list_has list_has_all list_has_any list_histogram list_indexof
  list_inner_product list_intersect list_kurtosis list_kurtosis_pop list_last list_mad list_max
  list_median list_min list_mode list_negative_dot_product list_negative_inner_product list_pack
  list_position list_prepend list_product list_reduce list_resize list_reverse list_reverse_sort
  list_select list_sem list_skewness list_slice list_sort list_stddev_pop list_stddev_samp list_string_agg
  list_sum list_transform list_unique list_value list_var_pop list_var_samp list_where list_zip listagg ln
  log log10 log2 lower lpad ltrim mad make_date make_time make_timestamp make_timestamp_ms
  make_timestamp_ns make_timestamptz map map_concat map_contains map_contains_entry map_contains_value
  map_entries map_extract map_extract_value map_from_entries map_keys map_values max max_by md5 md5_number
  md5_number_lower md5_number_upper mean median microsecond millennium millisecond min min_by minute
  mismatches mod mode month monthname multiply nanosecond nextafter nfc_normalize not_ilike_escape
  not_like_escape now nth_value ntile nullif octet_length ord percent_rank pi position pow power prefix
  printf product quantile quantile_cont quantile_disc quarter radians range rank rank_dense reduce
  regexp_escape regexp_extract regexp_extract_all regexp_full_match regexp_matches regexp_replace
  regexp_split_to_array regexp_split_to_table regr_avgx regr_avgy regr_count regr_intercept regr_r2
  regr_slope regr_sxx regr_sxy regr_syy repeat replace reservoir_quantile reverse right right_grapheme
  round round_even roundbankers row row_number row_to_json rpad rtrim second sem set_bit sha1 sha256 sign
  signbit sin sinh skewness split split_part sqrt starts_with stddev stddev_pop stddev_samp str_split
  str_split_regex strftime string_agg string_split string_split_regex string_to_array strip_accents strlen
  strpos strptime struct_concat struct_contains struct_extract struct_extract_at struct_has struct_indexof
  struct_insert struct_keys struct_pack struct_position struct_update struct_values substr substring
  substring_grapheme subtract suffix sum sum_no_overflow sumkahan switch tan tanh time_bucket timezone
  timezone_hour timezone_minute to_base to_base64 to_binary to_centuries to_days to_decades to_hex
  to_hours to_json to_microseconds to_millennia to_milliseconds to_minutes to_months to_quarters
  to_seconds to_timestamp to_weeks to_years today transaction_timestamp translate trim trunc try_strptime
  typeof ucase unbin unhex unicode union_extract union_tag union_value upper url_decode url_encode var_pop
  var_samp variance wavg week weekday weekofyear weighted_avg xor year yearweek
`),
  ].map(name => name.toLowerCase()),
)
