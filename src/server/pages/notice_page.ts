import { formatMoment, line, NONE, usableLink } from '#src/present/text/format.ts'
import { type Html, html } from '#src/present/text/html.ts'
import { nameLevel, namePhase, nameVerdict } from '#src/present/text/names.ts'
import { type Section, sectionsOf } from './analysis.ts'
import { history, type Past } from './history.ts'
import { chip, document, factList, toneOf } from './layout.ts'
import type { ListedNotice } from './list_page.ts'
import {
  estimate,
  MAX_TEXT,
  MAX_TITLE,
  paragraphs,
  partOf,
  type ShownDocument,
  session,
  showText,
  yesOrNo,
} from './show.ts'

/** A longer object follows in full: it would fill a phone as a heading. */
const MAX_HEADING = 200

type NoticePage = {
  readonly company: string
  readonly asOf: string
  readonly timeZone: string
  readonly notice: ListedNotice
  /** If it is null, `problem` has the reason. */
  readonly analysis: ShownDocument | null
  readonly problem: string | null
  /** Null while it is being prepared. */
  readonly history: readonly Past[] | null
  /** The search that led here. */
  readonly back: string
}

export function renderNoticePage(page: NoticePage): string {
  const { company, asOf, notice, analysis, timeZone, back } = page
  const title = showText(notice, 'objeto', MAX_HEADING) ?? 'Sem objeto'
  const sections: readonly Section[] = [
    ...(analysis ? sectionsOf(analysis, timeZone) : []),
    { id: 'historico', title: 'Histórico', body: history(page.history, timeZone) },
  ]
  const body = html`<p class="back"><a href="${back}">← Voltar aos resultados</a></p>
<h1>${title}</h1>
<p class="muted">${showText(notice, 'orgao', MAX_TITLE)}</p>
${facts(page)}
${title.endsWith('…') && html`<h2>Objeto completo</h2>\n<p class="card text">${paragraphs(notice, 'objeto', MAX_TEXT)}</p>`}
${analysis === null && html`<p class="problem" role="note">${page.problem}</p>`}
${analysis?.analyzed === false && html`<p class="sum">O edital ainda não foi analisado.</p>`}
<nav class="parts" aria-label="Nesta página"><ul>${sections.map(({ id, title }) => html`<li><a href="#${id}">${title}</a></li>`)}</ul></nav>
${sections.map(({ id, title, body }) => html`<h2 id="${id}">${title}</h2>\n${body}\n`)}`
  return document({ title: `${line(title, 60)} · ${company}`, company, asOf, body })
}

function facts({ notice, analysis, timeZone }: NoticePage): Html {
  const { recommendation } = partOf(analysis?.verdict)
  return factList([
    ['Fase', chip(namePhase(notice.status), toneOf(notice.status)) ?? NONE],
    ['Motivo do descarte', paragraphs(notice, 'discard_reason', MAX_TEXT)],
    ['Parecer', chip(nameVerdict(recommendation), toneOf(recommendation)) ?? NONE],
    ['Nível da análise', analysis && nameLevel(analysis.analysis_level)],
    ['Sessão', session(notice.data_sessao, timeZone)],
    ['Valor estimado', estimate(notice.valor_estimado)],
    ['UF', showText(notice, 'uf', 20) ?? NONE],
    ['Modalidade', showText(notice, 'modalidade', MAX_TITLE) ?? NONE],
    ['Número', showText(notice, 'numero', MAX_TITLE) ?? NONE],
    ['ID no PNCP', showText(notice, 'pncp_id', MAX_TITLE)],
    ['Edital na origem', origin(notice) ?? NONE],
    ['Participação confirmada', yesOrNo(notice.participation_confirmed)],
    ['Confirmada em', notice.committed_at === undefined ? null : formatMoment(notice.committed_at, timeZone)],
    ['Acompanhado desde', formatMoment(notice.created_at, timeZone)],
    ['Atualizado em', formatMoment(notice.updated_at, timeZone)],
  ])
}

/** Shows where a link leads before the reader follows it: the address comes from a stranger. */
function origin(notice: ListedNotice): Html | string | null {
  const address = typeof notice.pncp_url === 'string' ? notice.pncp_url : null
  const link = usableLink(address)
  // `www.example.org/1` is not a link, but a reader can use it.
  if (link === null) return address === null || URL.canParse(address) ? null : line(address, MAX_TITLE)
  return html`<a href="${link}" rel="noreferrer">Abrir em ${line(new URL(link).host, 80)}</a>`
}
