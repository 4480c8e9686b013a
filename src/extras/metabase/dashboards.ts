import type { CardSpec } from '#config/metabase/card_forms.ts'
import { DASHBOARDS, type DashboardSpec, type FilterSpec } from '#config/metabase/dashboards.ts'
import { hashContent } from '#src/lib/hash.ts'
import { readCard } from '#src/present/questions.ts'
import type {
  Metabase,
  MetabaseCollection,
  MetabaseDashboard,
  MetabaseDashcard,
  MetabaseItem,
} from './client.ts'
import { addCompanyName } from './database.ts'
import { covers, findOurs, findRetired, isMarked, MARK, mark, removeMark } from './mark.ts'

type Built = {
  readonly cards: { readonly made: number; readonly changed: number }
  readonly dashboards: { readonly made: number; readonly changed: number }
  readonly shown: readonly { readonly name: string; readonly url: string }[]
}

type Place = {
  readonly client: Metabase
  readonly databaseId: number
  readonly company: string
  /** The id of our key's user. */
  readonly user: number
}

/** Properties of a dashboard's card that a PUT of the dashboard accepts (`UpdatedDashboardCard`). */
const DASHCARD_PROPERTIES = [
  ...['id', 'size_x', 'size_y', 'row', 'col', 'card_id', 'action_id', 'dashboard_tab_id'],
  ...['parameter_mappings', 'visualization_settings', 'inline_parameters'],
]

/**
 * Creates the company's collection, cards and dashboards if they are missing, reverts users' changes to them, and takes them out of
 * the trash. Cards that only an earlier version made leave our dashboards; they stay, because people may use them on theirs. What
 * users created stays unchanged: copies of ours, what has the same name, and their cards on our dashboards.
 */
export async function buildDashboards(place: Place): Promise<Built> {
  const { client, databaseId } = place
  const cards = await withTrash(
    place,
    await client.get<MetabaseItem[]>('/api/card', { f: 'database', model_id: databaseId }),
    DASHBOARDS.flatMap(spec => spec.cards),
    '/api/card',
  )
  const known = await client.get<MetabaseItem[]>('/api/dashboard', { f: 'all' })
  const dashboards = await withTrash(place, known, DASHBOARDS, '/api/dashboard')
  const collectionId = await ensureCollection(
    place,
    DASHBOARDS.flatMap(spec => [
      findOurs(dashboards, place, spec.key),
      ...spec.cards.map(({ key }) => findOurs(cards, place, key)),
    ]),
  )
  const done = { cards: { made: 0, changed: 0 }, dashboards: { made: 0, changed: 0 } }
  const built = new Map<string, { readonly id: number; readonly sql: string }>()
  for (const spec of DASHBOARDS)
    for (const card of spec.cards) {
      const { outcome, ...made } = await ensureCard(place, { card, spec, collectionId, cards })
      if (outcome) done.cards[outcome] += 1
      built.set(card.key, made)
    }
  const keys = DASHBOARDS.flatMap(spec => spec.cards.map(({ key }) => key))
  const own = new Set([...built.values(), ...findRetired(cards, place, keys)].map(({ id }) => id))
  const shown: { name: string; url: string }[] = []
  for (const [position, spec] of DASHBOARDS.entries()) {
    const wanted = spec.cards.map(card => {
      const { id, sql } = built.get(card.key) as { id: number; sql: string }
      const mappings = listFilters(sql, spec.filters).map(filter => parameterMapping(id, filter))
      return { card_id: id, ...placeCard(card), parameter_mappings: mappings }
    })
    const existing = findOurs(dashboards, place, spec.key)?.id ?? null
    const outcome = await ensureDashboard(place, { spec, wanted, own, existing, collectionId, position })
    if (outcome.did) done.dashboards[outcome.did] += 1
    shown.push({ name: spec.name, url: `${client.url}/dashboard/${outcome.id}` })
  }
  return { ...done, shown }
}

/** Returns the items, and those in the trash if one of ours is missing: the trash of a large Metabase is long. */
async function withTrash(
  place: Place,
  items: readonly MetabaseItem[],
  specs: readonly { readonly key: string }[],
  path: '/api/card' | '/api/dashboard',
): Promise<readonly MetabaseItem[]> {
  if (specs.every(({ key }) => findOurs(items, place, key) !== null)) return items
  return [...items, ...(await place.client.get<MetabaseItem[]>(path, { f: 'archived' }))]
}

/**
 * Finds the collection that has most of our items, or makes it. Metabase shows all that it keeps of a collection, so it has no mark:
 * an empty one is ours by name and description.
 */
async function ensureCollection(
  { client, company }: Place,
  items: readonly (MetabaseItem | null)[],
): Promise<number> {
  const about = {
    name: addCompanyName('Editais', company),
    description: 'Painéis e perguntas sobre os editais acompanhados.',
  }
  const places = items.flatMap(item => (item ? [item.collection_id] : []))
  const hasMost = (id: unknown) => places.filter(place => place === id).length > places.length / 2
  const [found] = (await client.get<MetabaseCollection[]>('/api/collection'))
    .filter(({ personal_owner_id }) => personal_owner_id == null)
    .filter(one => hasMost(one.id) || isMarked(one, company, 'colecao') || covers(one, about))
    .sort((a, b) => Number(hasMost(b.id)) - Number(hasMost(a.id)) || a.id - b.id)
  if (!found) return (await client.post<{ id: number }>('/api/collection', about)).id
  const description = removeMark(found.description) ?? about.description
  if (found.description && description !== found.description)
    await client.put(`/api/collection/${found.id}`, { description })
  return found.id
}

type CardRequest = {
  readonly card: CardSpec
  readonly spec: DashboardSpec
  readonly collectionId: number
  readonly cards: readonly MetabaseItem[]
}

async function ensureCard(
  place: Place,
  { card, spec, collectionId, cards }: CardRequest,
): Promise<{ id: number; sql: string; outcome: 'made' | 'changed' | null }> {
  const { client, databaseId, company } = place
  const { name, description, sql } = await readCard(card.key)
  const filters = listFilters(sql, spec.filters)
  const wanted = {
    name,
    description,
    display: card.display,
    visualization_settings: { ...card.settings, [MARK]: mark(company, card.key) },
    dataset_query: nativeQuery(databaseId, sql, filters),
    parameters: cardParameters(filters),
  }
  const existing = findOurs(cards, place, card.key)
  if (!existing) {
    const made = await client.post<{ id: number }>('/api/card', {
      ...wanted,
      type: 'question',
      collection_id: collectionId,
    })
    return { id: made.id, sql, outcome: 'made' }
  }
  // Without `legacy-mbql`, the query comes in another form than it was sent in.
  const actual = await client.get<MetabaseItem>(`/api/card/${existing.id}`, { 'legacy-mbql': true })
  if (covers(actual, { ...wanted, archived: false })) return { id: existing.id, sql, outcome: null }
  // Its collection may be in the trash, too.
  const restored = actual.archived ? { archived: false, collection_id: collectionId } : {}
  await client.put(`/api/card/${existing.id}`, { ...wanted, ...restored })
  return { id: existing.id, sql, outcome: 'changed' }
}

type WantedDashcard = ReturnType<typeof placeCard> & {
  readonly card_id: number
  readonly parameter_mappings: readonly object[]
}

type DashboardRequest = {
  readonly spec: DashboardSpec
  readonly wanted: readonly WantedDashcard[]
  /** The ids of all our cards, also of retired ones. */
  readonly own: ReadonlySet<number>
  readonly existing: number | null
  readonly collectionId: number
  /** Index among the dashboards, from 0. */
  readonly position: number
}

async function ensureDashboard(
  { client, company }: Place,
  { spec, wanted, own, existing, collectionId, position }: DashboardRequest,
): Promise<{ id: number; did: 'made' | 'changed' | null }> {
  const about = {
    name: spec.name,
    description: spec.description,
    points_of_interest: mark(company, spec.key),
    parameters: spec.filters.map(dashboardParameter),
  }
  const id =
    existing ??
    (
      await client.post<{ id: number }>('/api/dashboard', {
        name: spec.name,
        // A new one cannot have the mark elsewhere. It goes with the first change, below.
        description: `[${about.points_of_interest}]`,
        collection_id: collectionId,
        // Pinned to the top of the collection.
        collection_position: position + 1,
      })
    ).id
  let dashboard = await client.get<MetabaseDashboard>(`/api/dashboard/${id}`)
  if (dashboard.archived) {
    // Metabase changes no cards of a dashboard in the trash.
    await client.put(`/api/dashboard/${id}`, { archived: false, collection_id: collectionId })
    dashboard = await client.get<MetabaseDashboard>(`/api/dashboard/${id}`)
  } else if (covers(dashboard, about) && sameDashcards(sortOut(dashboard, own).mine, wanted))
    return { id, did: null }
  const { mine, others } = sortOut(dashboard, own)
  const tabs = (dashboard.tabs ?? []).map(tab => ({ id: tab.id, name: tab.name }))
  await client.put(`/api/dashboard/${id}`, {
    ...about,
    dashcards: [...arranged(mine, wanted, tabs[0]?.id ?? null), ...others.map(accepted)],
    tabs,
  })
  return { id, did: existing === null ? 'made' : 'changed' }
}

/** Separates the cards on a dashboard: ours, and those that users added. */
function sortOut({ dashcards }: MetabaseDashboard, own: ReadonlySet<number>) {
  const isOurs = ({ card_id: id }: MetabaseDashcard) => id !== null && own.has(id)
  return { mine: dashcards.filter(isOurs), others: dashcards.filter(dashcard => !isOurs(dashcard)) }
}

function sameDashcards(mine: readonly MetabaseDashcard[], wanted: readonly WantedDashcard[]): boolean {
  return (
    mine.length === wanted.length && wanted.every(dashcard => mine.some(actual => covers(actual, dashcard)))
  )
}

/** Arranges the cards of a dashboard. Existing cards keep their ids; negative ids mean new cards. */
function arranged(
  mine: readonly MetabaseDashcard[],
  wanted: readonly WantedDashcard[],
  firstTab: number | null,
): object[] {
  return wanted.map((dashcard, position) => {
    const actual = mine.find(({ card_id: cardId }) => cardId === dashcard.card_id)
    return {
      id: actual?.id ?? -(position + 1),
      ...dashcard,
      dashboard_tab_id: actual?.dashboard_tab_id ?? firstTab,
      visualization_settings: {},
    }
  })
}

/** Returns a user's card on one of our dashboards, unchanged. */
function accepted(dashcard: MetabaseDashcard): object {
  const series = Array.isArray(dashcard.series)
    ? dashcard.series.map(({ id }: { id: number }) => ({ id }))
    : []
  return {
    ...Object.fromEntries(
      DASHCARD_PROPERTIES.filter(name => Object.hasOwn(dashcard, name)).map(name => [name, dashcard[name]]),
    ),
    ...(series.length > 0 ? { series } : {}),
  }
}

/** Returns the filters that a card's SQL uses. */
export function listFilters(sql: string, filters: readonly FilterSpec[]): FilterSpec[] {
  return filters.filter(({ key }) => sql.includes(`{{${key}}}`))
}

/**
 * Makes the native query of a card, in the form that Metabase calls legacy MBQL and accepts from every client
 * (`::lib-be.schema/maybe-legacy-query`), with a text variable for each filter.
 */
function nativeQuery(databaseId: number, sql: string, filters: readonly FilterSpec[]) {
  return {
    database: databaseId,
    type: 'native',
    native: {
      query: sql,
      // Metabase drops an empty map, and the card would look changed in every run.
      ...(filters.length === 0 ? {} : { 'template-tags': templateTags(filters) }),
    },
  }
}

function templateTags(filters: readonly FilterSpec[]) {
  return Object.fromEntries(
    filters.map(({ key, name }) => [key, { id: tagId(key), name: key, 'display-name': name, type: 'text' }]),
  )
}

/** Makes the parameters of a card, as Metabase's editor derives them from its variables. */
function cardParameters(filters: readonly FilterSpec[]) {
  return filters.map(({ key, name }) => ({
    id: tagId(key),
    type: 'string/=',
    target: variable(key),
    name,
    slug: key,
  }))
}

/** Makes a filter of a dashboard that selects one value of a list. */
function dashboardParameter({ key, name, values }: FilterSpec) {
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

function parameterMapping(cardId: number, { key }: FilterSpec) {
  return { parameter_id: key, card_id: cardId, target: variable(key) }
}

/** Returns position and size of a card on its dashboard. */
function placeCard({ at }: CardSpec) {
  return { row: at.row, col: at.col, size_x: at.width, size_y: at.height }
}

function variable(key: string) {
  return ['variable', ['template-tag', key]]
}

/** Returns a stable UUID: cards must not change from run to run. */
function tagId(key: string): string {
  const hex = hashContent(`editais-sync ${key}`)
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`
}
