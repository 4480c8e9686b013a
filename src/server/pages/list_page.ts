import type { Context } from 'hono'
import { type Labels, labelsOf, PHASE_LABELS } from '#schema/labels.ts'
import { OPEN_STATUSES } from '#schema/notice.ts'
import { cleanText, textKey } from '#schema/text_key.ts'
import { formatPlural, line } from '#src/present/text/format.ts'
import { type Html, html } from '#src/present/text/html.ts'
import { namePhase, nameVerdict } from '#src/present/text/names.ts'
import type { DataState } from './data_state.ts'
import { chip, document, toneOf } from './layout.ts'
import { estimate, session, showText } from './show.ts'

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

/** The values of the search form; absent fields were left empty. */
export type Wanted = Readonly<Partial<Record<(typeof FIELDS)[number], string>>>

/** Returns what the form, or an address made from it, asks for. */
export function wantedOf(context: Context): Wanted {
  const given = FIELDS.map(field => [field, cleanText(context.req.query(field) ?? '')] as const)
  return Object.fromEntries(given.filter(([, value]) => value !== ''))
}

/** Returns the address of a page of a search. */
export function searchAddress(wanted: Wanted, cursor?: string): string {
  return `/editais${queryOf(wanted, cursor)}`
}

/** Returns the search in an address. Notices have it as well, for the way back. */
function queryOf(wanted: Wanted, cursor?: string): string {
  const all = new URLSearchParams({ ...wanted, ...(cursor !== undefined && { cursor }) })
  return all.size === 0 ? '' : `?${all}`
}

export type ListedNotice = Readonly<Record<string, unknown>>

type ListPage = {
  readonly company: string
  readonly dataState: DataState
  readonly timeZone: string
  readonly wanted: Wanted
  /** Why nothing was searched; null if something was. */
  readonly problem: string | null
  readonly notices: readonly ListedNotice[]
  readonly total: number
  /** The cursor of this page; absent on the first one. */
  readonly cursor?: string | undefined
  /** The cursor of the next page; null on the last one. */
  readonly next: string | null
  /** `2026-12-31`, where the reader is. */
  readonly today: string
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
const VERDICTS = labelsOf('analyses.verdict_recommendation')

const MAX_OBJECT = 220
const MAX_BUYER = 120

export function listPage({
  company,
  dataState,
  timeZone,
  wanted,
  problem,
  notices,
  total,
  cursor,
  next,
  today,
}: ListPage): string {
  const body = html`<h1>Editais</h1>
${filters(wanted)}
${shortcuts(today)}
${problem !== null && html`<p class="problem" role="alert">${problem}</p>`}
${
  problem === null &&
  html`<p class="found" role="status">${total === 0 ? 'Nenhum edital encontrado.' : `${formatPlural(total, 'edital encontrado', 'editais encontrados')}.`}</p>
<ol class="notices">${notices.map(notice => card(notice, timeZone, queryOf(wanted, cursor)))}</ol>
${pages(wanted, cursor, next)}`
}`
  const searched = wanted.q === undefined ? '' : `${line(wanted.q, 60) ?? ''} · `
  return document({ title: `${searched}Editais · ${company}`, company, dataState, body })
}

function pages(wanted: Wanted, cursor: string | undefined, next: string | null): Html | null {
  if (cursor === undefined && next === null) return null
  return html`<nav class="more pages" aria-label="Páginas">${cursor !== undefined && html`<a href="${searchAddress(wanted)}">Primeira página</a>`}
${next !== null && html`<a href="${searchAddress(wanted, next)}" rel="next">Próxima página</a>`}</nav>`
}

function shortcuts(today: string): Html {
  const all: readonly (readonly [string, Wanted])[] = [
    ['Próximas sessões', { fase: OPEN_PHASES, de: today, ordem: 'session' }],
    ['Em andamento', { fase: OPEN_PHASES }],
    ['Todos', {}],
  ]
  return html`<nav class="shortcuts" aria-label="Atalhos">${all.map(([name, wanted]) => html`<a href="${searchAddress(wanted)}">${name}</a>\n`)}</nav>`
}

function filters(wanted: Wanted): Html {
  const { q, ...others } = wanted
  const isFiltered = Object.keys(others).length > 0
  return html`<form method="get" action="/editais" role="search" class="card filters">
<label for="q">Buscar por palavras, número, PNCP ou CNPJ</label>
<div class="search"><input id="q" name="q" type="search" value="${q ?? ''}" placeholder="merenda escolar"><button type="submit">Buscar</button></div>
<details${isFiltered && html` open`}><summary>Filtros e ordem</summary>
<div class="fields">
${choice('uf', ['UF', 'Todas'], wanted.uf, new Map(UFS.map(uf => [uf, uf])))}
${choice('fase', ['Fase', 'Todas'], wanted.fase, CHOSEN_PHASES)}
${choice('parecer', ['Parecer', 'Todos'], wanted.parecer, VERDICTS)}
<div><label for="modalidade">Modalidade</label><input id="modalidade" name="modalidade" value="${wanted.modalidade ?? ''}" placeholder="pregão eletrônico"></div>
<div><label for="de">Sessão de</label><input id="de" name="de" type="date" value="${wanted.de ?? ''}"></div>
<div><label for="ate">Sessão até</label><input id="ate" name="ate" type="date" value="${wanted.ate ?? ''}"></div>
<div><label for="minimo">Valor mínimo (R$)</label><input id="minimo" name="minimo" type="number" min="0" step="any" value="${wanted.minimo ?? ''}"></div>
<div><label for="maximo">Valor máximo (R$)</label><input id="maximo" name="maximo" type="number" min="0" step="any" value="${wanted.maximo ?? ''}"></div>
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
  const chosen = value && ([...options.keys()].find(code => textKey(code) === textKey(value)) ?? value)
  // What only an address can ask for is shown as well, or the form would hide it.
  const known =
    chosen === undefined || options.has(chosen) ? options : new Map([...options, [chosen, chosen]])
  const all = [...known].map(
    ([code, text]) => html`<option value="${code}"${code === chosen && html` selected`}>${text}</option>`,
  )
  return html`<div><label for="${name}">${label}</label><select id="${name}" name="${name}"><option value="">${none}</option>${all}</select></div>`
}

function card(notice: ListedNotice, timeZone: string, search: string): Html {
  const { verdict } = notice as { verdict?: { recommendation?: unknown } }
  const title = showText(notice, 'objeto', MAX_OBJECT) ?? 'Sem objeto'
  return html`<li class="card">
<h2><a href="/editais/${encodeURIComponent(String(notice.id))}${search}">${title}</a></h2>
<p class="muted">${showText(notice, 'orgao', MAX_BUYER)}</p>
<p class="line">${chip(namePhase(notice.status), toneOf(notice.status))}${chip(nameVerdict(verdict?.recommendation), toneOf(verdict?.recommendation))}
<span>${showText(notice, 'uf', 20)}</span><span>${showText(notice, 'modalidade', 60)}</span><span>${estimate(notice.valor_estimado)}</span><span>Sessão: ${session(notice.data_sessao, timeZone)}</span>${notice.participation_confirmed === true && html`<span>Participação confirmada</span>`}</p>
</li>
`
}
