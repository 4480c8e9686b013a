import type { Context } from 'hono'
import type { z } from 'zod'
import { Refusal } from '#src/api/server/source.ts'
import { moment } from '#src/present/text/format.ts'
import type { Holder } from '../key_entry.ts'
import { searchPage } from '../mirror/search.ts'
import { SEARCH_QUERY } from '../mirror/search_query.ts'
import type { ServedCompanies } from '../served_companies.ts'
import { FIELDS, listPage, type Notice, type Wanted } from './list_page.ts'

/** Notices of a page. */
const LIMIT = '30'

/** The parameters of a search, by the fields of the form. */
const PARAMETERS: Readonly<Record<(typeof FIELDS)[number], keyof typeof SEARCH_QUERY.shape>> = {
  q: 'q',
  uf: 'uf',
  fase: 'status',
  parecer: 'verdict',
  de: 'session_from',
  ate: 'session_to',
  ordem: 'sort',
}

type About = {
  readonly holder: Holder
  readonly served: ServedCompanies
  readonly timeZone: string
}

/** A page of notices that match the form in the query. */
export async function browse(context: Context, { holder, served, timeZone }: About): Promise<Response> {
  const { company } = holder
  const wanted = wantedOf(context)
  const cursor = context.req.query('cursor')
  const page = { company, timeZone, wanted }
  const snapshot = served.snapshotOf(company)
  const asOf = moment(snapshot.asOf, timeZone)
  const parsed = SEARCH_QUERY.safeParse(parametersOf(wanted, cursor))
  if (!parsed.success) return wrong(context, { ...page, asOf }, problemOf(parsed.error))
  try {
    const source: Parameters<typeof searchPage>[0] = {
      snapshot: () => snapshot,
      findSnapshot: isWanted => served.readableOf(company).find(isWanted) ?? null,
    }
    const { documents, total, next } = await searchPage(source, parsed.data)
    const notices = documents.map(parts => JSON.parse(Buffer.concat(parts).toString()) as Notice)
    const address = next === null ? null : addressOf(wanted, next)
    return context.html(listPage({ ...page, asOf, problem: null, notices, total, next: address }))
  } catch (error) {
    if (error instanceof Refusal && error.status === 400)
      return wrong(context, { ...page, asOf }, 'A busca não faz sentido assim: confira os campos.')
    throw error
  }
}

type Page = Pick<Parameters<typeof listPage>[0], 'company' | 'asOf' | 'timeZone' | 'wanted'>

function wrong(context: Context, page: Page, problem: string): Response | Promise<Response> {
  return context.html(listPage({ ...page, problem, notices: [], total: 0, next: null }), 400)
}

function wantedOf(context: Context): Wanted {
  const given = FIELDS.map(field => [field, context.req.query(field)?.trim() ?? ''] as const)
  return Object.fromEntries(given.filter(([, value]) => value !== ''))
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

function addressOf(wanted: Wanted, cursor: string): string {
  return `/editais?${new URLSearchParams({ ...wanted, cursor })}`
}

const NAMES: Readonly<Record<string, string>> = {
  q: 'Busca',
  uf: 'UF',
  status: 'Fase',
  verdict: 'Parecer',
  session_from: 'Sessão de',
  session_to: 'Sessão até',
  sort: 'Ordem',
  cursor: 'Página',
}

function problemOf({ issues }: z.ZodError): string {
  const names = new Set(issues.map(({ path }) => NAMES[String(path[0])] ?? String(path[0])))
  return `Confira: ${[...names].join(', ')}.`
}
