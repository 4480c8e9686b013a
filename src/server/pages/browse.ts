import type { Context } from 'hono'
import type { z } from 'zod'
import { localTime } from '#schema/times.ts'
import { Refusal } from '#src/server/contract/source.ts'
import type { KeyHolder } from '#src/server/key_entry.ts'
import { SEARCH_QUERY, searchPage } from '#src/server/mirror/search.ts'
import type { ServedCompanies } from '#src/server/served_companies.ts'
import type { DataState } from './data_state.ts'
import { messagePage } from './layout.ts'
import {
  type FIELDS,
  type ListedNotice,
  listPage,
  searchAddress,
  type Wanted,
  wantedOf,
} from './list_page.ts'

/** Notices of a page. */
const LIMIT = '30'

/** The parameters of a search, by the fields of the form. */
const PARAMETERS: Readonly<Record<(typeof FIELDS)[number], keyof typeof SEARCH_QUERY.shape>> = {
  q: 'q',
  uf: 'uf',
  fase: 'status',
  parecer: 'verdict',
  modalidade: 'modalidade',
  de: 'session_from',
  ate: 'session_to',
  minimo: 'value_min',
  maximo: 'value_max',
  ordem: 'sort',
}

type About = {
  readonly holder: KeyHolder
  readonly served: ServedCompanies
  readonly now: Date
  readonly dataState: DataState
}

/** Returns a page of notices that match the form in the query. */
export async function browse(context: Context, { holder, served, now, dataState }: About): Promise<Response> {
  const { company } = holder
  const wanted = wantedOf(context)
  const cursor = context.req.query('cursor')
  const snapshot = served.snapshotOf(company)
  const { timeZone } = snapshot
  const today = localTime(now, timeZone).toISOString().slice(0, 10)
  const page = { company, timeZone, wanted, today }
  const parsed = SEARCH_QUERY.safeParse(parametersOf(wanted, cursor))
  if (!parsed.success) return wrong(context, { ...page, dataState }, problemOf(parsed.error))
  try {
    const source: Parameters<typeof searchPage>[0] = {
      snapshot: () => snapshot,
      findSnapshot: isWanted => served.readableOf(company).find(isWanted) ?? null,
    }
    const { documents, total, next } = await searchPage(source, parsed.data)
    const notices = documents.map(parts => JSON.parse(Buffer.concat(parts).toString()) as ListedNotice)
    return context.html(listPage({ ...page, dataState, problem: null, notices, total, cursor, next }))
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    if (error.status === 400) return wrong(context, { ...page, dataState }, contradictionIn(wanted))
    if (error.status !== 410) throw error
    return context.html(messagePage(company, { ...OUTDATED, back: searchAddress(wanted) }, dataState), 410)
  }
}

const OUTDATED = {
  title: 'Busca desatualizada',
  sentence: 'Há dados mais novos do que os desta busca. Volte à primeira página.',
}

type Page = Pick<Parameters<typeof listPage>[0], 'company' | 'dataState' | 'timeZone' | 'wanted' | 'today'>

function wrong(context: Context, page: Page, problem: string): Response | Promise<Response> {
  return context.html(listPage({ ...page, problem, notices: [], total: 0, next: null }), 400)
}

/** Explains how the fields contradict each other, although each is valid by itself. */
function contradictionIn({ de, ate, minimo, maximo }: Wanted): string {
  if (de !== undefined && ate !== undefined && de > ate)
    return '“Sessão de” vem depois de “Sessão até”: troque as datas.'
  if (minimo !== undefined && maximo !== undefined && Number(minimo) > Number(maximo))
    return 'O valor mínimo é maior do que o máximo: troque os valores.'
  return 'Esta busca não pode ser feita: use menos palavras, ou volte à primeira página.'
}

function parametersOf(wanted: Wanted, cursor: string | undefined): Record<string, string> {
  // Only a text has a relevance.
  const sort = wanted.ordem === 'relevance' && wanted.q === undefined ? {} : { sort: wanted.ordem }
  const given = { ...wanted, ordem: undefined }
  const named = Object.entries(given).map(([field, value]) => [PARAMETERS[field as keyof Wanted], value])
  const all = { ...Object.fromEntries(named), ...sort, limit: LIMIT, cursor }
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined)) as Record<
    string,
    string
  >
}

const NAMES: Readonly<Record<string, string>> = {
  q: 'Busca',
  uf: 'UF',
  status: 'Fase',
  verdict: 'Parecer',
  modalidade: 'Modalidade',
  value_min: 'Valor mínimo',
  value_max: 'Valor máximo',
  session_from: 'Sessão de',
  session_to: 'Sessão até',
  sort: 'Ordem',
  cursor: 'Página',
}

function problemOf({ issues }: z.ZodError): string {
  const names = new Set(issues.map(({ path }) => NAMES[String(path[0])] ?? String(path[0])))
  return `Confira: ${[...names].join(', ')}.`
}
