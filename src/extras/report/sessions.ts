import {
  day,
  dayAndMonth,
  dayAndTime,
  formatMoney,
  formatPlural,
  inDays,
  line,
  number,
  shortMoney,
  timeOfDay,
  weekday,
} from '#src/present/text/format.ts'
import { type Html, html } from '#src/present/text/html.ts'
import { nameVerdict } from '#src/present/text/names.ts'
import { columnChart } from './charts.ts'
import { type Figures, LIMITS, type ReportedSession } from './figures.ts'
import { badge, MAX_CODE, MAX_NAME, MAX_OBJECT, nothing, noticeLink, TO_CONFIRM } from './section_parts.ts'
import { more, table } from './table.ts'

/** The sessions of the next days: a column for each day, and a list. */

const VERDICT_BADGES: Readonly<Record<string, string>> = {
  participar: 'green',
  cautela: 'yellow',
  nao_recomendado: 'red',
}

export function sessions(figures: Figures): Html {
  const { sessions, sessionDays, key, stakes, today } = figures
  const { rows, total } = sessions
  if (rows.length === 0) return nothing(`Nenhuma sessão de edital em andamento até ${day(lastDay(today))}.`)
  const [first] = rows
  return html`<p class="lead">${formatPlural(total, 'sessão marcada', 'sessões marcadas')} até ${day(lastDay(today))}, <b>${number(key.sessoes_7_dias)}</b> nos próximos ${LIMITS.soonDays} dias.${first && ` A primeira: ${dayAndTime(first.data_sessao_local)}, ${line(first.orgao, MAX_NAME) ?? 'órgão não informado'}.`}</p>
${columnChart(
  `Sessões por dia de ${day(today)} a ${day(lastDay(today))}: ${sessionDays
    .filter(({ sessoes }) => sessoes > 0)
    .map(({ dia, sessoes }) => `${dayAndMonth(dia)} ${number(sessoes)}`)
    .join(', ')}.`,
  sessionDays.map(({ dia, sessoes }, index) => ({
    label: `${dia.getUTCDate()}\n${weekday(dia).charAt(0).toUpperCase()}`,
    shortLabel: dia.getUTCDay() === 1 ? dayAndMonth(dia) : '',
    value: sessoes,
    colour: index < LIMITS.soonDays ? 'accent' : 'quiet',
  })),
)}
<p class="note">Sessões por dia; em destaque, os próximos ${LIMITS.soonDays} dias.${
    stakes.garantias + stakes.investimento > 0 &&
    ` As sessões por vir exigem ${shortMoney(stakes.garantias)} em garantias e ${shortMoney(stakes.investimento)} de investimento.`
  }</p>
${table({
  caption: `Próximas sessões${total > rows.length ? `: as primeiras ${rows.length}` : ''}`,
  columns: [
    { head: 'Sessão', kind: 'date', cell: sessionTime },
    { head: 'Edital', kind: 'wide', cell: sessionNotice },
    { head: 'Valor estimado', kind: 'number', cell: session => formatMoney(session.valor) },
    { head: 'Fase e parecer', cell: sessionStand },
    { head: 'Pendências', cell: sessionProblems },
    { head: 'Impugnar até', kind: 'date', cell: contestable },
  ],
  rows,
})}
${more(total - rows.length, 'sessão', 'sessões', `até ${day(lastDay(today))}`)}`

  function lastDay(from: Date): Date {
    return new Date(from.getTime() + (LIMITS.sessionDays - 1) * 86_400_000)
  }
}

function sessionTime({ data_sessao_local, dias }: ReportedSession): Html {
  const clock = timeOfDay(data_sessao_local)
  return html`${day(data_sessao_local)} <small>${weekday(data_sessao_local)}${clock && `, ${clock}`} · ${inDays(dias)}</small>`
}

function sessionNotice(session: ReportedSession): Html {
  const { orgao, uf, numero, modalidade, objeto, pncp_url } = session
  return html`${noticeLink({ orgao, uf, numero, pncp_url })} <small>${[line(modalidade, MAX_CODE), line(objeto, MAX_OBJECT)].filter(Boolean).join(' · ')}</small>`
}

function sessionStand({ fase, participation_confirmed, verdict_recommendation }: ReportedSession): Html {
  const verdict = nameVerdict(verdict_recommendation)
  return html`${line(fase, MAX_CODE)}${participation_confirmed ? html` <span class="badge badge-accent">confirmada</span>` : null}${verdict && html` ${badge(VERDICT_BADGES[verdict_recommendation ?? ''], verdict)}`}`
}

function sessionProblems({ vermelhos, amarelos, criticos, altos }: ReportedSession): Html | null {
  const parts = [
    vermelhos > 0 && badge('red', formatPlural(vermelhos, 'vermelho', 'vermelhos')),
    amarelos > 0 && badge('yellow', formatPlural(amarelos, 'amarelo', 'amarelos')),
    criticos > 0 && badge('red', formatPlural(criticos, 'alerta crítico', 'alertas críticos')),
    altos > 0 && badge('yellow', formatPlural(altos, 'alerta alto', 'alertas altos')),
  ].filter(part => part !== false)
  return parts.length > 0 ? html`${parts.map(part => html`${part} `)}` : null
}

function contestable(session: ReportedSession): Html | null {
  const { ultimo_dia_impugnacao, dias_impugnacao, regra_impugnacao, certeza_impugnacao } = session
  if (ultimo_dia_impugnacao === null || dias_impugnacao === null)
    return regra_impugnacao === null ? null : html`<small>${regra_impugnacao}</small>`
  const rule = html`${regra_impugnacao}${certeza_impugnacao === TO_CONFIRM && ` · ${TO_CONFIRM}`}`
  if (dias_impugnacao < 0)
    return html`<span class="muted">encerrado</span> <small>em ${day(ultimo_dia_impugnacao)} · ${rule}</small>`
  return html`${day(ultimo_dia_impugnacao)} <small>${inDays(dias_impugnacao)} · ${rule}</small>`
}
