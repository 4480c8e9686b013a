import { counted } from '#src/present/text/format.ts'
import { type Html, html } from '#src/present/text/html.ts'
import { type Labels, PHASES } from '#src/present/text/labels.ts'
import { chip, document } from './layout.ts'
import { phaseName, toneOf, VERDICTS, verdictName } from './names.ts'
import { amount, session, text } from './show.ts'

export type Notice = Readonly<Record<string, unknown>>

/** What was searched for, as in the form; absent fields were left empty. */
export type Wanted = Readonly<Partial<Record<(typeof FIELDS)[number], string>>>

/** The names of the form's fields. */
export const FIELDS = ['q', 'uf', 'fase', 'parecer', 'de', 'ate', 'ordem'] as const

export type ListPage = {
  readonly company: string
  readonly asOf: string
  readonly timeZone: string
  readonly wanted: Wanted
  /** Why nothing was searched; null if something was. */
  readonly problem: string | null
  readonly notices: readonly Notice[]
  readonly total: number
  /** The address of the next page; null on the last one. */
  readonly next: string | null
}

const UFS = 'AC AL AM AP BA CE DF ES GO MA MG MS MT PA PB PE PI PR RJ RN RO RR RS SC SE SP TO'.split(' ')

const ORDERS: Labels = new Map([
  ['-created', 'Mais recentes'],
  ['session', 'Sessão mais próxima'],
  ['-value', 'Maior valor'],
  ['relevance', 'Relevância'],
])

const MAX_OBJECT = 220
const MAX_BUYER = 120

export function listPage({
  company,
  asOf,
  timeZone,
  wanted,
  problem,
  notices,
  total,
  next,
}: ListPage): string {
  const body = html`<h1>Editais</h1>
${filters(wanted)}
${problem !== null && html`<p class="problem" role="alert">${problem}</p>`}
${
  problem === null &&
  html`<p class="found" role="status">${total === 0 ? 'Nenhum edital encontrado.' : `${counted(total, 'edital encontrado', 'editais encontrados')}.`}</p>
<ol class="notices">${notices.map(notice => card(notice, timeZone))}</ol>
${next !== null && html`<p class="more"><a href="${next}" rel="next">Próxima página</a></p>`}`
}`
  return document({ title: `Editais · ${company}`, company, asOf, body })
}

function filters(wanted: Wanted): Html {
  const { q, ...others } = wanted
  const isFiltered = Object.keys(others).length > 0
  return html`<form method="get" action="/editais" role="search" class="card filters">
<label for="q">Buscar no objeto e no órgão</label>
<div class="search"><input id="q" name="q" type="search" value="${q ?? ''}" placeholder="merenda escolar"><button type="submit">Buscar</button></div>
<details${isFiltered && html` open`}><summary>Filtros e ordem</summary>
<div class="fields">
${choice('uf', ['UF', 'Todas'], wanted.uf, new Map(UFS.map(uf => [uf, uf])))}
${choice('fase', ['Fase', 'Todas'], wanted.fase, PHASES)}
${choice('parecer', ['Parecer', 'Todos'], wanted.parecer, VERDICTS)}
<div><label for="de">Sessão de</label><input id="de" name="de" type="date" value="${wanted.de ?? ''}"></div>
<div><label for="ate">Sessão até</label><input id="ate" name="ate" type="date" value="${wanted.ate ?? ''}"></div>
${choice('ordem', ['Ordem', 'Automática'], wanted.ordem, ORDERS)}
</div></details>
</form>`
}

/** @param names of the field, and of its empty choice. */
function choice(
  name: string,
  [label, none]: readonly [string, string],
  value: string | undefined,
  options: Labels,
): Html {
  const all = [...options].map(
    ([code, text]) => html`<option value="${code}"${code === value && html` selected`}>${text}</option>`,
  )
  return html`<div><label for="${name}">${label}</label><select id="${name}" name="${name}"><option value="">${none}</option>${all}</select></div>`
}

function card(notice: Notice, timeZone: string): Html {
  const { verdict } = notice as { verdict?: { recommendation?: unknown } }
  const title = text(notice, 'objeto', MAX_OBJECT) ?? 'Sem objeto'
  return html`<li class="card">
<h2><a href="/editais/${encodeURIComponent(String(notice.id))}">${title}</a></h2>
<p class="muted">${text(notice, 'orgao', MAX_BUYER)}</p>
<p class="line">${chip(phaseName(notice.status), toneOf(notice.status))}${chip(verdictName(verdict?.recommendation), toneOf(verdict?.recommendation))}
<span>${text(notice, 'uf', 2)}</span><span>${text(notice, 'modalidade', 60)}</span><span>${amount(notice.valor_estimado)}</span><span>Sessão: ${session(notice.data_sessao, timeZone)}</span></p>
</li>
`
}
