import type { Context } from 'hono'
import type { z } from 'zod'
import { Refusal } from '#src/server/contract/source.ts'
import type { KeyHolder } from '#src/server/key_file.ts'
import { SEARCH_QUERY } from '#src/server/mirror/search.ts'
import { type Searched, searchPage } from '#src/server/search_page.ts'
import type { ServedCompanies } from '#src/server/served_companies.ts'
import type { ServedSnapshot } from '#src/server/snapshot.ts'
import { type DataState, messagePage } from './layout.ts'
import {
  FIELD_NAMES,
  FIELDS,
  type FormField,
  findView,
  type ListedNotice,
  listPage,
  makeSearch,
  PAGE_SIZE,
  readPagePlace,
  readWanted,
  searchAddress,
  VIEW_NAMES,
  type View,
  type Wanted,
} from './list_page.ts'
import { formatIsoDay } from './show.ts'
import type { LastDays } from './today.ts'

/** The parameters of a search, by the fields of the form. */
const PARAMETERS: Readonly<Record<FormField, keyof typeof SEARCH_QUERY.shape>> = {
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
  readonly dataState: DataState | null
}

/** Returns a file of the notices that match the form in the query: those of the list, in its order. */
export async function sendFile(
  context: Context,
  { company, snapshot, served, today, deadlines }: Download,
  kind: FileKind,
): Promise<Response> {
  const { renderCalendar, renderCsv, renderWorkbook } = await import('./downloads.ts')
  const wanted = readWanted(context)
  const view = findView(wanted)
  const parsed = SEARCH_QUERY.safeParse(
    listParameters(view === null ? wanted : makeSearch(view, today), undefined),
  )
  if (!parsed.success) throw new Refusal(400, describeProblem(listFields(parsed.error)))
  const { limit, cursor, fields, ...search } = parsed.data
  const origin = readOrigin(context)
  const about = {
    ...{ company, today, deadlines, timeZone: snapshot.timeZone },
    composeAddress: (id: string) => `${origin}/editais/${encodeURIComponent(id)}`,
    isWanted: () => !context.env.outgoing?.destroyed,
  }
  const searched = searchedIn(snapshot, served, company)
  const [type, name, render] = {
    calendar: ['text/calendar; charset=utf-8', 'editais.ics', renderCalendar] as const,
    table: ['text/csv; charset=utf-8', 'editais.csv', renderCsv] as const,
    workbook: [WORKBOOK, 'editais.xlsx', renderWorkbook] as const,
  }[kind]
  return context.body((await render(searched, search, about)) as string, 200, {
    'content-type': type,
    'content-disposition': `attachment; filename="${name}"`,
  })
}

const WORKBOOK = 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet'

/** The files that a search comes as. */
export type FileKind = 'calendar' | 'table' | 'workbook'

type Download = Pick<About, 'served'> & {
  readonly company: string
  readonly snapshot: ServedSnapshot
  readonly today: string
  readonly deadlines: LastDays
}

/** Returns the origin of the address in the reader's browser. */
function readOrigin(context: Context): string {
  const { isSecure = false } = context.env.outgoing?.exchange ?? {}
  return `${isSecure ? 'https' : 'http'}://${context.req.header('host') ?? ''}`
}

function searchedIn(snapshot: ServedSnapshot, served: ServedCompanies, company: string): Searched {
  return {
    snapshot: () => snapshot,
    // This one is held, even if it was replaced meanwhile.
    findSnapshot: isWanted => [snapshot, ...served.getReadable(company)].find(isWanted) ?? null,
  }
}

/** Returns a page of notices that match the form in the query. */
export async function browse(context: Context, { holder, served, now, dataState }: About): Promise<Response> {
  const { company } = holder
  const wanted = readWanted(context)
  const place = readPagePlace(context)
  // A form sends its empty fields, too.
  if (Object.values(context.req.query()).includes('')) return context.redirect(searchAddress(wanted, place))
  const snapshot = served.getSnapshot(company)
  const { timeZone } = snapshot
  const today = formatIsoDay(timeZone, now)
  const page = { company, timeZone, wanted, today, dataState, place, origin: readOrigin(context) }
  const view = findView(wanted)
  const search = view === null ? wanted : makeSearch(view, today)
  const parsed = SEARCH_QUERY.safeParse(listParameters(search, place.cursor))
  if (!parsed.success) {
    const fields = listFields(parsed.error)
    return wrong(context, page, describeProblem(fields), fields)
  }
  try {
    const source = searchedIn(snapshot, served, company)
    const { documents, urgent, total, next } = await searchPage(source, parsed.data)
    const notices = documents.map((parts, index): ListedNotice => {
      return { ...JSON.parse(Buffer.concat(parts).toString()), ...urgent[index] }
    })
    const counts = await countedViews(snapshot, source, today)
    return context.html(listPage({ ...page, problem: null, wrong: [], notices, total, counts, next }))
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    // A cursor of a view is that of its day.
    if (error.status === 400 && view !== null && place.cursor !== undefined)
      return context.redirect(searchAddress(wanted))
    if (error.status === 400) return wrong(context, page, ...contradictionIn(wanted))
    if (error.status !== 410) throw error
    return context.html(messagePage(company, { ...OUTDATED, back: searchAddress(wanted) }, dataState), 410)
  }
}

type Counts = Readonly<Record<View, number>>
/** Of each snapshot, for its latest day. */
const counted = new WeakMap<ServedSnapshot, { readonly today: string; readonly counts: Promise<Counts> }>()

/** Counts the notices of each view; once for a snapshot and a day, because a search looks at all notices. */
async function countedViews(snapshot: ServedSnapshot, source: Searched, today: string): Promise<Counts> {
  const known = counted.get(snapshot)
  if (known?.today === today) return await known.counts
  const counts = countViews(source, today)
  counted.set(snapshot, { today, counts })
  counts.catch(() => counted.delete(snapshot))
  return await counts
}

async function countViews(source: Searched, today: string): Promise<Counts> {
  const counts = VIEW_NAMES.map(async view => {
    const parameters = SEARCH_QUERY.parse({
      ...listParameters(makeSearch(view, today), undefined),
      limit: '1',
    })
    return [view, (await searchPage(source, parameters)).total] as const
  })
  return Object.fromEntries(await Promise.all(counts)) as Counts
}

const OUTDATED = {
  title: 'Busca desatualizada',
  sentence: 'Há dados mais novos do que os desta busca. Volte à primeira página.',
}

type Page = Pick<
  Parameters<typeof listPage>[0],
  'company' | 'dataState' | 'timeZone' | 'wanted' | 'today' | 'place' | 'origin'
>

function wrong(
  context: Context,
  page: Page,
  problem: string,
  fields: readonly FormField[],
): Response | Promise<Response> {
  const nothing = { notices: [], total: 0, counts: null, next: null }
  return context.html(listPage({ ...page, ...nothing, problem, wrong: fields }), 400)
}

/** Explains how the fields contradict each other, although each is valid by itself; and which they are. */
function contradictionIn({ de, ate, minimo, maximo }: Wanted): [string, readonly FormField[]] {
  if (de !== undefined && ate !== undefined && de > ate)
    return ['“Sessão de” vem depois de “Sessão até”: troque as datas.', ['de', 'ate']]
  if (minimo !== undefined && maximo !== undefined && Number(minimo) > Number(maximo))
    return ['O valor mínimo é maior do que o máximo: troque os valores.', ['minimo', 'maximo']]
  return ['Esta busca não pode ser feita: use menos palavras, ou volte à primeira página.', []]
}

function listParameters(wanted: Wanted, cursor: string | undefined): Record<string, string> {
  // Only a text has a relevance.
  const sort = wanted.ordem === 'relevance' && wanted.q === undefined ? {} : { sort: wanted.ordem }
  const given = { ...wanted, ordem: undefined, ver: undefined }
  const named = Object.entries(given).map(([field, value]) => [PARAMETERS[field as FormField], value])
  const all = { ...Object.fromEntries(named), ...sort, limit: String(PAGE_SIZE), cursor }
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined)) as Record<
    string,
    string
  >
}

function describeProblem(fields: readonly FormField[]): string {
  // The rest is the cursor.
  return `Confira: ${fields.map(field => FIELD_NAMES[field]).join(', ') || 'Página'}.`
}

function listFields({ issues }: z.ZodError): FormField[] {
  const names = new Set(issues.map(({ path }) => path[0]))
  return FIELDS.filter(field => names.has(PARAMETERS[field]))
}
