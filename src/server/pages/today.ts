import type { Logger } from 'pino'
import { isPlausible, shiftToLocalTime } from '#schema/times.ts'
import { getMessage } from '#src/lib/errors.ts'
import { DECIDING, describeStand } from '#src/present/deciding.ts'
import { explainChangesEnd, findChangesEnd, LISTINGS } from '#src/present/readings.ts'
import {
  fitInLine,
  formatDayAndMonth,
  formatDayAndTime,
  formatDistance,
  formatMoment,
  formatMoney,
  formatPlural,
  formatWeekday,
  timeOfDay,
} from '#src/present/text/format.ts'
import { type Html, html } from '#src/present/text/html.ts'
import { Refusal } from '#src/server/contract/source.ts'
import { makeRecords, type ReadRecord, type Rows } from '#src/server/read/order.ts'
import { Readers } from '#src/server/read/readers.ts'
import type { ServedCompanies } from '#src/server/served_companies.ts'
import { chip, type DataState, document } from './layout.ts'

/** Rows of a part, and whether there are more. */
type Found = { readonly rows: readonly ReadRecord[]; readonly isCut: boolean }

/** What the page *Hoje* shows, from the marts that the report, the mail and the dashboard show, too. */
export type Today = {
  readonly decisions: Readonly<Record<keyof typeof DECIDING, Found>>
  /** Sessions, and last days for grave alerts, of this and the next six days. */
  readonly agenda: Found
  /** Of the seven days before the list was read last, and since, the latest first. */
  readonly news: Found
  /** When that was. */
  readonly listedAt: Date | null
  /** Last days that are still to come, by the notice's id; the page of a notice shows its own. */
  readonly deadlines: LastDays
}

export type LastDays = ReadonlyMap<string, ReadRecord>

const MAX_DECISIONS = 12
const MAX_AGENDA = 25
const MAX_NEWS = 400
const MAX_DEADLINES = 20_000
/** Characters of a text; the page cuts further. */
const MAX_TEXT = 400
const MAX_BYTES = 8_000_000
/** Companies whose readings run or wait: two run at once, each for a second or so. */
const MAX_WAITING = 20
const RETRY_SECONDS = 5
/** A snapshot that could not be read is not read again before. */
const FAILED_MS = 60_000

const clean = (...columns: string[]) => columns.map(name => `texto_limpo(${name}) AS ${name}`).join(', ')
const NAMED = `${clean('orgao', 'numero', 'objeto')}, uf, com_republicacao(NULL, contado_no_numero) AS republicado`
const decisionsWhen = (when: string) => ({
  sql: `SELECT edital_id, decidir_ate, dias_ate_decidir, decisao, recomendacao, nivel_analise, ${NAMED}, valor_estimado_informado, data_sessao_local
    FROM decisoes WHERE ${when} ORDER BY decidir_ate, valor_estimado_informado DESC NULLS LAST, edital_id`,
  maxRows: MAX_DECISIONS,
})
const STATEMENTS = {
  today: decisionsWhen(DECIDING.today.when),
  soon: decisionsWhen(DECIDING.soon.when),
  agenda: {
    sql: `FROM (
        SELECT data_sessao_dia AS dia, dias_ate_sessao AS dias, data_sessao_local AS hora, 'Sessão' AS evento, edital_id, ${NAMED},
          participation_confirmed AS confirmada, requisitos_vermelhos AS vermelhos
        FROM agenda_sessoes WHERE dias_ate_sessao BETWEEN 0 AND 6
        UNION ALL
        SELECT prazo, dias_ate_prazo, NULL,
          if(action_type = 'impugnacao', 'Último dia para impugnar', 'Último dia para pedir esclarecimento'), edital_id, ${NAMED}, NULL, NULL
        FROM alertas_juridicos
        WHERE em_andamento AND NOT oportunidade AND severity IN ('critical', 'high') AND dias_ate_prazo BETWEEN 0 AND 6
        GROUP BY ALL)
      ORDER BY dia, hora NULLS FIRST, edital_id, evento`,
    maxRows: MAX_AGENDA,
  },
  news: {
    sql: `SELECT edital_id, mudanca, mudanca_ordem, ${clean('de', 'para')}, observado_em, ${NAMED}, retificacao
      FROM novidades WHERE observado_em > coalesce((SELECT max(finished_at) ${LISTINGS}), agora()) - INTERVAL 7 DAY AND observado_em <= agora()
      ORDER BY observado_em DESC, mudanca_ordem, edital_id`,
    maxRows: MAX_NEWS,
  },
  listed: { sql: `SELECT max(finished_at) AS listada_em ${LISTINGS}`, maxRows: 1 },
  deadlines: {
    sql: `SELECT edital_id, ultimo_dia_impugnacao AS impugnar, regra_impugnacao AS regra_impugnar, certeza_impugnacao AS certeza_impugnar,
        ultimo_dia_esclarecimento AS esclarecer, regra_esclarecimento AS regra_esclarecer, certeza_esclarecimento AS certeza_esclarecer
      FROM prazos_impugnacao WHERE dias_ate_impugnacao >= 0 OR dias_ate_esclarecimento >= 0
      ORDER BY greatest(dias_ate_impugnacao, dias_ate_esclarecimento), edital_id`,
    maxRows: MAX_DEADLINES,
  },
} as const

type Served = Pick<ServedCompanies, 'companies' | 'getSnapshot' | 'findLake'>

type Known = {
  /** The snapshot and the day that it was read for. */
  readonly of: string
  readonly today: Promise<Today>
  /** The result of `today`; null until it is read. */
  value: Today | null
  /** From then on, it is read again. */
  againAtMs: number
  hasFailed: boolean
}

/**
 * Reads what *Hoje* shows, once for each snapshot and day, and again after an hour: a reading takes a process, and about a second.
 */
export class TodayReader {
  readonly #served: Served
  readonly #readers: Pick<Readers, 'read'>
  readonly #log: Logger
  readonly #known = new Map<string, Known>()
  #waiting = 0

  constructor(served: Served, log: Logger, readers: Pick<Readers, 'read'> = new Readers(log)) {
    this.#served = served
    this.#readers = readers
    this.#log = log
  }

  /** @throws Refusal (503) if the snapshot cannot be read now. */
  async read(company: string, now: Date): Promise<Today> {
    const { name, timeZone } = this.#served.getSnapshot(company)
    const local = shiftToLocalTime(now, timeZone)
    const of = `${name} ${local.toISOString().slice(0, 10)}`
    const known = this.#known.get(company)
    const isCurrent = known?.of === of
    if (isCurrent && now.getTime() < known.againAtMs) return await known.today
    const canShow = isCurrent && !known.hasFailed
    if (this.#waiting >= MAX_WAITING) {
      if (canShow) return await known.today
      throw new Refusal(503, 'Too many companies are being read.', RETRY_SECONDS)
    }
    const today = this.#readNow(company)
    const againAtMs = now.getTime() + untilNextHour(local)
    // Until it is read, the pages of notices show what was known.
    const read: Known = { of, today, value: known?.value ?? null, againAtMs, hasFailed: false }
    today.then(
      value => {
        read.value = value
      },
      () => {
        read.hasFailed = true
        read.againAtMs = now.getTime() + FAILED_MS
      },
    )
    if (canShow) {
      // Those who look meanwhile do not wait.
      known.againAtMs = read.againAtMs
      today.then(
        () => this.#known.set(company, read),
        () => {},
      )
      return await known.today
    }
    this.#known.set(company, read)
    this.#dropOthers()
    return await today
  }

  /** Returns what is known now; what is not is read for those who come later. */
  peek(company: string, now: Date): Today | null {
    this.read(company, now).catch(() => {})
    return this.#known.get(company)?.value ?? null
  }

  async #readNow(company: string): Promise<Today> {
    const order = { isForeign: false, maxBytes: MAX_BYTES, maxText: MAX_TEXT }
    const statements = Object.values(STATEMENTS)
    // For all who look at it: it does not end with the first one.
    const anybody = { prefix: `hoje ${company}`, isStillValid: () => true }
    this.#waiting += 1
    try {
      const lake = this.#served.findLake(company)
      const signal = new AbortController().signal
      const { results } = await this.#readers.read(anybody, { lake, ...order, statements }, signal)
      const [
        today = NOTHING,
        soon = NOTHING,
        agenda = NOTHING,
        news = NOTHING,
        listed = NOTHING,
        dated = NOTHING,
      ] = results.map(foundIn)
      const deadlines = new Map(dated.rows.map(row => [String(row.edital_id), row]))
      const at = listed.rows[0]?.listada_em
      return { decisions: { today, soon }, agenda, news, listedAt: at ? parseInstant(at) : null, deadlines }
    } catch (error) {
      this.#log.error({ company }, `The page Hoje cannot be read: ${getMessage(error)}`)
      throw new Refusal(503, 'The page cannot be read at the moment.', FAILED_MS / 1000)
    } finally {
      this.#waiting -= 1
    }
  }

  /** Forgets companies that are no longer served. */
  #dropOthers(): void {
    const served = new Set(this.#served.companies)
    for (const company of this.#known.keys()) if (!served.has(company)) this.#known.delete(company)
  }
}

const HOUR_MS = 3_600_000

function untilNextHour(local: Date): number {
  return HOUR_MS - (local.getTime() % HOUR_MS)
}

const NOTHING: Found = { rows: [], isCut: false }

function foundIn(rows: Rows): Found {
  return { rows: makeRecords(rows), isCut: rows.isCut }
}

const MAX_OBJECT = 110
const MAX_NAME = 90
const MAX_VALUE = 60
const MAX_REASON = 160
const SHOWN_NEWS = 10
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
  const local = shiftToLocalTime(now, timeZone)
  const until = findChangesEnd(today.listedAt, now)
  const { since, period } = findPeriod(lastVisit, { until, now, timeZone })
  const body = html`<h1>Hoje, ${DATE.format(local)}</h1>
<h2 id="decidir">Para decidir</h2>
${decisions(today.decisions)}
<h2 id="agenda">Sessões e últimos dias dos próximos sete dias</h2>
${agenda(today.agenda)}
<h2 id="novidades">${period}</h2>
${news(today.news, { since, timeZone })}${until && html`<p class="muted">${explainChangesEnd(formatMoment(until.toISOString(), timeZone))}</p>`}`
  return document({ title: `Hoje · ${company}`, company, dataState, body })
}

function decisions({ today, soon }: Today['decisions']): Html {
  if (today.rows.length + soon.rows.length === 0)
    return html`<p>Nada a decidir: nenhum edital recomendado sem confirmação, participação com requisito vermelho ou alerta grave nos próximos dias.</p>`
  return html`${decisionList('today', today)}${decisionList('soon', soon)}`
}

function decisionList(when: keyof typeof DECIDING, { rows, isCut }: Found): Html {
  const { name } = DECIDING[when]
  if (rows.length === 0) return when === 'today' ? html`<h3>${name}</h3><p>Nada a decidir hoje.</p>` : html``
  return html`<h3>${name}</h3><ol class="notices">${rows.map(decision)}</ol>${isCut && html`<p class="more muted">Há mais: aqui estão os ${MAX_DECISIONS} primeiros.</p>`}`
}

function decision(row: ReadRecord): Html {
  const parts = String(row.decisao ?? '').split('; ')
  return html`<li class="card"><h4>${link(row)}</h4>
<p class="muted">${buyer(row)}</p>
<p class="line"><b>Até ${readDay(row.decidir_ate)} (${formatDistance(Number(row.dias_ate_decidir))})</b>${parts.map(text => chip(text, text.startsWith('confirmar') ? 'yellow' : 'red'))}
<span>${describeStand(textIn(row.recomendacao), textIn(row.nivel_analise))}</span>${typeof row.valor_estimado_informado === 'number' && html`<span>${formatMoney(row.valor_estimado_informado)}</span>`}${typeof row.data_sessao_local === 'string' && html`<span>Sessão: ${formatDayAndTime(timeIn(row.data_sessao_local))}</span>`}</p></li>`
}

function agenda({ rows, isCut }: Found): Html {
  if (rows.length === 0)
    return html`<p>Nenhuma sessão e nenhum último dia de alerta grave nos próximos sete dias.</p>`
  const days = Map.groupBy(rows, row => String(row.dia))
  return html`${[...days].map(
    ([
      dia,
      events,
    ]) => html`<section class="card day"><h3>${formatWeekday(timeIn(dia))}, ${formatDayAndMonth(timeIn(dia))} <span class="muted">${formatDistance(Number(events[0]?.dias))}</span></h3>
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

type Period = { readonly until: Date | null; readonly now: Date; readonly timeZone: string }

/** Returns since when news are shown: a visit after the list was read last, or weeks ago, is not counted from. */
function findPeriod(
  lastVisit: Date | null,
  { until, now, timeZone }: Period,
): { since: Date; period: string } {
  const end = until ?? now
  const age = lastVisit === null ? 0 : end.getTime() - lastVisit.getTime()
  if (lastVisit !== null && age > 0 && age <= 7 * DAY_MS) {
    const visited = formatMoment(lastVisit.toISOString(), timeZone)
    return { since: lastVisit, period: `Novidades desde sua última visita, ${visited}` }
  }
  const period = until
    ? 'Novidades das 24 horas até a última leitura da lista'
    : 'Novidades das últimas 24 horas'
  return { since: new Date(end.getTime() - DAY_MS), period }
}

function news({ rows, isCut }: Found, { since, timeZone }: { since: Date; timeZone: string }): Html {
  const recent = rows
    .filter(({ observado_em }) => parseInstant(observado_em).getTime() > since.getTime())
    // What matters most first; of one kind, the latest.
    .toSorted((a, b) => Number(a.mudanca_ordem) - Number(b.mudanca_ordem))
  if (recent.length === 0) return html`<p>Nada mudou.</p>`
  const counts = [...Map.groupBy(recent, ({ mudanca }) => String(mudanca))]
  const left = recent.length - SHOWN_NEWS
  return html`<p class="line">${counts.map(([kind, some]) => html`<span>${kind}: <b>${some.length}</b></span>`)}</p>
<ul class="entries news card">${recent.slice(0, SHOWN_NEWS).map(row => change(row, timeZone))}</ul>${left > 0 && html`<p class="more muted">E ${isCut && 'pelo menos '}mais ${formatPlural(left, 'mudança', 'mudanças')}. <a href="/editais?ordem=-updated">Editais por última atualização</a></p>`}`
}

function change(row: ReadRecord, timeZone: string): Html {
  const [from, to] = [row.de, row.para].map(text =>
    typeof text === 'string' ? fitInLine(text, MAX_VALUE) : null,
  )
  const isCorrection = row.retificacao === true
  return html`<li><p class="line">${chip(String(row.mudanca), isCorrection ? 'yellow' : 'plain')}${isCorrection && chip('retificação', 'yellow')}${from !== null && html`<span>${from} → <b>${to}</b></span>`}<span class="muted">${formatMoment(parseInstant(row.observado_em).toISOString(), timeZone)}</span></p>
<p>${link(row)} <span class="muted">${buyer(row)}</span></p></li>`
}

function link(row: ReadRecord): Html {
  const text = typeof row.objeto === 'string' ? fitInLine(row.objeto, MAX_OBJECT) : null
  return html`<a href="/editais/${encodeURIComponent(String(row.edital_id))}">${text ?? 'Sem objeto'}</a>`
}

function buyer({ orgao, uf, numero, republicado }: ReadRecord): string {
  const parts = [orgao, uf, numero, republicado].map(one =>
    typeof one === 'string' ? fitInLine(one, MAX_NAME) : null,
  )
  return parts.filter(part => part !== null).join(' · ')
}

/** Returns a day or a local time of the database as a Date whose UTC parts it has. */
function timeIn(text: string): Date {
  return new Date(text.length > 10 ? `${text.replace(' ', 'T')}Z` : text)
}

function textIn(value: unknown): string | null {
  return typeof value === 'string' ? value : null
}

function readDay(value: unknown): string {
  return typeof value === 'string' ? formatDayAndMonth(timeIn(value)) : ''
}

/** Returns an instant of the database, which it writes in UTC: `2026-11-27 09:00:00+00`. */
function parseInstant(value: unknown): Date {
  return new Date(String(value).replace(' ', 'T').replace(/\+00$/, 'Z'))
}

/**
 * Returns the last day to act, how far away it is, and how it was computed; null if it has passed.
 * @param today `2026-12-31`.
 */
export function findLastDay(
  row: ReadRecord | null | undefined,
  act: 'impugnar' | 'esclarecer',
  today: string,
): { readonly day: Date; readonly days: number; readonly why: string } | null {
  const last = row?.[act]
  if (!row || typeof last !== 'string') return null
  const day = timeIn(last)
  const days = (day.getTime() - Date.parse(today)) / DAY_MS
  if (days < 0 || !isPlausible(day)) return null
  const why = [row[`regra_${act}`], row[`certeza_${act}`]].flatMap(text =>
    typeof text === 'string' ? (fitInLine(text, MAX_REASON) ?? []) : [],
  )
  return { day, days, why: why.join(' · ') }
}
