import { localTime } from '#schema/times.ts'
import {
  dayAndMonth,
  dayAndTime,
  formatMoment,
  formatMoney,
  formatPlural,
  inDays,
  line,
  timeOfDay,
  weekday,
} from '#src/present/text/format.ts'
import { type Html, html } from '#src/present/text/html.ts'
import type { ReadRecord } from '#src/server/read/order.ts'
import type { DataState } from './data_state.ts'
import { chip, document } from './layout.ts'
import { type Found, MAX_AGENDA, MAX_DECISIONS, type Today } from './today.ts'

const MAX_OBJECT = 110
const MAX_NAME = 90
const MAX_VALUE = 60
const MAX_NEWS = 10
const DAY_MS = 24 * 3_600_000

/** `sexta-feira, 27 de novembro` */
const DATE = new Intl.DateTimeFormat('pt-BR', {
  weekday: 'long',
  day: 'numeric',
  month: 'long',
  timeZone: 'UTC',
})

type Page = {
  readonly company: string
  readonly dataState: DataState | null
  readonly timeZone: string
  readonly now: Date
  readonly today: Today
  /** When the reader was here before; null at the first visit. */
  readonly lastVisit: Date | null
}

export function todayPage({ company, dataState, timeZone, now, today, lastVisit }: Page): string {
  const local = localTime(now, timeZone)
  const body = html`<h1>Hoje, ${DATE.format(local)}</h1>
<h2 id="decidir">Para decidir</h2>
${decisions(today.decisions)}
<h2 id="agenda">Sessões e últimos dias dos próximos sete dias</h2>
${agenda(today.agenda)}
<h2 id="novidades">${sinceWhen(lastVisit, now, timeZone)}</h2>
${news(today.news, { since: lastVisit ?? new Date(now.getTime() - DAY_MS), timeZone })}`
  return document({ title: `Hoje · ${company}`, company, dataState, body })
}

function decisions({ rows, isCut }: Found): Html {
  if (rows.length === 0)
    return html`<p>Nada a decidir: nenhum edital recomendado sem confirmação, participação com requisito vermelho ou alerta grave nos próximos dias.</p>`
  return html`<ol class="notices">${rows.map(decision)}</ol>${isCut && html`<p class="more muted">Há mais: aqui estão os ${MAX_DECISIONS} primeiros.</p>`}`
}

function decision(row: ReadRecord): Html {
  const parts = String(row.decisao ?? '').split('; ')
  return html`<li class="card"><h3>${link(row)}</h3>
<p class="muted">${buyer(row)}</p>
<p class="line"><b>Até ${dayOf(row.decidir_ate)} (${inDays(Number(row.dias_ate_decidir))})</b>${parts.map(text => chip(text, text.startsWith('confirmar') ? 'yellow' : 'red'))}
${typeof row.recomendacao === 'string' && html`<span>Parecer: ${line(row.recomendacao, MAX_VALUE)}</span>`}${typeof row.valor_estimado_informado === 'number' && html`<span>${formatMoney(row.valor_estimado_informado)}</span>`}${typeof row.data_sessao_local === 'string' && html`<span>Sessão: ${dayAndTime(timeIn(row.data_sessao_local))}</span>`}</p></li>`
}

function agenda({ rows, isCut }: Found): Html {
  if (rows.length === 0)
    return html`<p>Nenhuma sessão e nenhum último dia de alerta grave nos próximos sete dias.</p>`
  const days = Map.groupBy(rows, row => String(row.dia))
  return html`${[...days].map(
    ([
      dia,
      events,
    ]) => html`<section class="card day"><h3>${weekday(timeIn(dia))}, ${dayAndMonth(timeIn(dia))} <span class="muted">${inDays(Number(events[0]?.dias))}</span></h3>
<ul class="entries">${events.map(event)}</ul></section>`,
  )}${isCut && html`<p class="more muted">Há mais: aqui estão os ${MAX_AGENDA} primeiros. <a href="/editais?ver=proximas">Todas as sessões</a></p>`}`
}

function event(row: ReadRecord): Html {
  const { vermelhos } = row
  const time = typeof row.hora === 'string' ? timeOfDay(timeIn(row.hora)) : null
  const isSession = row.evento === 'Sessão'
  const reds =
    typeof vermelhos === 'number' && vermelhos > 0
      ? formatPlural(vermelhos, 'requisito vermelho', 'requisitos vermelhos')
      : null
  return html`<li><p class="line">${chip(isSession ? `Sessão${time === null ? '' : ` às ${time}`}` : String(row.evento), isSession ? 'accent' : 'red')}${row.confirmada === true && chip('confirmada', 'green')}${chip(reds, 'red')}</p>
<p>${link(row)} <span class="muted">${buyer(row)}</span></p></li>`
}

function sinceWhen(lastVisit: Date | null, now: Date, timeZone: string): string {
  if (lastVisit === null || now.getTime() - lastVisit.getTime() > 7 * DAY_MS)
    return 'Novidades das últimas 24 horas'
  return `Novidades desde sua última visita, ${formatMoment(lastVisit.toISOString(), timeZone)}`
}

function news({ rows, isCut }: Found, { since, timeZone }: { since: Date; timeZone: string }): Html {
  const recent = rows
    .filter(({ observado_em }) => instantOf(observado_em).getTime() > since.getTime())
    // What matters most first; of one kind, the latest.
    .toSorted((a, b) => Number(a.mudanca_ordem) - Number(b.mudanca_ordem))
  if (recent.length === 0) return html`<p>Nada mudou.</p>`
  const counts = [...Map.groupBy(recent, ({ mudanca }) => String(mudanca))]
  const left = recent.length - MAX_NEWS
  return html`<p class="line">${counts.map(([kind, some]) => html`<span>${kind}: <b>${some.length}</b></span>`)}</p>
<ul class="entries news card">${recent.slice(0, MAX_NEWS).map(row => change(row, timeZone))}</ul>${left > 0 && html`<p class="more muted">E ${isCut && 'pelo menos '}mais ${formatPlural(left, 'mudança', 'mudanças')}. <a href="/editais?ordem=-updated">Editais por última atualização</a></p>`}`
}

function change(row: ReadRecord, timeZone: string): Html {
  const [from, to] = [row.de, row.para].map(text => (typeof text === 'string' ? line(text, MAX_VALUE) : null))
  const isCorrection = row.retificacao === true
  return html`<li><p class="line">${chip(String(row.mudanca), isCorrection ? 'yellow' : 'plain')}${isCorrection && chip('retificação', 'yellow')}${from !== null && html`<span>${from} → <b>${to}</b></span>`}<span class="muted">${formatMoment(instantOf(row.observado_em).toISOString(), timeZone)}</span></p>
<p>${link(row)} <span class="muted">${buyer(row)}</span></p></li>`
}

function link(row: ReadRecord): Html {
  const text = typeof row.objeto === 'string' ? line(row.objeto, MAX_OBJECT) : null
  return html`<a href="/editais/${encodeURIComponent(String(row.edital_id))}">${text ?? 'Sem objeto'}</a>`
}

function buyer({ orgao, uf, numero }: ReadRecord): string {
  const parts = [orgao, uf, numero].map(one => (typeof one === 'string' ? line(one, MAX_NAME) : null))
  return parts.filter(part => part !== null).join(' · ')
}

/** Returns a day or a local time of the database as a Date whose UTC parts it has. */
function timeIn(text: string): Date {
  return new Date(text.length > 10 ? `${text.replace(' ', 'T')}Z` : text)
}

function dayOf(value: unknown): string {
  return typeof value === 'string' ? dayAndMonth(timeIn(value)) : ''
}

/** Returns an instant of the database, which it writes in UTC: `2026-11-27 09:00:00+00`. */
function instantOf(value: unknown): Date {
  return new Date(String(value).replace(' ', 'T').replace(/\+00$/, 'Z'))
}
