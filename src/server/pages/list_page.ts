import type { Context } from 'hono'
import { OPEN_STATUSES } from '#schema/notice.ts'
import { cleanText, makeTextKey } from '#schema/text_key.ts'
import { findLabels, type Labels, PHASE_LABELS } from '#src/marts/labels.ts'
import { fitInLine, formatPlural, number } from '#src/present/text/format.ts'
import { type Html, html } from '#src/present/text/html.ts'
import { namePhase, nameVerdict } from '#src/present/text/names.ts'
import type { Urgent } from '#src/server/search_page.ts'
import { chip, chooseTone, type DataState, document } from './layout.ts'
import { daysLeft, estimate, formatSession, showText } from './show.ts'

/** The names of the form's fields. */
export const FIELDS = [
  'q',
  'uf',
  'fase',
  'parecer',
  'modalidade',
  'de',
  'ate',
  'minimo',
  'maximo',
  'ordem',
] as const

export type FormField = (typeof FIELDS)[number]

/** The values of the search form, or the name of a view; absent fields were left empty. */
export type Wanted = Readonly<Partial<Record<FormField | 'ver', string>>>

/** The lists that need no search, by their names in the address. A reader begins with the first one. */
const VIEWS = {
  proximas: {
    name: 'Próximas sessões',
    of: (today: string): Wanted => ({ fase: OPEN_PHASES, de: today, ordem: 'session' }),
  },
  andamento: { name: 'Em andamento', of: (): Wanted => ({ fase: OPEN_PHASES }) },
  todos: { name: 'Todos', of: (): Wanted => ({}) },
} as const
export type View = keyof typeof VIEWS
export const VIEW_NAMES = Object.keys(VIEWS) as readonly View[]

/** Returns the view that an address asks for; null if it asks for a search of its own. */
export function findView(wanted: Wanted): View | null {
  if (FIELDS.some(field => wanted[field] !== undefined)) return null
  return VIEW_NAMES.find(name => name === wanted.ver) ?? 'proximas'
}

/** Returns the search of a view. @param today `2026-12-31`. */
export function makeSearch(view: View, today: string): Wanted {
  return VIEWS[view].of(today)
}

/** Returns what the form, or an address made from it, asks for. */
export function readWanted(context: Context): Wanted {
  const given = [...FIELDS, 'ver' as const].map(
    field => [field, cleanText(context.req.query(field) ?? '')] as const,
  )
  const { ver, ...fields }: Wanted = Object.fromEntries(given.filter(([, value]) => value !== ''))
  // A search of its own takes the place of a view.
  return ver === undefined || Object.keys(fields).length > 0 ? fields : { ver }
}

/** A page of a search: where it begins, and its number; the first one has no cursor. */
type PagePlace = { readonly cursor?: string | undefined; readonly number: number }
const FIRST_PAGE: PagePlace = { number: 1 }

/** Returns the page that an address asks for. Its number is only shown. */
export function readPagePlace(context: Context): PagePlace {
  const number = Number(context.req.query('pagina'))
  const cursor = context.req.query('cursor') || undefined
  return cursor === undefined
    ? FIRST_PAGE
    : { cursor, number: Number.isSafeInteger(number) && number > 1 ? number : 2 }
}

/** Returns the address of a page of a search. */
export function searchAddress(wanted: Wanted, place = FIRST_PAGE): string {
  return `/editais${composeQuery(wanted, place)}`
}

/** Returns the search in an address. Notices have it as well, for the way back. */
function composeQuery(wanted: Wanted, { cursor, number }: PagePlace): string {
  const all = new URLSearchParams({
    ...wanted,
    ...(cursor !== undefined && { cursor, pagina: String(number) }),
  })
  return all.size === 0 ? '' : `?${all}`
}

/** A notice as the API has it, and the numbers of its red requirements and grave alerts. */
export type ListedNotice = Readonly<Record<string, unknown>> & Partial<Urgent>

type ListPage = {
  readonly company: string
  readonly dataState: DataState | null
  readonly timeZone: string
  readonly wanted: Wanted
  /** Why nothing was searched; null if something was. */
  readonly problem: string | null
  readonly notices: readonly ListedNotice[]
  readonly total: number
  readonly place: PagePlace
  /** How many notices each view has; null if nothing was searched. */
  readonly counts: Readonly<Record<View, number>> | null
  /** The fields that are wrong. */
  readonly wrong: readonly FormField[]
  /** The cursor of the next page; null on the last one. */
  readonly next: string | null
  /** `2026-12-31`, where the reader is. */
  readonly today: string
  /** The origin of the address in the reader's browser. */
  readonly origin: string
}

const UFS = 'AC AL AM AP BA CE DF ES GO MA MG MS MT PA PB PE PI PR RJ RN RO RR RS SC SE SP TO'.split(' ')

/** The orders of the API that help a reader. */
const ORDERS: Labels = new Map([
  ['-created', 'Mais recentes'],
  ['-updated', 'Última atualização'],
  ['session', 'Sessão crescente'],
  ['-session', 'Sessão decrescente'],
  ['-value', 'Maior valor'],
  ['value', 'Menor valor'],
  ['relevance', 'Relevância'],
])

const OPEN_PHASES = OPEN_STATUSES.join(',')
const CHOSEN_PHASES: Labels = new Map([[OPEN_PHASES, 'Em andamento'], ...PHASE_LABELS])
const VERDICTS = findLabels('analyses.verdict_recommendation')

const MAX_OBJECT = 220
const MAX_BUYER = 120

/** Notices of a page. */
export const PAGE_SIZE = 20

export function listPage(page: ListPage): string {
  const { company, dataState, timeZone, wanted, problem, notices, total, place, today } = page
  const body = html`<h1>Editais</h1>
${filters(wanted, page.wrong)}
${views(page)}
${problem !== null && html`<p class="problem" role="alert" id="problema">${problem}</p>`}
${
  problem === null &&
  html`<p class="found" role="status">${found(total, place)}</p>
${total > 0 && files(page)}
${total === 0 && relaxed(wanted)}<ol class="notices">${notices.map(notice => card(notice, { timeZone, today, search: composeQuery(wanted, place) }))}</ol>
${pages(page)}`
}`
  const searched = wanted.q === undefined ? '' : `${fitInLine(wanted.q, 60) ?? ''} · `
  return document({ title: `${searched}Editais · ${company}`, company, dataState, body })
}

/** `21–40 de 418 editais` */
function found(total: number, { number: page }: PagePlace): string {
  if (total === 0) return 'Nenhum edital encontrado.'
  if (total <= PAGE_SIZE) return `${formatPlural(total, 'edital', 'editais')}.`
  const first = (page - 1) * PAGE_SIZE + 1
  return `${number(Math.min(first, total))}–${number(Math.min(first + PAGE_SIZE - 1, total))} de ${number(total)} editais.`
}

/** Returns links to what was found as files, and how a program keeps the calendar. */
function files({ wanted, origin }: ListPage): Html {
  const search = composeQuery(wanted, FIRST_PAGE)
  // A key that only reads the calendar sees no verdicts.
  const { parecer, ...others } = wanted
  const shared = composeQuery(others, FIRST_PAGE)
  const key = `${shared === '' ? '?' : `${shared}&`}chave=`
  return html`<p class="line"><a href="/editais/lista.xlsx${search}" download>Baixar planilha (Excel)</a><a href="/editais/lista.csv${search}" download>CSV</a><a href="/editais/calendario.ics${search}" download>Baixar calendário</a></p>
<details class="more"><summary>Assinar o calendário no Outlook ou no Google Agenda</summary>
<p>Peça a quem administra uma chave que só lê o calendário (<code>editais keys create --description NOME --scopes calendar</code>) e assine este endereço, com ela no fim:</p>
<p class="text"><code>${origin}/editais/calendario.ics${key}</code></p></details>`
}

/** The names of the fields, for sentences about them. */
export const FIELD_NAMES: Readonly<Record<FormField, string>> = {
  q: 'Busca',
  uf: 'UF',
  fase: 'Fase',
  parecer: 'Parecer',
  modalidade: 'Modalidade',
  de: 'Sessão de',
  ate: 'Sessão até',
  minimo: 'Valor mínimo',
  maximo: 'Valor máximo',
  ordem: 'Ordem',
}

/** Returns links to the same search without one of its conditions. */
function relaxed(wanted: Wanted): Html | null {
  const given = FIELDS.filter(field => field !== 'ordem' && wanted[field] !== undefined)
  if (findView(wanted) === 'todos') return null
  if (given.length === 0)
    return html`<p><a href="${searchAddress({ ver: 'todos' })}">Ver todos os editais</a></p>`
  const without = given.map(field => {
    const others: Wanted = Object.fromEntries(
      given.filter(one => one !== field).map(one => [one, wanted[one]]),
    )
    const rest = given.length > 1 ? others : { ver: 'todos' }
    return html`<a href="${searchAddress(rest)}">sem “${FIELD_NAMES[field]}”</a>`
  })
  return html`<p class="line"><span>Tente a mesma busca</span>${without}</p>`
}

function pages({ wanted, place, next }: ListPage): Html | null {
  if (place.cursor === undefined && next === null) return null
  return html`<nav class="more pages" aria-label="Páginas">${place.cursor !== undefined && html`<a href="${searchAddress(wanted)}">Primeira página</a>`}
${next !== null && html`<a href="${searchAddress(wanted, { cursor: next, number: place.number + 1 })}" rel="next">Próxima página</a>`}</nav>`
}

function views({ wanted, counts }: ListPage): Html {
  const shown = findView(wanted)
  return html`<nav class="shortcuts" aria-label="Listas">${VIEW_NAMES.map(
    view =>
      html`<a href="${searchAddress({ ver: view })}"${view === shown && html` aria-current="page"`}>${VIEWS[view].name}${counts && ` (${number(counts[view])})`}</a>\n`,
  )}</nav>`
}

function filters(wanted: Wanted, wrong: readonly FormField[]): Html {
  const { q, ver, ...others } = wanted
  const isFiltered = Object.keys(others).length > 0
  const mark = (field: FormField) =>
    wrong.includes(field) && html` aria-invalid="true" aria-describedby="problema"`
  // A wrong day is kept as it was typed: a field for days would be empty.
  const day = (field: 'de' | 'ate') =>
    html`type="${wrong.includes(field) ? 'text' : 'date'}" value="${wanted[field] ?? ''}"${mark(field)}`
  const money = (field: 'minimo' | 'maximo') =>
    html`inputmode="decimal" value="${wanted[field] ?? ''}"${mark(field)}`
  return html`<form method="get" action="/editais" role="search" class="card filters">
<label for="q">Buscar por palavras, número, PNCP ou CNPJ</label>
<div class="search"><input id="q" name="q" type="search" value="${q ?? ''}" placeholder="merenda escolar"${mark('q')}><button type="submit">Buscar</button></div>
${ver !== undefined && html`<input type="hidden" name="ver" value="${ver}">`}<details${isFiltered && html` open`}><summary>Filtros e ordem</summary>
<div class="fields">
${choice('uf', ['UF', 'Todas'], wanted.uf, new Map(UFS.map(uf => [uf, uf])))}
${choice('fase', ['Fase', 'Todas'], wanted.fase, CHOSEN_PHASES)}
${choice('parecer', ['Parecer', 'Todos'], wanted.parecer, VERDICTS)}
<div><label for="modalidade">Modalidade</label><input id="modalidade" name="modalidade" value="${wanted.modalidade ?? ''}" placeholder="pregão eletrônico"${mark('modalidade')}></div>
<div><label for="de">Sessão de</label><input id="de" name="de" ${day('de')}></div>
<div><label for="ate">Sessão até</label><input id="ate" name="ate" ${day('ate')}></div>
<div><label for="minimo">Valor mínimo (R$)</label><input id="minimo" name="minimo" ${money('minimo')}></div>
<div><label for="maximo">Valor máximo (R$)</label><input id="maximo" name="maximo" ${money('maximo')}></div>
${choice('ordem', ['Ordem', 'Automática'], wanted.ordem, ORDERS)}
</div></details>
</form>`
}

/** Shows a list to choose from. @param names of the field, and of its empty choice. */
function choice(
  name: string,
  [label, none]: readonly [string, string],
  value: string | undefined,
  options: Labels,
): Html {
  const chosen =
    value && ([...options.keys()].find(code => makeTextKey(code) === makeTextKey(value)) ?? value)
  // What only an address can ask for is shown as well, or the form would hide it.
  const known =
    chosen === undefined || options.has(chosen) ? options : new Map([...options, [chosen, chosen]])
  const all = [...known].map(
    ([code, text]) => html`<option value="${code}"${code === chosen && html` selected`}>${text}</option>`,
  )
  return html`<div><label for="${name}">${label}</label><select id="${name}" name="${name}"><option value="">${none}</option>${all}</select></div>`
}

function urgent({ reds = 0, graves = 0 }: ListedNotice): Html {
  return html`${reds > 0 && chip(formatPlural(reds, 'requisito vermelho', 'requisitos vermelhos'), 'red')}${graves > 0 && chip(formatPlural(graves, 'alerta grave', 'alertas graves'), 'yellow')}`
}

type Shown = { readonly timeZone: string; readonly today: string; readonly search: string }

function card(notice: ListedNotice, { timeZone, today, search }: Shown): Html {
  const { verdict } = notice as { verdict?: { recommendation?: unknown } }
  const title = showText(notice, 'objeto', MAX_OBJECT) ?? 'Sem objeto'
  const buyer = [
    showText(notice, 'orgao', MAX_BUYER),
    showText(notice, 'uf', 20),
    showText(notice, 'numero', 60),
  ]
  return html`<li class="card">
<h2><a href="/editais/${encodeURIComponent(String(notice.id))}${search}">${title}</a></h2>
<p class="muted">${buyer.filter(part => part !== null).join(' · ')}</p>
<p class="line">${chip(namePhase(notice.status), chooseTone(notice.status))}${chip(nameVerdict(verdict?.recommendation), chooseTone(verdict?.recommendation))}
<span>Sessão: ${formatSession(notice.data_sessao, timeZone)}${daysLeft(notice.data_sessao, timeZone, today)}</span><span>${showText(notice, 'modalidade', 60)}</span><span>${estimate(notice.valor_estimado)}</span>${urgent(notice)}${notice.participation_confirmed === true && chip('participação confirmada', 'green')}</p>
</li>
`
}
