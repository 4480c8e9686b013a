import { ANALYSIS } from '#schema/analysis.ts'
import { NOTICE } from '#schema/notice.ts'
import type { Fields } from '#schema/record.ts'
import {
  findUsableLink,
  fitInLine,
  formatDay,
  formatDistance,
  formatMoment,
  formatPlural,
  NONE,
  number,
} from '#src/present/text/format.ts'
import { type Html, html } from '#src/present/text/html.ts'
import {
  nameAction,
  nameAlertType,
  nameCategory,
  nameEvent,
  nameField,
  nameItemKind,
  nameLevel,
  nameLight,
  namePhase,
  nameSeverity,
  nameVerdict,
  SECTIONS,
} from '#src/present/text/names.ts'
import type { ReadRecord } from '#src/server/read/order.ts'
import { chip, chooseTone, type DataState, document, factList } from './layout.ts'
import type { ListedNotice } from './list_page.ts'
import {
  daysLeft,
  estimate,
  formatQuantity,
  formatSession,
  formatUnitPrice,
  formatYesOrNo,
  listFacts,
  MAX_ROWS,
  MAX_TEXT,
  MAX_TITLE,
  readList,
  readParagraphs,
  readPart,
  rest,
  type ShownDocument,
  share,
  showOrdinal,
  showText,
  writeFreeForm,
} from './show.ts'
import { findLastDay } from './today.ts'

/** One thing that happened to the notice; the newest comes first. */
export type Past = {
  readonly at: string
  readonly kind: string
  readonly fields?: readonly string[]
  readonly changes?: readonly Change[]
  readonly from?: string | null
  readonly to?: string | null
}

type Change = { readonly field: string; readonly before?: unknown; readonly after?: unknown }

export const MAX_HISTORY = 100
/** Longer values are only named: what they are now is on the page. */
const MAX_VALUE_CHARACTERS = 300

/** Shows the history of a notice. @param past null while it is being prepared. */
function history(past: readonly Past[] | null, timeZone: string): Html {
  if (!past)
    return html`<p class="muted">O histórico está sendo preparado. Recarregue a página em instantes.</p>`
  if (past.length === 0) return html`<p class="muted">Nada registrado ainda.</p>`
  const events = past.map(
    one =>
      html`<li class="card"><p class="line"><b>${nameEvent(one.kind)}</b><span class="muted">${formatMoment(one.at, timeZone)}</span></p>${whatChanged(one, timeZone)}</li>\n`,
  )
  return html`<ol class="entries">${events}</ol>${
    past.length === MAX_HISTORY &&
    html`<p class="more muted">Aqui estão os ${MAX_HISTORY} eventos mais recentes.</p>`
  }`
}

function whatChanged({ fields = [], changes = [], from, to }: Past, timeZone: string): Html | null {
  if (from !== undefined || to !== undefined)
    return html`<p>${from && `De ${nameVerdict(from)} para `}${nameVerdict(to) ?? 'sem parecer'}</p>`
  // It changes whenever anything does.
  const named = fields.length > 1 ? fields.filter(field => field !== 'updated_at') : fields
  if (named.length === 0) return null
  const values = new Map(changes.map(change => [change.field, change]))
  return html`<ul class="changes">${named.map(field => html`<li>${nameField(field)}${difference(values.get(field), timeZone)}</li>`)}</ul>`
}

function difference(change: Change | undefined, timeZone: string): string | null {
  if (!change || isCompound(change.before) || isCompound(change.after)) return null
  const [before, after] = [change.before, change.after].map(value => shown(change.field, value, timeZone))
  if (before === null || after === null) return null
  return change.before === null ? `: ${after}` : `: de ${before} para ${after}`
}

function isCompound(value: unknown): boolean {
  return value === undefined || (typeof value === 'object' && value !== null)
}

const NAMES: Readonly<Record<string, (value: unknown) => string | null>> = {
  status: namePhase,
  analysis_level: nameLevel,
  valor_estimado: estimate,
} satisfies ShownDocument

const TIMES: readonly string[] = Object.entries(NOTICE).flatMap(([name, { type }]) =>
  type === 'date-time' ? [name] : [],
)

/** Returns null if it is too long. */
function shown(field: string, value: unknown, timeZone: string): string | null {
  if (value === null) return NONE
  if (TIMES.includes(field)) return formatSession(value, timeZone)
  const name = Object.hasOwn(NAMES, field) ? NAMES[field] : undefined
  const words = (name ? name(value) : writeFreeForm(value, timeZone)) ?? NONE
  return words.length > MAX_VALUE_CHARACTERS ? null : words
}

/** The name of the parts of a list, and how many a reader sees at once: a phone shows the page in a few screens. */
type Shown = readonly [one: string, many: string, shown: number]
const SHOWN = {
  requirements: ['requisito', 'requisitos', 3],
  met: ['requisito verde', 'requisitos verdes', MAX_ROWS],
  alerts: ['alerta', 'alertas', 3],
  items: ['item', 'itens', 2],
} as const satisfies Readonly<Record<string, Shown>>

/** A longer object follows in full: it would fill a phone as a heading. */
const MAX_HEADING = 200

type NoticePage = {
  readonly company: string
  readonly dataState: DataState | null
  readonly timeZone: string
  /** `2026-12-31`, where the reader is. */
  readonly today: string
  readonly notice: ListedNotice
  /** The last days to act that are still to come; null if none is left, or before they are read. */
  readonly deadline: ReadRecord | null
  /** If it is null, `problem` has the reason. */
  readonly analysis: ShownDocument | null
  readonly problem: string | null
  /** Null while it is being prepared. */
  readonly history: readonly Past[] | null
  /** The search that led here. */
  readonly back: string
}

export function renderNoticePage(page: NoticePage): string {
  const { company, dataState, notice, analysis, timeZone, back } = page
  const title = showText(notice, 'objeto', MAX_HEADING) ?? 'Sem objeto'
  const sections: readonly Section[] = [
    ...(analysis ? listSections(analysis, timeZone) : []),
    { id: 'historico', title: 'Histórico', body: history(page.history, timeZone) },
  ]
  const body = html`<p class="back"><a href="${back}">← Voltar aos resultados</a></p>
<h1>${title}</h1>
<p class="muted">${showText(notice, 'orgao', MAX_TITLE)}</p>
${facts(page)}
${title.endsWith('…') && html`<h2>Objeto completo</h2>\n<p class="card text">${readParagraphs(notice, 'objeto', MAX_TEXT)}</p>`}
${analysis === null && html`<p class="problem" role="note">${page.problem}</p>`}
${analysis?.analyzed === false && html`<p class="sum">O edital ainda não foi analisado.</p>`}
<nav class="parts" aria-label="Nesta página"><ul>${sections.map(({ id, title }) => html`<li><a href="#${id}">${title}</a></li>`)}</ul></nav>
${sections.map(({ id, title, body }) => html`<h2 id="${id}">${title}</h2>\n${body}\n`)}`
  return document({ title: `${fitInLine(title, 60)} · ${company}`, company, dataState, body })
}

function facts({ notice, deadline, analysis, timeZone, today }: NoticePage): Html {
  const { recommendation } = readPart(analysis?.verdict)
  const first = factList([
    [
      'Sessão',
      html`${formatSession(notice.data_sessao, timeZone)}${daysLeft(notice.data_sessao, timeZone, today)}`,
    ],
    ['Impugnar até', showLastDay(findLastDay(deadline, 'impugnar', today))],
    ['Pedir esclarecimento até', showLastDay(findLastDay(deadline, 'esclarecer', today))],
    ['Parecer', chip(nameVerdict(recommendation), chooseTone(recommendation)) ?? NONE],
    ['Fase', chip(namePhase(notice.status), chooseTone(notice.status)) ?? NONE],
    ['Motivo do descarte', readParagraphs(notice, 'discard_reason', MAX_TEXT)],
    ['Nível da análise', analysis && nameLevel(analysis.analysis_level)],
    ['Valor estimado', estimate(notice.valor_estimado)],
    ['Participação confirmada', formatYesOrNo(notice.participation_confirmed)],
    ['UF', showText(notice, 'uf', 20) ?? NONE],
    ['Modalidade', showText(notice, 'modalidade', MAX_TITLE) ?? NONE],
    ['Número', showText(notice, 'numero', MAX_TITLE) ?? NONE],
    ['Edital na origem', origin(notice) ?? NONE],
  ])
  const others = factList([
    ['ID no PNCP', showText(notice, 'pncp_id', MAX_TITLE)],
    ['Confirmada em', notice.committed_at === undefined ? null : formatMoment(notice.committed_at, timeZone)],
    ['Acompanhado desde', formatMoment(notice.created_at, timeZone)],
    ['Atualizado em', formatMoment(notice.updated_at, timeZone)],
  ])
  return html`${first}<details class="more"><summary>Mais dados do edital</summary>${others}</details>`
}

function showLastDay(last: ReturnType<typeof findLastDay>): Html | null {
  return (
    last &&
    html`${formatDay(last.day)} <b>(${formatDistance(last.days)})</b> <span class="muted">${last.why}</span>`
  )
}

/** Shows where a link leads before the reader follows it: the address comes from a stranger. */
function origin(notice: ListedNotice): Html | string | null {
  const address = typeof notice.pncp_url === 'string' ? notice.pncp_url : null
  const link = findUsableLink(address)
  // `www.example.org/1` is not a link, but a reader can use it.
  if (link === null) return address === null || URL.canParse(address) ? null : fitInLine(address, MAX_TITLE)
  return html`<a href="${link}" rel="noreferrer">Abrir em ${fitInLine(new URL(link).host, 80)}</a>`
}

/** Returns a table that can be wider than the page: it scrolls by itself, also with the keyboard. */
function renderItems(all: readonly unknown[]): Html {
  const parts = all
    .slice(0, MAX_ROWS)
    .map(readPart)
    // Those to bid for first; others in the order of the notice.
    .toSorted((a, b) => Number(b.ai_selected === true) - Number(a.ai_selected === true))
  const hasLots = parts.some(({ numero_lote }) => typeof numero_lote === 'number')
  const row = (part: ShownDocument) =>
    html`<tr><td>${showOrdinal(part.numero_item)}</td>${hasLots && html`<td>${showOrdinal(part.numero_lote)}</td>`}<td class="text">${readParagraphs(part, 'descricao', MAX_TEXT) ?? NONE}${figures(part)}${about(part)}</td>${amountCells(part)}</tr>\n`
  const table = (some: readonly unknown[], isRest: boolean) =>
    html`<div class="scroll card" role="region" ${isRest ? html`aria-label="Demais itens"` : html`aria-labelledby="items"`} tabindex="0"><table>
<thead><tr><th scope="col">Item</th>${hasLots && html`<th scope="col">Lote</th>`}<th scope="col">Descrição</th><th scope="col" class="number wide">Quantidade</th><th scope="col" class="wide">Unidade</th><th scope="col" class="number wide">Valor unitário</th><th scope="col" class="number wide">Valor total</th></tr></thead>
<tbody>${some.map(one => row(one as ShownDocument))}</tbody></table></div>`
  return html`${folded(parts, SHOWN.items, table)}${rest(all.length)}`
}

function amountCells(part: ShownDocument): Html {
  return html`<td class="number wide">${formatQuantity(part.quantidade)}</td><td class="wide">${showText(part, 'unidade_medida', 40) ?? NONE}</td><td class="number wide">${formatUnitPrice(part.valor_unitario_estimado)}</td><td class="number wide">${formatUnitPrice(part.valor_total)}</td>`
}

/** Returns what those columns have, on a phone: it has no room for them. */
function figures(part: ShownDocument): Html {
  const [unit, total] = [part.valor_unitario_estimado, part.valor_total].map(formatUnitPrice)
  return html`<p class="phone">${formatQuantity(part.quantidade)} ${showText(part, 'unidade_medida', 40)} × ${unit}; total: ${total}</p>`
}

/** Returns what the columns do not have. */
function about(part: ShownDocument): Html {
  const { ai_selected: isSelected, ai_confidence: confidence } = part
  const known = [
    nameItemKind(part.material_ou_servico),
    showText(part, 'criterio_julgamento_nome', 80),
    typeof confidence === 'number' ? `confiança da seleção: ${share(confidence)}` : null,
  ].filter(one => one !== null)
  const selected =
    isSelected === true
      ? chip('Selecionado', 'green')
      : isSelected === false && chip('Não selecionado', 'plain')
  const reason = readParagraphs(part, 'ai_reasoning', MAX_TEXT)
  return html`<p class="line muted">${selected}<span>${known.join(' · ')}</span></p>${reason !== null && html`<p class="muted">${reason}</p>`}`
}

/** A part of the page, and where its links lead. */
type Section = { readonly id: string; readonly title: string; readonly body: Html }

/** Lists everything of an analysis that its notice does not have; parts that are not there yet are left out. */
function listSections(analysis: ShownDocument, timeZone: string): readonly Section[] {
  const part = (
    name: 'overview' | 'pricing' | 'operational' | 'orgao_report',
    isFolded = false,
  ): Section | null => {
    const known = listFacts(readPart(analysis[name]), findFields(name), timeZone).filter(
      ([, value]) => value !== null,
    )
    if (known.length === 0) return null
    const body = isFolded
      ? html`<details><summary>Mostrar: ${SECTIONS[name]}</summary>${factList(known)}</details>`
      : factList(known)
    return { id: name, title: SECTIONS[name], body }
  }
  const list = (
    name: 'requirements' | 'alerts' | 'items',
    body: (all: readonly unknown[]) => Html,
  ): Section | null => {
    const all = readList(analysis[name])
    if (all.length === 0 && analysis.analyzed === false) return null
    const shown = all.length > 0 ? body(all) : html`<p class="muted">${noneYet(analysis)}</p>`
    return { id: name, title: `${SECTIONS[name]} (${number(all.length)})`, body: shown }
  }
  const sections = [
    verdict(readPart(analysis.verdict)),
    list('requirements', all => requirementList(all, timeZone)),
    list('alerts', all =>
      entries(
        all.toSorted((a, b) => rankSeverity(a) - rankSeverity(b)),
        alert,
        SHOWN.alerts,
      ),
    ),
    part('pricing'),
    part('overview', true),
    part('operational', true),
    part('orgao_report', true),
    list('items', renderItems),
  ]
  return sections.filter(section => section !== null)
}

/** Returns the text for an empty list: after the screening alone, nothing has been extracted yet. */
function noneYet({ analysis_level }: ShownDocument): string {
  return analysis_level === 'simple' ? 'Nenhum ainda: o edital só passou pela triagem.' : 'Nenhum.'
}

function findFields(name: keyof typeof ANALYSIS): Fields {
  const field = ANALYSIS[name]
  return 'part' in field ? field.part.fields : {}
}

function verdict(part: ShownDocument): Section | null {
  const [summary, reason] = [
    readParagraphs(part, 'summary', MAX_TEXT),
    readParagraphs(part, 'reason', MAX_TEXT),
  ]
  const all = readList(part.bullets)
  const bullets = all
    .slice(0, MAX_ROWS)
    .flatMap(one => (typeof one === 'string' ? (fitInLine(one, MAX_TEXT) ?? []) : []))
  if (summary === null && reason === null && bullets.length === 0) return null
  const body = html`<div class="card">${paragraph(null, summary)}${reason !== null && !summary?.includes(reason) && paragraph('Motivo', reason)}${
    bullets.length > 0 && html`<ul>${bullets.map(one => html`<li>${one}</li>`)}</ul>${rest(all.length)}`
  }</div>`
  return { id: 'verdict', title: SECTIONS.verdict, body }
}

const LIGHTS = [
  ['red', 'vermelho', 'vermelhos'],
  ['yellow', 'amarelo', 'amarelos'],
  ['green', 'verde', 'verdes'],
] as const

function requirementList(all: readonly unknown[], timeZone: string): Html {
  const counts = LIGHTS.flatMap(([code, one, many]) => {
    const count = all.filter(part => readPart(part).status === code).length
    return count > 0 ? [formatPlural(count, one, many)] : []
  })
  const entry = (part: ShownDocument) => requirement(part, timeZone)
  const [met, open] = [true, false].map(wanted =>
    all.filter(part => (readPart(part).status === 'green') === wanted),
  )
  const sorted = (open ?? []).toSorted((a, b) => rankRequirement(readPart(a)) - rankRequirement(readPart(b)))
  return html`${counts.length > 0 && html`<p class="muted sum">${counts.join(', ')}.</p>`}
${entries(sorted, entry, SHOWN.requirements)}${
  met &&
  met.length > 0 &&
  html`<details class="more"><summary>${formatPlural(met.length, 'requisito verde', 'requisitos verdes')}</summary>
${entries(met, entry, SHOWN.met)}</details>`
}`
}

/** What needs work comes first; what nobody assessed, behind that. */
function rankRequirement({ status }: ShownDocument): number {
  return status === 'red' ? 0 : status === 'yellow' ? 1 : 2
}

function entries(all: readonly unknown[], entry: (part: ShownDocument) => Html, shown: Shown): Html {
  const list = (some: readonly unknown[]) =>
    html`<ul class="entries">${some.map(one => html`<li class="card">${entry(readPart(one))}</li>\n`)}</ul>`
  return html`${folded(all.slice(0, MAX_ROWS), shown, list)}${rest(all.length)}`
}

/** Shows the first of a list, and folds the others. */
function folded(
  all: readonly unknown[],
  [one, many, shown]: Shown,
  list: (some: readonly unknown[], isRest: boolean) => Html,
): Html {
  if (all.length <= shown) return list(all, false)
  return html`${list(all.slice(0, shown), false)}<details class="more"><summary>Mais ${formatPlural(all.length - shown, one, many)}</summary>
${list(all.slice(shown), true)}</details>`
}

function requirement(part: ShownDocument, timeZone: string): Html {
  return html`<h3>${showText(part, 'title', MAX_TITLE) ?? NONE}</h3>
<p class="line">${chip(nameLight(part.status), chooseTone(part.status))}<span class="muted">${nameCategory(part.category)}</span></p>
${paragraph('Exigência', readParagraphs(part, 'required', MAX_TEXT))}
${paragraph('Situação da empresa', readParagraphs(part, 'current', MAX_TEXT))}
${paragraph('Notas da avaliação', readParagraphs(part, 'ai_notes', MAX_TEXT))}
${paragraph('Detalhes', writeFreeForm(part.metadata, timeZone))}`
}

const SEVERITIES: readonly unknown[] = ['critical', 'high', 'medium', 'low']

function rankSeverity(one: unknown): number {
  const place = SEVERITIES.indexOf(readPart(one).severity)
  return place < 0 ? SEVERITIES.length : place
}

function alert(part: ShownDocument): Html {
  const severity = nameSeverity(part.severity)
  const action = part.action_type === 'none' ? null : nameAction(part.action_type)
  return html`<h3>${showText(part, 'title', MAX_TITLE) ?? NONE}</h3>
<p class="line">${chip(nameAlertType(part.type), 'plain')}${chip(severity && `Severidade ${severity}`, chooseTone(part.severity))}${action !== null && html`<span>Ação: ${action}</span>`}</p>
${paragraph(null, readParagraphs(part, 'description', MAX_TEXT))}
${paragraph('Tese jurídica', readParagraphs(part, 'legal_thesis', MAX_TEXT))}`
}

function paragraph(name: string | null, value: string | null): Html | null {
  if (value === null) return null
  return html`<p class="text">${name !== null && html`<b>${name}:</b> `}${value}</p>\n`
}
