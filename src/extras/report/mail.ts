import { localTime } from '#schema/times.ts'
import {
  day,
  dayAndTime,
  formatMoney,
  formatPlural,
  inDays,
  number,
  shortMoney,
} from '#src/present/text/format.ts'
import { type Html, html } from '#src/present/text/html.ts'
import { type Decision, type Figures, LIMITS } from './figures.ts'
import { decisionReasons } from './opening.ts'
import { warningsOf } from './page.ts'
import { noticeName, sessionCounts } from './section_parts.ts'

/** The last day, or the last seven days. */
export type ReportSpan = 'day' | 'week'

/** A mail without its addresses. */
export type Mail = {
  readonly subject: string
  readonly text: string
  readonly html: string
  /** Name of the complete report, which is attached. */
  readonly fileName: string
}

/** A part of a mail: sentences without a title, or a list below one. */
type Part = { readonly title: string | null; readonly lines: readonly string[] }

/** Returns what a mail contains of the report: what to decide, what changed, and where the rest is. */
export function mailOf(figures: Figures, span: ReportSpan): Mail {
  const { freshness, today, decisions, key } = figures
  const { company } = freshness
  const title = span === 'week' ? 'Editais da semana' : 'Editais do dia'
  const parts = partsOf(figures, span)
  return {
    subject: `${title}, ${company}: ${number(decisions.total)} para decidir, ${formatPlural(key.sessoes_7_dias, 'sessão', 'sessões')} em ${LIMITS.soonDays} dias`,
    text: parts
      .map(({ title, lines }) =>
        title === null ? lines.join('\n') : [title, ...lines.map(text => `- ${text}`)].join('\n'),
      )
      .join('\n\n')
      .concat('\n'),
    html: pageOf(`${title} · ${company}`, parts),
    fileName: `editais-${company}-${today.toISOString().slice(0, 10)}.html`,
  }
}

function partsOf(figures: Figures, span: ReportSpan): Part[] {
  const { freshness, now, key, decisions, changes, changesUntil } = figures
  const { rows, total } = decisions
  const [days, lastDays] =
    span === 'week' ? ['nos 7 dias', 'nos últimos 7 dias'] : ['nas 24 horas', 'nas últimas 24 horas']
  const period = changesUntil ? `${days} até a última leitura da lista` : lastDays
  const changed = changes
    .map(({ mudanca, um_dia, sete_dias }) => ({ mudanca, count: span === 'week' ? sete_dias : um_dia }))
    .filter(({ count }) => count > 0)
  const warnings = warningsOf(freshness, now)
  const read = freshness.ultima_boa_em
  return [
    ...(warnings.length > 0 ? [{ title: null, lines: warnings }] : []),
    {
      title: null,
      lines: [
        `${formatPlural(key.em_andamento, 'edital', 'editais')} em andamento (${sessionCounts(key)}), ${shortMoney(key.valor_futuras)} em disputa.`,
        `Nos próximos ${LIMITS.soonDays} dias: ${formatPlural(key.sessoes_7_dias, 'sessão', 'sessões')} e ${formatPlural(key.alertas_7_dias, 'alerta com prazo', 'alertas com prazo')}. Em sessões por vir: ${formatPlural(key.requisitos_vermelhos, 'requisito vermelho', 'requisitos vermelhos')}.`,
      ],
    },
    {
      title: `Para decidir: ${formatPlural(total, 'edital', 'editais')}${total > rows.length ? `, os ${rows.length} primeiros` : ''}`,
      lines: rows.length > 0 ? rows.map(decisionLine) : ['nada nos próximos dias'],
    },
    {
      title: `O que mudou ${period}`,
      lines:
        changed.length > 0 ? changed.map(({ mudanca, count }) => `${mudanca}: ${number(count)}`) : ['nada'],
    },
    {
      title: null,
      lines: [
        `O relatório completo está em anexo. ${read ? `Última leitura completa: ${dayAndTime(localTime(read, freshness.timezone))} (${freshness.timezone}).` : ''}`.trim(),
      ],
    },
  ]
}

function decisionLine(decision: Decision): string {
  const { ate, dias, valor } = decision
  const reasons = decisionReasons(decision).map(({ text }) => text)
  return `até ${day(ate)} (${inDays(dias)}): ${noticeName(decision)}; ${[...reasons, ...(valor === null ? [] : [formatMoney(valor)])].join('; ')}`
}

/** Makes a page of plain markup, with no address in it: mail programs support neither style sheets nor drawings. */
function pageOf(title: string, parts: readonly Part[]): string {
  const body = parts.map(
    ({ title, lines }): Html =>
      title === null
        ? html`<p>${lines.map((text, index) => html`${index > 0 && html`<br>`}${text}`)}</p>\n`
        : html`<h2 style="font-size:1.1em">${title}</h2>\n<ul>${lines.map(text => html`<li>${text}</li>\n`)}</ul>\n`,
  )
  return html`<!doctype html>
<html lang="pt-BR"><head><meta charset="utf-8"><title>${title}</title></head>
<body style="font-family:sans-serif;line-height:1.5;max-width:44rem">
<h1 style="font-size:1.3em">${title}</h1>
${body}</body></html>
`.html
}
