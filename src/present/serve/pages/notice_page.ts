import { line, moment, NONE, webAddress } from '#src/present/text/format.ts'
import { type Html, html } from '#src/present/text/html.ts'
import { chip, document } from './layout.ts'
import type { Notice } from './list_page.ts'
import {
  alertTypeName,
  categoryName,
  eventName,
  fieldName,
  lightName,
  phaseName,
  severityName,
  toneOf,
  verdictName,
} from './names.ts'
import { amount, quantity, session, text, yesOrNo } from './show.ts'

type Part = Readonly<Record<string, unknown>>

/** One thing that happened to the notice; the newest comes first. */
export type Past = {
  readonly at: string
  readonly kind: string
  readonly fields?: readonly string[]
  readonly from?: string | null
  readonly to?: string | null
}

export type NoticePage = {
  readonly company: string
  readonly asOf: string
  readonly timeZone: string
  readonly notice: Notice
  /** If it is null, `problem` has the reason. */
  readonly analysis: Part | null
  readonly problem: string | null
  /** Null while it is being prepared. */
  readonly history: readonly Past[] | null
}

const MAX_TEXT = 4000
const MAX_TITLE = 300
/** Some analyses have thousands of items. */
const MAX_ROWS = 500

export function noticePage(page: NoticePage): string {
  const { company, asOf, notice } = page
  const title = text(notice, 'objeto', MAX_TITLE) ?? 'Sem objeto'
  const body = html`<h1>${title}</h1>
<p class="muted">${text(notice, 'orgao', MAX_TITLE)}</p>
${facts(page)}
${page.analysis === null ? html`<p class="problem" role="note">${page.problem}</p>` : analysed(page.analysis)}
${history(page)}`
  return document({ title: `${line(title, 60)} · ${company}`, company, asOf, body })
}

function facts({ notice, analysis, timeZone }: NoticePage): Html {
  const verdict = partOf(analysis?.verdict)
  const link = webAddress(typeof notice.pncp_url === 'string' ? notice.pncp_url : null)
  const all: readonly (readonly [string, Html | string | null])[] = [
    ['Fase', chip(phaseName(notice.status), toneOf(notice.status))],
    ['Parecer', chip(verdictName(verdict.recommendation), toneOf(verdict.recommendation))],
    ['Sessão', session(notice.data_sessao, timeZone)],
    ['Valor estimado', amount(notice.valor_estimado)],
    ['UF', text(notice, 'uf', 2)],
    ['Modalidade', text(notice, 'modalidade', 80)],
    ['Número', text(notice, 'numero', 80)],
    ['Participação confirmada', yesOrNo(notice.participation_confirmed)],
    ['Atualizado em', moment(notice.updated_at, timeZone)],
    ['PNCP', link === null ? null : html`<a href="${link}" rel="noreferrer">Abrir no PNCP</a>`],
  ]
  return html`<dl class="facts card">${all.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value ?? NONE}</dd></div>`)}</dl>`
}

function analysed(analysis: Part): Html {
  const verdict = partOf(analysis.verdict)
  const summary = text(verdict, 'summary', MAX_TEXT) ?? text(verdict, 'reason', MAX_TEXT)
  const bullets = listOf(verdict.bullets).filter(one => typeof one === 'string')
  return html`${
    (summary !== null || bullets.length > 0) &&
    html`<h2>Parecer</h2>
<div class="card">${summary !== null && html`<p>${summary}</p>`}${
      bullets.length > 0 && html`<ul>${bullets.map(one => html`<li>${line(one, MAX_TEXT)}</li>`)}</ul>`
    }</div>`
  }
${section('Requisitos', analysis.requirements, requirement)}
${section('Riscos e alertas', analysis.alerts, alert)}
${items(analysis.items)}`
}

function section(title: string, value: unknown, entry: (part: Part) => Html): Html {
  const all = listOf(value)
  return html`<h2>${title} (${all.length})</h2>
${
  all.length === 0
    ? html`<p class="muted">Nenhum.</p>`
    : html`<ul class="entries">${all.slice(0, MAX_ROWS).map(one => html`<li class="card">${entry(partOf(one))}</li>\n`)}</ul>${rest(all.length)}`
}`
}

function requirement(part: Part): Html {
  return html`<h3>${text(part, 'title', MAX_TITLE) ?? NONE}</h3>
<p class="line">${chip(lightName(part.status), toneOf(part.status))}<span class="muted">${categoryName(part.category)}</span></p>
${paragraph('Exigido', text(part, 'required', MAX_TEXT))}
${paragraph('Situação', text(part, 'current', MAX_TEXT))}
${paragraph('Observação', text(part, 'ai_notes', MAX_TEXT))}`
}

function alert(part: Part): Html {
  return html`<h3>${text(part, 'title', MAX_TITLE) ?? NONE}</h3>
<p class="line">${chip(alertTypeName(part.type), 'plain')}${chip(severityName(part.severity), toneOf(part.severity))}</p>
${paragraph(null, text(part, 'description', MAX_TEXT))}
${paragraph('Tese jurídica', text(part, 'legal_thesis', MAX_TEXT))}`
}

function paragraph(name: string | null, value: string | null): Html | null {
  if (value === null) return null
  return html`<p>${name !== null && html`<b>${name}:</b> `}${value}</p>\n`
}

function items(value: unknown): Html {
  const all = listOf(value).map(partOf)
  if (all.length === 0) return html`<h2>Itens (0)</h2><p class="muted">Nenhum.</p>`
  const rows = all
    .slice(0, MAX_ROWS)
    .map(
      part =>
        html`<tr><td>${quantity(part.numero_item)}</td><td class="text">${text(part, 'descricao', MAX_TEXT) ?? NONE}</td><td class="number">${quantity(part.quantidade)}</td><td>${text(part, 'unidade_medida', 20) ?? NONE}</td><td class="number">${amount(part.valor_unitario_estimado)}</td><td class="number">${amount(part.valor_total)}</td></tr>\n`,
    )
  return html`<h2 id="itens">Itens (${all.length})</h2>
<div class="scroll card" role="region" aria-labelledby="itens" tabindex="0"><table>
<thead><tr><th scope="col">Item</th><th scope="col">Descrição</th><th scope="col" class="number">Quantidade</th><th scope="col">Unidade</th><th scope="col" class="number">Valor unitário</th><th scope="col" class="number">Valor total</th></tr></thead>
<tbody>${rows}</tbody></table></div>${rest(all.length)}`
}

function rest(count: number): Html | null {
  return count > MAX_ROWS ? html`<p class="more muted">Mais ${count - MAX_ROWS} na API.</p>` : null
}

function history({ history, timeZone }: NoticePage): Html {
  return html`<h2>Histórico</h2>
${
  !history || history.length === 0
    ? html`<p class="muted">${history ? 'Nada registrado ainda.' : 'O histórico está sendo preparado. Recarregue em instantes.'}</p>`
    : html`<ol class="entries">${history.map(
        past =>
          html`<li class="card"><p class="line"><b>${eventName(past.kind)}</b><span class="muted">${moment(past.at, timeZone)}</span></p>${whatChanged(past)}</li>\n`,
      )}</ol>`
}`
}

function whatChanged({ fields, from, to }: Past): Html | null {
  if (from !== undefined || to !== undefined)
    return html`<p>De ${verdictName(from) ?? NONE} para ${verdictName(to) ?? NONE}</p>`
  return fields && fields.length > 0 ? html`<p>${fields.map(fieldName).join(', ')}</p>` : null
}

function partOf(value: unknown): Part {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Part) : {}
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}
