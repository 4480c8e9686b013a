import { shiftToLocalTime } from '#schema/times.ts'
import { decisoes } from '#src/marts/decisions.ts'
import { DECIDING } from '#src/present/deciding.ts'
import { explainChangesEnd } from '#src/present/readings.ts'
import {
  fitInLine,
  formatDay,
  formatDayAndMonth,
  formatDayAndTime,
  formatDistance,
  formatMoney,
  formatPlural,
  formatShortMoney,
  formatWeekday,
  formatWholeMoney,
  number,
  timeOfDay,
} from '#src/present/text/format.ts'
import { type Html, html } from '#src/present/text/html.ts'
import { nameVerdict } from '#src/present/text/names.ts'
import {
  badge,
  columnChart,
  MAX_CODE,
  MAX_NAME,
  MAX_OBJECT,
  more,
  nothing,
  noticeLink,
  numbers,
  TO_CONFIRM,
  table,
} from './charts.ts'
import {
  type Bounded,
  type Decision,
  type Figures,
  LIMITS,
  type Named,
  type NoticeChange,
  type ReportedSession,
} from './figures.ts'

/** The first parts of the report: what to decide, what changed, the past weeks, and the next sessions. */

export function decisions({ decisions: { today, soon } }: Figures): Html {
  if (today.total + soon.total === 0)
    return nothing(
      `Nada a decidir: nenhum edital recomendado sem confirmação, participação com requisito vermelho ou alerta grave nos próximos dias.`,
    )
  return html`<p class="lead"><b>${formatPlural(today.total, 'edital espera', 'editais esperam')}</b> uma decisão hoje; ${formatPlural(soon.total, 'edital', 'editais')}, nos próximos dias.</p>
${decisionTable(DECIDING.today.name, today)}${decisionTable(DECIDING.soon.name, soon)}
<p class="note">${decisoes.portuguese[1]}.</p>`
}

function decisionTable(when: string, { rows, total }: Bounded<Decision>): Html {
  if (rows.length === 0) return html``
  return html`${table({
    caption: `${when}${total > rows.length ? `: ${rows.length} de ${number(total)}` : ''}`,
    columns: [
      {
        head: 'Até',
        kind: 'date',
        cell: ({ ate, dias }: Decision) => html`${formatDay(ate)} <small>${formatDistance(dias)}</small>`,
      },
      { head: 'Edital', kind: 'wide', cell: notice },
      { head: 'Decisão', kind: 'wide', cell: decisionParts },
      { head: 'Parecer e análise', cell: verdictAndLevel },
      { head: 'Valor estimado', kind: 'number', cell: ({ valor }) => formatMoney(valor) },
      { head: 'Sessão', kind: 'date', cell: ({ data_sessao_local }) => formatDayAndTime(data_sessao_local) },
    ],
    rows,
  })}
${more(total - rows.length, 'edital', 'editais')}`
}

function notice({ objeto, ...named }: Named & { readonly objeto: string | null }): Html {
  return html`${noticeLink(named)} <small>${fitInLine(objeto, MAX_OBJECT)}</small>`
}

function verdictAndLevel({ recomendacao, nivel }: Decision): Html {
  return html`${fitInLine(recomendacao, MAX_CODE)} <small>${fitInLine(nivel, MAX_CODE)}</small>`
}

/** Only the first part, to confirm or give up, waits without harm until its day. */
function decisionParts({ decisao }: Decision): Html {
  const parts = decisao.split('; ')
  return html`${parts.map(text => html`${badge(text.startsWith('confirmar') ? 'yellow' : 'red', text)} `)}`
}

export function changes({ changes, news, changesUntil, freshness }: Figures): Html {
  const [day, week] = changesUntil ? ['24 horas', '7 dias'] : ['Últimas 24 horas', 'Últimos 7 dias']
  const end =
    changesUntil &&
    html`<p class="note">${explainChangesEnd(formatDayAndTime(shiftToLocalTime(changesUntil, freshness.timezone)))}</p>`
  if (changes.every(({ sete_dias }) => sete_dias === 0))
    return html`${nothing(`Nada mudou ${changesUntil ? 'em' : 'nos últimos'} 7 dias.`)}${end}`
  return html`${table({
    caption: 'Editais que mudaram',
    columns: [
      { head: 'Mudança', cell: ({ mudanca }) => mudanca },
      { head: day, kind: 'number', cell: ({ um_dia }) => number(um_dia) },
      { head: week, kind: 'number', cell: ({ sete_dias }) => number(sete_dias) },
    ],
    rows: changes,
  })}${end}${news.rows.length > 0 && newsTable(news)}`
}

function newsTable({ rows, total }: Bounded<NoticeChange>): Html {
  return html`${table({
    caption: 'O que mudou em cada edital',
    columns: [
      { head: 'Visto em', kind: 'date', cell: ({ observado_dia }: NoticeChange) => formatDay(observado_dia) },
      { head: 'Edital', kind: 'wide', cell: notice },
      { head: 'Mudança', cell: ({ mudanca }) => mudanca },
      { head: 'De', cell: ({ de }) => fitInLine(de, MAX_NAME) },
      { head: 'Para', cell: ({ para }) => fitInLine(para, MAX_NAME) },
      {
        head: 'Impugnar até',
        kind: 'date',
        cell: ({ impugnar_ate }) => impugnar_ate && formatDay(impugnar_ate),
      },
    ],
    rows,
  })}
${more(total - rows.length, 'mudança', 'mudanças')}`
}

export function weeks({ weeks }: Figures): Html {
  if (weeks.every(({ novos, prontos, descartados }) => novos + prontos + descartados === 0))
    return nothing(`Nenhum edital novo nas últimas ${LIMITS.weeks} semanas.`)
  const arrived = weeks.reduce((sum, { novos }) => sum + novos, 0)
  const worth = weeks.reduce((sum, { valor_novos }) => sum + valor_novos, 0)
  return html`<h3>${formatPlural(arrived, 'edital novo', 'editais novos')} em ${LIMITS.weeks} semanas, no valor de ${formatShortMoney(worth)}</h3>
${columnChart(
  `Editais novos por semana: ${weeks.map(({ semana, novos }) => `${formatDayAndMonth(semana)} ${number(novos)}`).join(', ')}.`,
  weeks.map(({ semana, novos }, index) => ({
    label: formatDayAndMonth(semana),
    shortLabel: index % 3 === 0 ? formatDayAndMonth(semana) : '',
    value: novos,
    colour: index === weeks.length - 1 ? 'quiet' : 'accent',
  })),
)}
<p class="note">Editais novos por semana, de segunda a domingo; a última ainda não acabou. Prontos e descartados contam as mudanças de fase que vimos.</p>
${numbers(
  table({
    caption: 'Por semana',
    columns: [
      { head: 'Semana de', kind: 'date', cell: ({ semana }) => formatDay(semana) },
      { head: 'Novos', kind: 'number', cell: ({ novos }) => number(novos) },
      { head: 'Valor dos novos', kind: 'number', cell: ({ valor_novos }) => formatWholeMoney(valor_novos) },
      { head: 'Prontos', kind: 'number', cell: ({ prontos }) => number(prontos) },
      { head: 'Descartados', kind: 'number', cell: ({ descartados }) => number(descartados) },
    ],
    rows: weeks,
  }),
)}`
}

/** The sessions of the next days: a column for each day, and a list. */

const VERDICT_BADGES: Readonly<Record<string, string>> = {
  participar: 'green',
  cautela: 'yellow',
  nao_recomendado: 'red',
}

export function sessions(figures: Figures): Html {
  const { sessions, sessionDays, key, stakes, today } = figures
  const { rows, total } = sessions
  if (rows.length === 0)
    return nothing(`Nenhuma sessão de edital em andamento até ${formatDay(lastDay(today))}.`)
  const [first] = rows
  return html`<h3>${formatPlural(total, 'sessão marcada', 'sessões marcadas')} até ${formatDay(lastDay(today))}, ${number(key.sessoes_7_dias)} nos próximos ${LIMITS.soonDays} dias</h3>
${first && html`<p class="lead">A primeira: ${formatDayAndTime(first.data_sessao_local)}, ${fitInLine(first.orgao, MAX_NAME) ?? 'órgão não informado'}.</p>`}
${columnChart(
  `Sessões por dia de ${formatDay(today)} a ${formatDay(lastDay(today))}: ${sessionDays
    .filter(({ sessoes }) => sessoes > 0)
    .map(({ dia, sessoes }) => `${formatDayAndMonth(dia)} ${number(sessoes)}`)
    .join(', ')}.`,
  sessionDays.map(({ dia, sessoes }, index) => ({
    label: `${dia.getUTCDate()}\n${formatWeekday(dia).charAt(0).toUpperCase()}`,
    shortLabel: dia.getUTCDay() === 1 ? formatDayAndMonth(dia) : '',
    value: sessoes,
    colour: index < LIMITS.soonDays ? 'accent' : 'quiet',
  })),
)}
<p class="note">Sessões por dia; em destaque, os próximos ${LIMITS.soonDays} dias.${
    stakes.na_sessao + stakes.na_assinatura > 0 &&
    ` As sessões por vir exigem ${formatShortMoney(stakes.na_sessao)} na sessão (garantias de proposta) e ${formatShortMoney(stakes.na_assinatura)} na assinatura (garantias contratuais e investimento).`
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
${more(total - rows.length, 'sessão', 'sessões', `até ${formatDay(lastDay(today))}`)}`

  function lastDay(from: Date): Date {
    return new Date(from.getTime() + (LIMITS.sessionDays - 1) * 86_400_000)
  }
}

function sessionTime({ data_sessao_local, dias }: ReportedSession): Html {
  const clock = timeOfDay(data_sessao_local)
  return html`${formatDay(data_sessao_local)} <small>${formatWeekday(data_sessao_local)}${clock && `, ${clock}`} · ${formatDistance(dias)}</small>`
}

function sessionNotice({ modalidade, objeto, ...named }: ReportedSession): Html {
  return html`${noticeLink(named)} <small>${[fitInLine(modalidade, MAX_CODE), fitInLine(objeto, MAX_OBJECT)].filter(Boolean).join(' · ')}</small>`
}

function sessionStand({ fase, participation_confirmed, verdict_recommendation }: ReportedSession): Html {
  const verdict = nameVerdict(verdict_recommendation)
  return html`${fitInLine(fase, MAX_CODE)}${participation_confirmed ? html` <span class="badge accent">confirmada</span>` : null}${verdict && html` ${badge(VERDICT_BADGES[verdict_recommendation ?? ''], verdict)}`}`
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
    return html`<span class="muted">encerrado</span> <small>em ${formatDay(ultimo_dia_impugnacao)} · ${rule}</small>`
  return html`${formatDay(ultimo_dia_impugnacao)} <small>${formatDistance(dias_impugnacao)} · ${rule}</small>`
}
