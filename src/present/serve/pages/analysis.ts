import { ANALYSIS } from '#schema/analysis.ts'
import type { Fields } from '#schema/record.ts'
import { formatPlural, line, NONE, number } from '#src/present/text/format.ts'
import { type Html, html } from '#src/present/text/html.ts'
import {
  nameAction,
  nameAlertType,
  nameCategory,
  nameLight,
  nameSeverity,
  SECTIONS,
} from '#src/present/text/names.ts'
import { listFacts, writeFreeForm } from './free_form.ts'
import { renderItems } from './items.ts'
import { chip, factList, toneOf } from './layout.ts'
import {
  listOf,
  MAX_ROWS,
  MAX_TEXT,
  MAX_TITLE,
  paragraphs,
  partOf,
  rest,
  type ShownDocument,
  showText,
} from './show.ts'

/** A part of the page, and where its links lead. */
export type Section = { readonly id: string; readonly title: string; readonly body: Html }

/** Lists everything of an analysis that its notice does not have; parts that are not there yet are left out. */
export function sectionsOf(analysis: ShownDocument, timeZone: string): readonly Section[] {
  const part = (name: 'overview' | 'pricing' | 'operational' | 'orgao_report'): Section | null => {
    const known = listFacts(partOf(analysis[name]), fieldsOf(name), timeZone).filter(
      ([, value]) => value !== null,
    )
    return known.length === 0 ? null : { id: name, title: SECTIONS[name], body: factList(known) }
  }
  const list = (
    name: 'requirements' | 'alerts' | 'items',
    body: (all: readonly unknown[]) => Html,
  ): Section | null => {
    const all = listOf(analysis[name])
    if (all.length === 0 && analysis.analyzed === false) return null
    const shown = all.length > 0 ? body(all) : html`<p class="muted">${noneYet(analysis)}</p>`
    return { id: name, title: `${SECTIONS[name]} (${number(all.length)})`, body: shown }
  }
  const sections = [
    verdict(partOf(analysis.verdict)),
    part('overview'),
    list('requirements', all => requirementList(all, timeZone)),
    list('alerts', all => entries(all, alert)),
    part('pricing'),
    part('operational'),
    part('orgao_report'),
    list('items', renderItems),
  ]
  return sections.filter(section => section !== null)
}

/** Refuses what the contract does not have: after the screening alone, nothing has been extracted yet. */
function noneYet({ analysis_level }: ShownDocument): string {
  return analysis_level === 'simple' ? 'Nenhum ainda: o edital só passou pela triagem.' : 'Nenhum.'
}

function fieldsOf(name: keyof typeof ANALYSIS): Fields {
  const field = ANALYSIS[name]
  return 'part' in field ? field.part.fields : {}
}

function verdict(part: ShownDocument): Section | null {
  const [summary, reason] = [paragraphs(part, 'summary', MAX_TEXT), paragraphs(part, 'reason', MAX_TEXT)]
  const all = listOf(part.bullets)
  const bullets = all
    .slice(0, MAX_ROWS)
    .flatMap(one => (typeof one === 'string' ? (line(one, MAX_TEXT) ?? []) : []))
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
    const count = all.filter(part => partOf(part).status === code).length
    return count > 0 ? [formatPlural(count, one, many)] : []
  })
  return html`${counts.length > 0 && html`<p class="muted sum">${counts.join(', ')}.</p>`}
${entries(all, part => requirement(part, timeZone))}`
}

function entries(all: readonly unknown[], entry: (part: ShownDocument) => Html): Html {
  return html`<ul class="entries">${all.slice(0, MAX_ROWS).map(one => html`<li class="card">${entry(partOf(one))}</li>\n`)}</ul>${rest(all.length)}`
}

function requirement(part: ShownDocument, timeZone: string): Html {
  return html`<h3>${showText(part, 'title', MAX_TITLE) ?? NONE}</h3>
<p class="line">${chip(nameLight(part.status), toneOf(part.status))}<span class="muted">${nameCategory(part.category)}</span></p>
${paragraph('Exigência', paragraphs(part, 'required', MAX_TEXT))}
${paragraph('Situação da empresa', paragraphs(part, 'current', MAX_TEXT))}
${paragraph('Notas da avaliação', paragraphs(part, 'ai_notes', MAX_TEXT))}
${paragraph('Detalhes', writeFreeForm(part.metadata, timeZone))}`
}

function alert(part: ShownDocument): Html {
  const severity = nameSeverity(part.severity)
  const action = part.action_type === 'none' ? null : nameAction(part.action_type)
  return html`<h3>${showText(part, 'title', MAX_TITLE) ?? NONE}</h3>
<p class="line">${chip(nameAlertType(part.type), 'plain')}${chip(severity && `Severidade ${severity}`, toneOf(part.severity))}${action !== null && html`<span>Ação: ${action}</span>`}</p>
${paragraph(null, paragraphs(part, 'description', MAX_TEXT))}
${paragraph('Tese jurídica', paragraphs(part, 'legal_thesis', MAX_TEXT))}`
}

function paragraph(name: string | null, value: string | null): Html | null {
  if (value === null) return null
  return html`<p class="text">${name !== null && html`<b>${name}:</b> `}${value}</p>\n`
}
