import { add, type Installation, type Routes } from './routes.ts'
import { type Entity, find } from './state.ts'

type Query = { database: number; native: { query: string; 'template-tags': object } }

/** Collections, cards and dashboards. */
export function contentRoutes(installation: Installation): Routes {
  const { state, nextId } = installation
  return {
    'GET /api/collection': () => [{ id: 'root', name: 'Our analytics' }, ...state.collections],
    'POST /api/collection': ({ body }) => add(state.collections, body, nextId),
    'GET /api/collection/:id/items': ({ id, query: { models } }) => {
      find(state.collections, id)
      const those = models === 'dashboard' ? state.dashboards : state.cards
      const data = those
        .filter(one => one.collection_id === id)
        .map(({ id, name, description }) => ({ id, name, description, model: models }))
      return { data, total: data.length }
    },
    'GET /api/card': ({ query: { model_id } }) =>
      state.cards.filter(({ dataset_query: query }) => (query as Query).database === model_id).map(modern),
    'POST /api/card': ({ body }) => {
      find(state.databases, (body.dataset_query as Query).database)
      return modern(add(state.cards, body, nextId))
    },
    'GET /api/card/:id': ({ id, query }) =>
      query['legacy-mbql'] ? find(state.cards, id) : modern(find(state.cards, id)),
    'PUT /api/card/:id': ({ id, body }) => modern(Object.assign(find(state.cards, id), body, { id })),
    'POST /api/dashboard': ({ body }) => add(state.dashboards, { ...body, dashcards: [], tabs: [] }, nextId),
    'GET /api/dashboard/:id': ({ id }) => {
      const dashboard = find(state.dashboards, id)
      const dashcards = dashboard.dashcards as { card_id?: number | null }[]
      return {
        ...dashboard,
        dashcards: dashcards.map(one => ({
          ...one,
          card: one.card_id ? modern(find(state.cards, one.card_id)) : null,
          series: [],
        })),
      }
    },
    'PUT /api/dashboard/:id': ({ id, body }) => replaceDashboard(id, body, installation),
  }
}

function replaceDashboard(id: number, body: Entity, { state, nextId, violated }: Installation): Entity {
  const { dashcards = [], tabs = [] } = body as unknown as { dashcards?: Entity[]; tabs?: Entity[] }
  for (const { card_id: cardId, parameter_mappings: mappings, dashboard_tab_id: tab } of dashcards) {
    if (cardId) find(state.cards, Number(cardId))
    for (const one of (mappings ?? []) as { card_id: number; parameter_id: string }[]) {
      const known = ((body.parameters ?? []) as Entity[]).some(({ id }) => String(id) === one.parameter_id)
      if (!known || one.card_id !== cardId) throw violated('PUT /api/dashboard', 'a mapping to nothing')
    }
    if (tabs.length > 0 && !tabs.some(one => one.id === tab)) {
      throw violated('PUT /api/dashboard', 'This dashboard has tab, makes sure every card has a tab')
    }
  }
  const placed = dashcards.map(one => ({ ...one, id: one.id < 0 ? nextId() : one.id, action_id: null }))
  return Object.assign(find(state.dashboards, id), body, { id, dashcards: placed, tabs })
}

/** A card as Metabase returns it by default since v57: its query in MBQL 5. */
function modern(card: Entity): Entity {
  const { database, native } = card.dataset_query as Query
  const stage = {
    'lib/type': 'mbql.stage/native',
    native: native.query,
    'template-tags': native['template-tags'],
  }
  return { ...card, dataset_query: { 'lib/type': 'mbql/query', database, stages: [stage] } }
}
